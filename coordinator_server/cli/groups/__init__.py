"""`coordinator-server groups`: look at consumer groups and change them.

Over the server's HTTP API, or over the Kafka protocol, which any broker speaks. What a command
needs is imported when it runs.
"""

from coordinator_server.cli.groups import changing, deleting, reading
from coordinator_server.cli.groups.options import groups

__all__ = ["changing", "deleting", "groups", "reading"]
