"""OffsetFetch."""

from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from coordinator_protocol.offset_value import pack_offset
from coordinator_server.api.chunked_work import AT_ONCE as STEPS_AT_ONCE
from coordinator_server.api.offset_fetch import AT_ONCE
from coordinator_server.group.effects import Fetched, Refuse, Rule
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import (
    Denial,
    FakeCoordinator,
    HandledRequest,
    ask,
    group_services,
)

SINGLE = pytest.mark.parametrize("version", range(1, 8))
BATCHED = pytest.mark.parametrize("version", [8, 9])

Wanted = dict[str, list[int]] | None


def fetch(
    coordinator: FakeCoordinator, version: int, wanted: Wanted, denied: tuple[Denial, ...] = ()
) -> HandledRequest:
    """OffsetFetch of one group in the form of the version."""
    if version >= 8:
        return fetch_groups(coordinator, version, {"g": wanted}, denied)
    topics = wanted and [
        OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
        for name, indexes in wanted.items()
    ]
    services = group_services(coordinator, denied=denied)
    return ask(ApiKey.OFFSET_FETCH, version, services, group_id="g", topics=topics)


def fetch_groups(
    coordinator: FakeCoordinator,
    version: int,
    groups: dict[str, Wanted],
    denied: tuple[Denial, ...] = (),
) -> HandledRequest:
    asked = [
        OffsetFetchRequestGroup(
            group_id=group_id,
            topics=None
            if wanted is None
            else [
                OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                for name, indexes in wanted.items()
            ],
        )
        for group_id, wanted in groups.items()
    ]
    services = group_services(coordinator, denied=denied)
    return ask(ApiKey.OFFSET_FETCH, version, services, groups=asked, require_stable=True)


def found(topics: Any) -> list[tuple[str, int, int, int]]:
    return [
        (topic.name, each.partition_index, each.committed_offset, each.error_code)
        for topic in topics
        for each in topic.partitions
    ]


OFFSETS = Fetched([("orders", [(0, pack_offset(10, 7, "note", 1_000))])])


@pytest.mark.parametrize("version", range(1, 10))
def test_every_version_asks_the_same_and_tells_the_offsets(version: int) -> None:
    coordinator = FakeCoordinator()
    call = fetch(coordinator, version, {"orders": [0]})
    assert coordinator.event.topics == [("orders", [0])]
    assert coordinator.event.require_stable is (version >= 8)
    coordinator.resolve(0, OFFSETS)
    response = call.response
    topics = response.topics if version < 8 else response.groups[0].topics
    assert found(topics) == [("orders", 0, 10, ErrorCode.NONE)]
    assert topics[0].partitions[0].metadata == "note"
    assert topics[0].partitions[0].committed_leader_epoch == (7 if version >= 5 else -1)


@pytest.mark.parametrize("version", range(2, 10))
def test_null_topics_ask_for_all_there_are(version: int) -> None:
    coordinator = FakeCoordinator()
    call = fetch(coordinator, version, None)
    assert coordinator.event.topics is None
    coordinator.resolve(0, OFFSETS)
    response = call.response
    topics = response.topics if version < 8 else response.groups[0].topics
    assert found(topics) == [("orders", 0, 10, ErrorCode.NONE)]


def test_version_1_has_an_error_in_each_partition() -> None:
    coordinator = FakeCoordinator()
    call = fetch(coordinator, 1, {"orders": [0, 1]})
    coordinator.resolve(0, Refuse(ErrorCode.NOT_COORDINATOR, Rule.NOT_OWNED))
    assert found(call.response.topics) == [
        ("orders", 0, -1, ErrorCode.NOT_COORDINATOR),
        ("orders", 1, -1, ErrorCode.NOT_COORDINATOR),
    ]


@pytest.mark.parametrize("version", range(2, 8))
def test_versions_2_to_7_have_an_error_for_the_request(version: int) -> None:
    coordinator = FakeCoordinator()
    call = fetch(coordinator, version, {"orders": [0]})
    coordinator.resolve(0, Refuse(ErrorCode.NOT_COORDINATOR, Rule.NOT_OWNED))
    assert call.response.error_code == ErrorCode.NOT_COORDINATOR
    assert call.response.topics == []


@BATCHED
def test_several_groups_are_answered_once_and_in_order(version: int) -> None:
    coordinator = FakeCoordinator()
    call = fetch_groups(coordinator, version, {"a": {"orders": [0]}, "b": None, "c": None})
    coordinator.resolve(2, Fetched([]))
    coordinator.resolve(0, OFFSETS)
    assert call.is_parked
    coordinator.resolve(1, Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Rule.LOADING))
    assert [(g.group_id, g.error_code, found(g.topics)) for g in call.response.groups] == [
        ("a", ErrorCode.NONE, [("orders", 0, 10, ErrorCode.NONE)]),
        ("b", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []),
        ("c", ErrorCode.NONE, []),
    ]


@BATCHED
def test_no_group_has_an_empty_answer(version: int) -> None:
    assert fetch_groups(FakeCoordinator(), version, {}).response.groups == []


@BATCHED
def test_a_forbidden_group_does_not_hide_the_others(version: int) -> None:
    coordinator = FakeCoordinator()
    denied = ((Operation.DESCRIBE, Resource.GROUP, "a"),)
    call = fetch_groups(coordinator, version, {"a": None, "b": None}, denied)
    coordinator.resolve(0, OFFSETS)
    errors = [(group.group_id, group.error_code) for group in call.response.groups]
    assert errors == [("a", ErrorCode.GROUP_AUTHORIZATION_FAILED), ("b", ErrorCode.NONE)]


FORBIDDEN = ((Operation.DESCRIBE, Resource.TOPIC, "orders"),)


@SINGLE
def test_forbidden_topics_that_are_named_have_an_error(version: int) -> None:
    coordinator = FakeCoordinator()
    call = fetch(coordinator, version, {"orders": [0], "payments": [0]}, FORBIDDEN)
    assert coordinator.event.topics == [("payments", [0])]
    coordinator.resolve(0, Fetched([("payments", [(0, pack_offset(1, -1, "", 1_000))])]))
    assert found(call.response.topics) == [
        ("payments", 0, 1, ErrorCode.NONE),
        ("orders", 0, -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]


def test_forbidden_topics_that_are_not_named_are_left_out() -> None:
    coordinator = FakeCoordinator()
    call = fetch(coordinator, 5, None, FORBIDDEN)
    coordinator.resolve(0, OFFSETS)
    assert call.response.topics == []


async def test_many_groups_are_asked_some_at_a_time() -> None:
    coordinator = FakeCoordinator(lambda *_: OFFSETS)
    groups: dict[str, Wanted] = {f"g{number}": None for number in range(2 * STEPS_AT_ONCE)}
    call = fetch_groups(coordinator, 8, groups)
    assert len(coordinator.submitted) == STEPS_AT_ONCE
    await call.answered()
    assert [group.group_id for group in call.response.groups] == list(groups)


def many_offsets(count: int) -> Fetched:
    return Fetched([("orders", [(index, pack_offset(index, 7, "", 1)) for index in range(count)])])


@pytest.mark.parametrize("version", range(1, 10))
async def test_many_offsets_of_a_group_are_written_some_at_a_time(version: int) -> None:
    count = AT_ONCE * STEPS_AT_ONCE
    coordinator = FakeCoordinator(lambda *_: many_offsets(count))
    call = fetch(coordinator, version, {"orders": [0]})
    assert call.is_parked
    await call.answered()
    response = call.response
    topics = response.topics if version < 8 else response.groups[0].topics
    assert found(topics) == [("orders", index, index, 0) for index in range(count)]


async def test_a_group_with_many_offsets_is_written_before_many_more_are_asked() -> None:
    count = AT_ONCE * STEPS_AT_ONCE
    coordinator = FakeCoordinator(lambda *_: many_offsets(count))
    call = fetch_groups(coordinator, 8, dict.fromkeys(["a", "b", "c"]))
    assert len(coordinator.submitted) == 1
    await call.answered()
    sizes = [(group.group_id, len(found(group.topics))) for group in call.response.groups]
    assert sizes == [("a", count), ("b", count), ("c", count)]
