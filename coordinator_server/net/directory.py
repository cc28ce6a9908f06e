"""The directory of a server that is alone: every answer that names a node names this one.

Clients look the coordinator up among Metadata's nodes, so id, host and port have to be the same
in Metadata, FindCoordinator and DescribeCluster.
"""

from collections.abc import Iterable, Sequence

from coordinator_server.config.listeners import Listener
from coordinator_server.storage.base import Node


class StaticDirectory:
    """Implements ports.Directory with one node, at an address per listener."""

    def __init__(self, node_id: int, cluster_id: str, advertised: Iterable[Listener]) -> None:
        self.cluster_id = cluster_id
        self._nodes = {
            listener.name: Node(node_id, listener.host, listener.port) for listener in advertised
        }

    def bound(self, listener: str, port: int) -> None:
        """Tell which port a listener has got; what is advertised as port 0 is this one."""
        node = self._nodes[listener]
        if node.port == 0:
            self._nodes[listener] = node._replace(port=port)

    def this_node(self, listener: str) -> Node:
        """The node as clients of the listener reach it."""
        return self._nodes[listener]

    def nodes(self, listener: str) -> Sequence[Node]:
        """The one node."""
        return (self._nodes[listener],)

    def coordinator(self, _partition: int, listener: str) -> Node | None:
        """The one node."""
        return self._nodes[listener]

    def leader(self, _topic: str, _partition: int, listener: str) -> Node | None:
        """The one node."""
        return self._nodes[listener]
