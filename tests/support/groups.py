"""A coordinator that writes down what it is asked, and services round it."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from uuid import UUID

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import load_api, request_encoder, response_decoder, response_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.java import partition_for
from coordinator_server.api.registry import find_route
from coordinator_server.api.services import Services
from coordinator_server.clock import ManualClock
from coordinator_server.group.effects import FetchedTopic, Refuse, Result
from coordinator_server.group.events import CommitOffsets, Event, FetchOffsets, Token
from coordinator_server.group.rebalance_events import Culprit
from coordinator_server.ports import Operation, Resource, TopicInfo
from coordinator_server.runtime.coordinator import GroupList, ListedGroup
from coordinator_server.runtime.ticket import Ticket
from tests.support.api import NOW, FakeAuthorizer, FakeCall, FakeDirectory

MOST_TURNS = 10_000

Denial = tuple[Operation, Resource, str]
Script = Callable[[str, Event], Result | None]
"""What a group answers at once; None leaves the request parked."""


def _parked(_group_id: str, _event: Event) -> Result | None:
    return None


class FakeRecommittal(NamedTuple):
    """Stands for coordinator.Recommittal."""

    make: Callable[[Sequence[bytes], Token, int], bool]


@dataclass
class FakeCoordinator:
    """Keeps every event; answers as scripted, or when `resolve` is called."""

    script: Script = _parked
    submitted: list[tuple[str, Any]] = field(default_factory=list)
    listed: Sequence[ListedGroup] = ()
    list_error: ErrorCode = ErrorCode.NONE
    refused: list[tuple[str, str, Refuse, Culprit]] = field(default_factory=list)
    """Group, API, why and whom: what was refused before a group was asked."""

    def partition_for(self, group_id: str) -> int:
        """As the real one."""
        return partition_for(group_id, 50)

    def submit(self, group_id: str, event: Event) -> None:
        """Note the event."""
        self.submitted.append((group_id, event))
        result = self.script(group_id, event)
        if result is not None:
            self.resolve(len(self.submitted) - 1, result)

    def tell_refused(self, group_id: str, api: str, refuse: Refuse, *member: Any) -> None:
        """Note it."""
        self.refused.append((group_id, api, refuse, Culprit(*member)))

    def renew(self, *_: Any) -> bool:
        """Leave every heartbeat to `submit`."""
        return False

    def fetched(self, _group_id: str, _event: FetchOffsets) -> Sequence[FetchedTopic] | None:
        """Leave every OffsetFetch to `submit`."""
        return None

    def recommittal(self, _group_id: str, _asked: CommitOffsets) -> FakeRecommittal:
        """Leave every commit to `submit`."""
        return FakeRecommittal(lambda _offsets, _token, _now: False)

    def resolve(self, index: int, result: Result) -> None:
        """Answer the event that was submitted as number `index`."""
        token = self.submitted[index][1].token
        assert isinstance(token, Ticket)
        token.resolve(result)

    def list_groups(self) -> GroupList:
        """What was given."""
        return GroupList(self.listed, self.list_error)

    @property
    def event(self) -> Any:
        """The one event there was."""
        ((_, event),) = self.submitted
        return event


class FakeImage:
    """Topics by name."""

    def __init__(self, topics: Iterable[tuple[str, int]]) -> None:
        """Make topics of so many partitions."""
        self._topics = {
            name: TopicInfo(name, UUID(int=number), partitions)
            for number, (name, partitions) in enumerate(topics, start=1)
        }

    def get(self, name: str) -> TopicInfo | None:
        """The topic of that name."""
        return self._topics.get(name)


def group_services(
    coordinator: FakeCoordinator | None = None,
    *,
    denied: Iterable[Denial] = (),
    topics: Iterable[tuple[str, int]] = (("orders", 3), ("payments", 1)),
    **config: Any,
) -> Services:
    """Services round a fake coordinator; `config` are properties with dots as underscores."""
    defaults = {
        "socket_request_max_bytes": 104_857_600,
        "group_min_session_timeout_ms": 6_000,
        "group_max_session_timeout_ms": 1_800_000,
    }
    return cast(
        "Services",
        SimpleNamespace(
            config=SimpleNamespace(**{**defaults, **config}),
            coordinator=coordinator or FakeCoordinator(),
            image=FakeImage(topics),
            directory=FakeDirectory(),
            authorizer=FakeAuthorizer(set(denied)),
            clock=ManualClock(NOW),
        ),
    )


class Asked(FakeCall):
    """A request that was handed to its API module; `response` went through the wire format."""

    @property
    def response(self) -> Any:
        """The one answer there was, as a client of this version reads it."""
        (answer,) = self.answers
        body = (
            answer
            if isinstance(answer, bytes)
            else response_encoder(self.api_key, self.version)(answer)
        )
        return response_decoder(self.api_key, self.version)(body, 0, len(body))

    @property
    def is_parked(self) -> bool:
        """Whether the answer is still to come."""
        return not self.answers

    async def answered(self) -> None:
        """Wait, some turns of the loop long, for an answer that needs nothing else."""
        for _ in range(MOST_TURNS):
            if self.is_parked:
                await asyncio.sleep(0)
        assert not self.is_parked


def ask(api: ApiKey, version: int, services: Services, /, **fields: Any) -> Asked:
    """Hand a request to its API module, as a client of this version would send it."""
    way = find_route(api, version)
    assert way is not None
    body = request_encoder(api, version)(load_api(api).request(**fields))
    call = Asked(version, api_key=api)
    response = way.handle(call, way.decode(body, 0, len(body)), services)
    if way.is_async:
        response = _end_of(response)
    if response is not None:
        call.answer(response)
    return call


def _end_of(handling: Coroutine[Any, Any, Any]) -> Any:
    """What comes of a handler that waits for nothing, and only lets others have their turns."""
    with closing(handling):
        while True:
            try:
                handling.send(None)
            except StopIteration as end:
                return end.value
