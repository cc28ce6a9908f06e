"""Fake dependencies of API handlers: a call, a directory, an authorizer and services."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from coordinator_server.api.services import Services
from coordinator_server.clock import ManualClock
from coordinator_server.ports import ANONYMOUS, Caller, Operation, Resource
from coordinator_server.storage.base import Node
from coordinator_server.topics.service import Topics

CALLER = Caller(ANONYMOUS, "/127.0.0.1", "tester", "PLAINTEXT")
NODE = Node(7, "broker.example", 9092)


@dataclass
class FakeCall:
    """A call that records its response."""

    version: int
    api_key: int = -1
    caller: Caller = CALLER
    now_ms: int = 0
    answers: list[Any] = field(default_factory=list)
    disconnected: str | None = None
    answered_nothing: bool = False

    def answer(self, response: Any) -> None:
        """Record the response."""
        self.answers.append(response)

    def answer_body(self, body: bytes, error: int = 0) -> None:
        """Record the body."""
        self.answers.append(body)

    def answer_parts(self, parts: list[bytes], error: int = 0) -> None:
        """Record the body."""
        self.answers.append(b"".join(parts))

    def may_grow(self, _size: int, _go_on: Callable[[], None]) -> bool:
        """Memory is always available."""
        return True

    def answer_nothing(self) -> None:
        """Record that the request gets no response."""
        self.answered_nothing = True

    def failed(self, bug: BaseException) -> None:
        raise bug

    def disconnect(self, why: str) -> None:
        """Record the reason."""
        self.disconnected = why


@dataclass
class FakeDirectory:
    """One node, which leads every partition unless `leaderless`."""

    cluster_id: str = "test-cluster"
    leaderless: bool = False

    def this_node(self, listener: str) -> Node:
        """The one node."""
        return NODE

    def controller(self, listener: str) -> Node:
        """The one node."""
        return NODE

    def nodes(self, listener: str) -> Sequence[Node]:
        """The one node."""
        return [NODE]

    def coordinator(self, partition: int, listener: str) -> Node | None:
        """The one node."""
        return NODE

    def leader(self, topic: str, partition: int, listener: str) -> Node | None:
        """The one node."""
        return None if self.leaderless else NODE


Denied = set[tuple[Operation, Resource, str]]


@dataclass
class FakeAuthorizer:
    """Allows all operations that are not denied."""

    denied: Denied = field(default_factory=set)

    def allowed(self, caller: Caller, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether the operation is not denied."""
        return (operation, resource, name) not in self.denied


NOW = 1_700_000_000_000
"""The time of the clocks, ms since the epoch."""


class CountedIds:
    """Topic ids 1, 2, 3, ..."""

    def __init__(self, first: int = 1) -> None:
        """Start with `first`."""
        self._next = first

    def member_suffix(self) -> str:
        """Fail: these tests have no groups."""
        raise AssertionError("asked for a member id")

    def topic_id(self) -> UUID:
        """The next id."""
        self._next += 1
        return UUID(int=self._next - 1)


ServicesFactory = Callable[..., Services]


def fake_services(
    topics: Topics,
    *,
    denied: Denied | None = None,
    leaderless: bool = False,
    **config: Any,
) -> Services:
    """Services with real topics; `config` are properties with dots as underscores."""
    defaults = {
        "auto_create_topics_enable": True,
        "num_partitions": 1,
        "offsets_topic_num_partitions": 3,
    }
    return cast(
        "Services",
        SimpleNamespace(
            config=SimpleNamespace(**{**defaults, **config}),
            topics=topics,
            image=topics.catalog,
            directory=FakeDirectory(leaderless=leaderless),
            authorizer=FakeAuthorizer(denied or set()),
            clock=ManualClock(NOW),
            ids=CountedIds(1000),
        ),
    )
