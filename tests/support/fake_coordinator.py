"""A coordinator that records its events, and services that use it."""

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
from tests.support.fake_services import NOW, FakeAuthorizer, FakeCall, FakeDirectory

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
    """Records every event; answers as scripted or when `resolve` is called."""

    script: Script = _parked
    submitted: list[tuple[str, Any]] = field(default_factory=list)
    listed: Sequence[ListedGroup] = ()
    list_error: ErrorCode = ErrorCode.NONE
    refused: list[tuple[str, str, Refuse, Culprit]] = field(default_factory=list)
    """Group, API, why and whom: what was refused before a group was asked."""

    def partition_for(self, group_id: str) -> int:
        """The partition of a group, as in the coordinator."""
        return partition_for(group_id, 50)

    def submit(self, group_id: str, event: Event) -> None:
        """Record the event."""
        self.submitted.append((group_id, event))
        result = self.script(group_id, event)
        if result is not None:
            self.resolve(len(self.submitted) - 1, result)

    def tell_refused(self, group_id: str, api: str, refuse: Refuse, *member: Any) -> None:
        """Record the refusal."""
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
        """Answer the event with this index."""
        token = self.submitted[index][1].token
        assert isinstance(token, Ticket)
        token.resolve(result)

    def list_groups(self) -> GroupList:
        """The given groups."""
        return GroupList(self.listed, self.list_error)

    @property
    def event(self) -> Any:
        """The only event."""
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
    """Services with a fake coordinator; `config` are properties with dots as underscores."""
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


class HandledRequest(FakeCall):
    """A handled request; `response` has been encoded and decoded again."""

    @property
    def response(self) -> Any:
        """The only response, as a client of this version decodes it."""
        (answer,) = self.answers
        body = (
            answer
            if isinstance(answer, bytes)
            else response_encoder(self.api_key, self.version)(answer)
        )
        return response_decoder(self.api_key, self.version)(body, 0, len(body))

    @property
    def is_parked(self) -> bool:
        """Whether there is no response yet."""
        return not self.answers

    async def answered(self) -> None:
        """Run the event loop for some turns until there is a response."""
        for _ in range(MOST_TURNS):
            if self.is_parked:
                await asyncio.sleep(0)
        assert not self.is_parked


def ask(api: ApiKey, version: int, services: Services, /, **fields: Any) -> HandledRequest:
    """Encode a request, decode it and call its handler."""
    way = find_route(api, version)
    assert way is not None
    body = request_encoder(api, version)(load_api(api).request(**fields))
    call = HandledRequest(version, api_key=api)
    response = way.handle(call, way.decode(body, 0, len(body)), services)
    if way.is_async:
        response = _end_of(response)
    if response is not None:
        call.answer(response)
    return call


def _end_of(handling: Coroutine[Any, Any, Any]) -> Any:
    """Run a handler that only yields to the event loop; returns its result."""
    with closing(handling):
        while True:
            try:
                handling.send(None)
            except StopIteration as end:
                return end.value
