"""`coordinator-server groups`: look at consumer groups and change them.

Over the server's HTTP API, or over the Kafka protocol, which any broker speaks. What a command
needs is imported when it runs.
"""

from coordinator_server.groupcommands import changing, deleting, reading
from coordinator_server.groupcommands.options import groups

__all__ = ["changing", "deleting", "groups", "reading"]
