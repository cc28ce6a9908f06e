"""Interfaces between the packages; only `app.py` chooses their implementations."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol
from uuid import UUID

from coordinator_server.storage.base import Node


class Ids(Protocol):
    """Generates random ids."""

    def member_suffix(self) -> str:
        """The `<uuid>` of a generated member id `<client id>-<uuid>`."""
        ...

    def topic_id(self) -> UUID:
        """A new topic id."""
        ...


class Directory(Protocol):
    """Nodes and owners of partitions, for Metadata, FindCoordinator and DescribeCluster."""

    cluster_id: str

    def this_node(self, listener: str) -> Node:
        """This node as clients of a listener reach it."""
        ...

    def controller(self, listener: str) -> Node:
        """The node that creates and deletes topics."""
        ...

    def nodes(self, listener: str) -> Sequence[Node]:
        """All nodes as clients of a listener reach them."""
        ...

    def coordinator(self, partition: int, listener: str) -> Node | None:
        """The owner of a coordinator partition; None while it has none."""
        ...

    def leader(self, topic: str, partition: int, listener: str) -> Node | None:
        """The leader of a topic partition; None while it has none."""
        ...


class TopicInfo(NamedTuple):
    """A topic as the coordinator and Metadata use it."""

    name: str
    topic_id: UUID
    partitions: int
    internal: bool = False


class TopicImage(Protocol):
    """The existing topics."""

    def get(self, name: str) -> TopicInfo | None:
        """The topic of that name."""
        ...

    def by_id(self, topic_id: UUID) -> TopicInfo | None:
        """The topic of that id."""
        ...

    def topics(self) -> Mapping[str, TopicInfo]:
        """All topics by name."""
        ...

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call `listener(name)` whenever a topic is created, deleted or grows."""
        ...


class Principal(NamedTuple):
    """The authenticated user of a connection."""

    kind: str
    name: str


ANONYMOUS = Principal("User", "ANONYMOUS")


class Authenticator(Protocol):
    """Authenticates connections."""

    def principal(self, listener: str, host: str) -> Principal | None:
        """The user of a connection; None before it has authenticated."""
        ...


class Operation(IntEnum):
    """Kafka's AclOperation codes."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Resource(IntEnum):
    """Kafka's ResourceType codes."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Caller(NamedTuple):
    """The sender of a request, for authorization."""

    principal: Principal
    host: str
    client_id: str | None
    listener: str


class Authorizer(Protocol):
    """Authorizes operations."""

    def allowed(self, caller: Caller, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether `caller` may do `operation` on the resource `name`."""
        ...
