"""OffsetFetch requests that are served from their bytes: the offsets of this moment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages import offset_fetch as messages
from coordinator_protocol.offset_value import pack_offset
from coordinator_server.api.offset_fetch import AT_ONCE
from coordinator_server.api.registry import find_route
from coordinator_server.group.effects import DONE, Fetched, FetchedTopic, Result
from coordinator_server.group.events import Event, FetchOffsets
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.session_harness import SessionHarness, heartbeat, request

FLEXIBLE = pytest.mark.parametrize("version", range(6, 10))
ORDERS = (("orders", [0, 1]),)
Named = Sequence[tuple[str, list[int]]] | None


@dataclass
class TellingCoordinator(FakeCoordinator):
    """Answers with one offset, at once as long as `is_settled` is set."""

    offset: int = 10
    is_settled: bool = True
    asked: list[tuple[str, FetchOffsets]] = field(default_factory=list)

    def found(self) -> Sequence[FetchedTopic]:
        """The offsets of the group."""
        return [("orders", [(0, pack_offset(self.offset, -1, "", 1_000)), (1, None)])]

    def fetched(self, group_id: str, event: FetchOffsets) -> Sequence[FetchedTopic] | None:
        """See Coordinator."""
        if not self.is_settled:
            return None
        self.asked.append((group_id, event))
        return self.found()

    def answer(self, _group_id: str, event: Event) -> Result:
        """As the group answers an event."""
        return Fetched(self.found()) if isinstance(event, FetchOffsets) else DONE


@pytest.fixture
def coordinator() -> TellingCoordinator:
    telling = TellingCoordinator()
    telling.script = telling.answer
    return telling


@pytest.fixture
def talk(coordinator: TellingCoordinator) -> SessionHarness:
    """A connection whose client has been named in requests of both header versions."""
    talk = SessionHarness(coordinator)
    for version in range(6, 10):
        find_route(ApiKey.OFFSET_FETCH, version)  # made with the first request otherwise
    talk.send(heartbeat(0, 3), heartbeat(0, 4))
    assert len(talk.answers()) == 2
    coordinator.submitted.clear()
    return talk


def fetch(correlation_id: int, version: int, topics: Named = ORDERS) -> bytes:
    """The frame of a request for one group."""
    if version < 8:
        plain = [messages.OffsetFetchRequestTopic(*topic) for topic in topics or ()]
        fields: dict[str, Any] = {"group_id": "g", "topics": plain if topics else None}
    else:
        batched = [
            messages.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in topics or ()
        ]
        asked = batched if topics else None
        fields = {"groups": [messages.OffsetFetchRequestGroup(group_id="g", topics=asked)]}
    return request(ApiKey.OFFSET_FETCH, version, correlation_id, **fields)


@FLEXIBLE
@pytest.mark.parametrize("topics", [ORDERS, None])
def test_it_is_answered_as_by_the_general_path(
    talk: SessionHarness, coordinator: TellingCoordinator, version: int, topics: Named
) -> None:
    talk.send(fetch(1, version, topics))
    assert not coordinator.submitted
    coordinator.is_settled = False
    talk.send(fetch(1, version, topics))
    express, general = talk.answers()
    assert express == general
    assert coordinator.submitted[0][1].topics == coordinator.asked[0][1].topics
    assert talk.counters.requests[ApiKey.OFFSET_FETCH, 0] == 2


@FLEXIBLE
def test_it_tells_the_offsets_of_the_moment(
    talk: SessionHarness, coordinator: TellingCoordinator, version: int
) -> None:
    told = []
    for coordinator.offset in (10, 11):
        talk.send(fetch(1, version))
        ((_, answer),) = talk.answered(ApiKey.OFFSET_FETCH, version)
        topics = answer.topics if version < 8 else answer.groups[0].topics
        told.append([each.committed_offset for topic in topics for each in topic.partitions])
    assert told == [[10, -1], [11, -1]]
    assert not coordinator.submitted


@pytest.mark.parametrize("version", range(1, 6))
def test_older_versions_are_served_by_the_general_path(
    talk: SessionHarness, coordinator: TellingCoordinator, version: int
) -> None:
    talk.send(fetch(1, version))
    assert len(coordinator.submitted) == 1
    assert not coordinator.asked


def test_many_partitions_are_left_to_the_path_that_serves_them_in_slices(
    talk: SessionHarness, coordinator: TellingCoordinator
) -> None:
    talk.send(fetch(1, 9, [("orders", list(range(AT_ONCE + 1)))]))
    assert len(coordinator.submitted) == 1
    assert not coordinator.asked


@pytest.mark.parametrize("denied", [Resource.GROUP, Resource.TOPIC])
@pytest.mark.parametrize("topics", [ORDERS, None])
def test_what_the_caller_may_not_describe_is_left_to_the_general_path(
    talk: SessionHarness,
    coordinator: TellingCoordinator,
    monkeypatch: pytest.MonkeyPatch,
    denied: Resource,
    topics: Named,
) -> None:
    def allowed(_caller: object, _operation: Operation, resource: Resource, _name: str) -> bool:
        return resource is not denied

    monkeypatch.setattr(talk.services.authorizer, "allowed", allowed)
    talk.send(fetch(1, 9, topics))
    ((_, answer),) = talk.answered(ApiKey.OFFSET_FETCH, 9)
    (group,) = answer.groups
    if denied is Resource.GROUP:
        assert group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif topics is None:
        assert group.topics == []
    else:
        errors = {each.error_code for topic in group.topics for each in topic.partitions}
        assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in errors
