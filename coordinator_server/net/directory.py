"""The addresses of brokers: of a single server, or of one of several workers.

Clients look the coordinator up among Metadata's nodes, so id, host and port have to be the same
in Metadata, FindCoordinator and DescribeCluster.
"""

from collections.abc import Iterable, Mapping, Sequence

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

    def controller(self, listener: str) -> Node:
        """The one node."""
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


class WorkersDirectory:
    """Implements ports.Directory for one of several workers on one data directory.

    Partition `p`, of the coordinator's log as of any topic, belongs to worker `p` modulo their
    number; the first one is the controller. Nothing of it ever changes.
    """

    def __init__(self, index: int, cluster_id: str, nodes: Mapping[str, Sequence[Node]]) -> None:
        """`nodes` are all workers, in order, as clients of each listener reach them."""
        self.cluster_id = cluster_id
        self._index = index
        self._nodes = {listener: tuple(each) for listener, each in nodes.items()}

    def bound(self, listener: str, port: int) -> None:
        """Nothing new: the addresses were taken before the workers began."""

    def this_node(self, listener: str) -> Node:
        """This worker as clients of the listener reach it."""
        return self._nodes[listener][self._index]

    def controller(self, listener: str) -> Node:
        """The first worker."""
        return self._nodes[listener][0]

    def nodes(self, listener: str) -> Sequence[Node]:
        """All workers, whether they run or are just being started again."""
        return self._nodes[listener]

    def coordinator(self, partition: int, listener: str) -> Node | None:
        """The worker a partition of the coordinator's log belongs to."""
        return self._of(partition, listener)

    def leader(self, _topic: str, partition: int, listener: str) -> Node | None:
        """The worker a topic partition belongs to."""
        return self._of(partition, listener)

    def _of(self, partition: int, listener: str) -> Node:
        nodes = self._nodes[listener]
        return nodes[partition % len(nodes)]
