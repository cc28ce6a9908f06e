"""`coordinator-server groups`: shows and changes consumer groups.

Commands use the server's HTTP API, or the Kafka protocol with any broker. They import their
modules when they run.
"""

from coordinator_server.cli.groups import changing, deleting, reading
from coordinator_server.cli.groups.options import groups

__all__ = ["changing", "deleting", "groups", "reading"]
