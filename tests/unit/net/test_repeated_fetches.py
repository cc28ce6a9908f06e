"""An OffsetFetch that has come twice: the group is asked each time, and what it has is told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages import offset_fetch as messages
from coordinator_protocol.offset_value import pack_offset
from coordinator_server.group.effects import Fetched, FetchedTopic, Result
from coordinator_server.group.events import Event, FetchOffsets
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.session_harness import SessionHarness, request

FLEXIBLE = pytest.mark.parametrize("version", range(6, 10))


@dataclass
class Telling(FakeCoordinator):
    """Tells the offset there is, at once unless it is held back."""

    offset: int = 10
    is_settled: bool = True
    asked: list[tuple[str, FetchOffsets]] = field(default_factory=list)

    def found(self) -> Sequence[FetchedTopic]:
        return [("orders", [(0, pack_offset(self.offset, -1, "", 1_000)), (1, None)])]

    def fetching(
        self, group_id: str, event: FetchOffsets
    ) -> Callable[[], Sequence[FetchedTopic] | None]:
        def fetched() -> Sequence[FetchedTopic] | None:
            self.asked.append((group_id, event))
            return self.found() if self.is_settled else None

        return fetched

    def answer(self, _group_id: str, _event: Event) -> Result:
        return Fetched(self.found())


@pytest.fixture
def coordinator() -> Telling:
    telling = Telling()
    telling.script = telling.answer
    return telling


@pytest.fixture
def talk(coordinator: Telling) -> SessionHarness:
    return SessionHarness(coordinator)


def fetch(correlation_id: int, version: int, topics: Any = (("orders", [0, 1]),)) -> bytes:
    return request(ApiKey.OFFSET_FETCH, version, correlation_id, **fields(version, topics))


def fields(version: int, topics: Any) -> dict[str, Any]:
    if version < 8:
        if topics is not None:
            topics = [
                messages.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in topics
            ]
        return {"group_id": "g", "topics": topics}
    if topics is not None:
        topics = [
            messages.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in topics
        ]
    return {"groups": [messages.OffsetFetchRequestGroup(group_id="g", topics=topics)]}


def offsets(talk: SessionHarness, version: int) -> list[tuple[int, list[int]]]:
    """The correlation ids of the answers, and the offsets in each."""
    answers = talk.answered(ApiKey.OFFSET_FETCH, version)
    return [
        (number, [each.committed_offset for topic in topics for each in topic.partitions])
        for number, answer in answers
        for topics in ([answer.topics] if version < 8 else [g.topics for g in answer.groups])
    ]


@FLEXIBLE
def test_it_is_answered_like_the_first_with_what_there_is_now(
    talk: SessionHarness, coordinator: Telling, version: int
) -> None:
    talk.send(*(fetch(number, version) for number in range(4)))
    coordinator.offset = 11
    talk.send(fetch(4, version), fetch(5, version))
    assert offsets(talk, version) == [
        *((number, [10, -1]) for number in range(4)),
        *((number, [11, -1]) for number in (4, 5)),
    ]
    assert len(coordinator.submitted) == 2
    assert {group for group, _ in coordinator.asked} == {"g"}
    first, again = coordinator.submitted[0][1], coordinator.asked[0][1]
    assert again.topics == first.topics == [("orders", [0, 1])]
    assert again.require_stable == first.require_stable
    assert talk.counters.requests == {(ApiKey.OFFSET_FETCH, 0): 6}


@FLEXIBLE
def test_what_is_held_back_goes_the_way_of_all_requests(
    talk: SessionHarness, coordinator: Telling, version: int
) -> None:
    talk.send(fetch(0, version), fetch(1, version))
    coordinator.is_settled = False
    talk.send(fetch(2, version))
    assert offsets(talk, version) == [(number, [10, -1]) for number in range(3)]
    assert len(coordinator.submitted) == 3


@pytest.mark.parametrize(
    ("version", "topics"), [*((version, (("orders", [0]),)) for version in range(1, 6)), (8, None)]
)
def test_old_versions_and_questions_for_all_offsets_are_not_remembered(
    talk: SessionHarness, coordinator: Telling, version: int, topics: Any
) -> None:
    talk.send(*(fetch(number, version, topics) for number in range(3)))
    assert len(coordinator.submitted) == 3
    assert coordinator.asked == []


@pytest.mark.parametrize(
    "denied",
    [
        (Operation.DESCRIBE, Resource.GROUP, "g"),
        (Operation.DESCRIBE, Resource.TOPIC, "orders"),
    ],
)
def test_a_permission_that_is_gone_ends_the_repetition(
    talk: SessionHarness, coordinator: Telling, denied: Any
) -> None:
    talk.send(fetch(0, 8), fetch(1, 8))
    services: Any = talk.session._services
    services.authorizer.denied.add(denied)
    coordinator.script = lambda _group, _event: Fetched([])
    talk.answers()
    talk.send(fetch(2, 8))
    assert coordinator.asked == []
    ((_, answer),) = talk.answered(ApiKey.OFFSET_FETCH, 8)
    (group,) = answer.groups
    errors = [group.error_code, *(p.error_code for t in group.topics for p in t.partitions)]
    assert set(errors) - {ErrorCode.NONE} == {
        ErrorCode.GROUP_AUTHORIZATION_FAILED
        if denied[1] is Resource.GROUP
        else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    }
