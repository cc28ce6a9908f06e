"""The plan that a worker gets at its start: its share, its addresses, the topics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from coordinator_server.config import Config, from_texts, texts
from coordinator_server.config.listeners import Listener
from coordinator_server.ports import TopicInfo
from coordinator_server.storage.base import Node
from coordinator_server.storage.segments.shares import Share
from coordinator_server.topics.catalog import from_form
from coordinator_server.topics.catalog_file import to_form
from coordinator_server.workers.channel import Form

Nodes = Mapping[str, Sequence[Node]]
"""The workers in order, by listener."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A worker's, made by its supervisor."""

    config: Config
    share: Share
    cluster_id: str
    start: int
    """How often a supervisor has been started on the data directory."""
    nodes: Nodes
    sockets: Mapping[str, Sequence[int]]
    """File descriptors by listener."""
    http_socket: int | None
    topics: Sequence[TopicInfo]
    gone: Sequence[TopicInfo]
    """Topics that were deleted while this worker was away."""

    def form(self) -> Form:
        """For the channel."""
        return {
            "settings": texts(self.config),
            "share": [self.share.index, self.share.of],
            "cluster_id": self.cluster_id,
            "start": self.start,
            "nodes": self.nodes,
            "sockets": self.sockets,
            "http_socket": self.http_socket,
            "topics": [to_form(topic) for topic in self.topics],
            "gone": [to_form(topic) for topic in self.gone],
        }

    @classmethod
    def of(cls, form: Form) -> Self:
        """From the channel."""
        nodes = {name: [Node(*each) for each in listed] for name, listed in form["nodes"].items()}
        return cls(
            config=from_texts(form["settings"]),
            share=Share(*form["share"]),
            cluster_id=form["cluster_id"],
            start=form["start"],
            nodes=nodes,
            sockets=form["sockets"],
            http_socket=form["http_socket"],
            topics=[from_form(each) for each in form["topics"]],
            gone=[from_form(each) for each in form["gone"]],
        )

    @property
    def node_id(self) -> int:
        """The worker's."""
        return self.config.node_id + self.share.index


def listeners_of(config: Config, index: int) -> tuple[Listener, ...]:
    """Where a worker listens; port 0 stays 0."""
    return tuple(_moved(listener, config, index) for listener in config.listeners)


def nodes_of(config: Config, ports: Sequence[Mapping[str, int]]) -> Nodes:
    """The advertised addresses of each listener, given the ports of all workers."""
    told = {listener.name: listener for listener in config.advertised()}
    return {
        name: [
            Node(
                config.node_id + index,
                listener.host,
                _moved(listener, config, index).port or bound[name],
            )
            for index, bound in enumerate(ports)
        ]
        for name, listener in told.items()
    }


def _moved(listener: Listener, config: Config, index: int) -> Listener:
    if not listener.port:
        return listener
    return listener._replace(port=listener.port + index * config.workers_port_step)
