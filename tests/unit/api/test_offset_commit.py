"""OffsetCommit."""

from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_server.group.effects import Committed, Refuse, Rule
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import (
    Denial,
    FakeCoordinator,
    HandledRequest,
    ask,
    group_services,
)
from tests.support.offsets import offsets_of

VERSIONS = pytest.mark.parametrize("version", range(2, 10))


def topic(name: str, *indexes: int) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        name=name,
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=10 + index,
                committed_leader_epoch=7,
                committed_metadata=None if index else "note",
            )
            for index in indexes
        ],
    )


def commit(
    coordinator: FakeCoordinator,
    version: int,
    *topics: OffsetCommitRequestTopic,
    denied: tuple[Denial, ...] = (),
    **fields: Any,
) -> HandledRequest:
    given = {
        "group_id": "g",
        "generation_id_or_member_epoch": 5,
        "member_id": "m",
        "retention_time_ms": 1000,
        "group_instance_id": "i" if version >= 7 else None,
        "topics": list(topics),
    }
    services = group_services(coordinator, denied=denied)
    return ask(ApiKey.OFFSET_COMMIT, version, services, **{**given, **fields})


def errors(call: HandledRequest) -> list[tuple[str, int, int]]:
    return [
        (entry.name, partition.partition_index, partition.error_code)
        for entry in call.response.topics
        for partition in entry.partitions
    ]


@VERSIONS
def test_every_version_makes_the_same_event(version: int) -> None:
    coordinator = FakeCoordinator()
    call = commit(coordinator, version, topic("orders", 0, 1))
    assert call.is_parked
    event = coordinator.event
    assert (event.member_id, event.generation) == ("m", 5)
    assert event.group_instance_id == ("i" if version >= 7 else None)
    assert event.retention_ms == (1000 if version <= 4 else -1)
    assert event.knows_group_id_not_found is (version >= 9)
    epoch = 7 if version >= 6 else -1
    assert [(o.topic, o.partition, o.offset, o.leader_epoch) for o in offsets_of(event)] == [
        ("orders", 0, 10, epoch),
        ("orders", 1, 11, epoch),
    ]
    assert [o.metadata or "" for o in offsets_of(event)] == ["note", ""]
    coordinator.resolve(0, Committed([ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]))
    assert errors(call) == [
        ("orders", 0, ErrorCode.NONE),
        ("orders", 1, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ]


@VERSIONS
def test_what_does_not_exist_is_refused_and_harms_nothing_else(version: int) -> None:
    coordinator = FakeCoordinator()
    call = commit(
        coordinator, version, topic("missing", 0), topic("orders", 2, 3, -1), topic("payments", 0)
    )
    assert [(o.topic, o.partition) for o in offsets_of(coordinator.event)] == [
        ("orders", 2),
        ("payments", 0),
    ]
    coordinator.resolve(0, Committed([ErrorCode.NONE, ErrorCode.NONE]))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(call) == [
        ("missing", 0, unknown),
        ("orders", 3, unknown),
        ("orders", -1, unknown),
        ("orders", 2, 0),
        ("payments", 0, 0),
    ]


def test_a_refusal_of_the_group_is_that_of_every_partition_it_was_asked_for() -> None:
    coordinator = FakeCoordinator()
    call = commit(coordinator, 8, topic("missing", 0), topic("orders", 0, 1))
    coordinator.resolve(0, Refuse(ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS))
    assert errors(call) == [
        ("missing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 0, ErrorCode.ILLEGAL_GENERATION),
        ("orders", 1, ErrorCode.ILLEGAL_GENERATION),
    ]


def test_forbidden_topics_are_told_apart_from_missing_ones() -> None:
    coordinator = FakeCoordinator()
    denied = ((Operation.READ, Resource.TOPIC, "orders"),)
    call = commit(coordinator, 8, topic("orders", 0), denied=denied)
    assert errors(call) == [("orders", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    assert coordinator.submitted == []


def test_a_commit_of_nothing_that_exists_does_not_reach_the_group() -> None:
    coordinator = FakeCoordinator()
    assert commit(coordinator, 9).response.topics == []
    assert errors(commit(coordinator, 9, topic("missing", 1)))[0][1] == 1
    assert coordinator.submitted == []


def test_the_empty_group_id_is_a_group_like_any_other() -> None:
    coordinator = FakeCoordinator()
    commit(coordinator, 9, topic("orders", 0), group_id="")
    assert coordinator.submitted[0][0] == ""


def names(call: HandledRequest) -> list[tuple[str, int]]:
    return [(entry.name, len(entry.partitions)) for entry in call.response.topics]


@VERSIONS
def test_a_topic_of_which_no_partition_is_named_is_answered_only_if_it_is_missing(
    version: int,
) -> None:
    coordinator = FakeCoordinator()
    call = commit(coordinator, version, topic("orders"), topic("payments", 0), topic("orders", 1))
    assert [asked.name for asked in coordinator.event.topics] == ["payments", "orders"]
    coordinator.resolve(0, Committed((ErrorCode.NONE, ErrorCode.NONE)))
    assert names(call) == [("payments", 1), ("orders", 1)]
    assert names(commit(coordinator, version, topic("orders"))) == []
    assert names(commit(coordinator, version, topic("missing"))) == [("missing", 0)]


def test_a_topic_named_twice_is_one_in_an_answer_that_has_something_missing() -> None:
    coordinator = FakeCoordinator()
    call = commit(coordinator, 9, topic("orders", 0), topic("orders", 1, 99), topic("missing", 0))
    coordinator.resolve(0, Committed((ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert names(call) == [("orders", 3), ("missing", 1)]
    assert errors(call) == [
        ("orders", 99, unknown),
        ("orders", 0, ErrorCode.NONE),
        ("orders", 1, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("missing", 0, unknown),
    ]


def test_a_topic_named_twice_is_answered_twice_where_nothing_is_missing() -> None:
    coordinator = FakeCoordinator()
    for error in (ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION):
        call = commit(coordinator, 9, topic("orders", 0), topic("orders", 0))
        coordinator.resolve(-1, Committed((error, error)))
        assert names(call) == [("orders", 1), ("orders", 1)]
