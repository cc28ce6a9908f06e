"""What is refused before a group is asked is told like what a group refuses."""

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_protocol.messages.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coordinator_server.group.rebalance_events import Culprit
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import FakeCoordinator, ask, group_services

MISSING = OffsetCommitRequestTopic(
    name="missing",
    partitions=[OffsetCommitRequestPartition(partition_index=i) for i in (0, 1)],
)
NOT_DELETED = OffsetDeleteRequestTopic(
    name="missing", partitions=[OffsetDeleteRequestPartition(partition_index=3)]
)
SESSION = {"session_timeout_ms": 1, "rebalance_timeout_ms": 1, "protocol_type": "consumer"}
PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range"}


def told(
    api: ApiKey, version: int, fields: Mapping[str, Any], *denied: str
) -> list[tuple[str, str, str, str, str]]:
    """Group, API, error, rule and detail of each refusal; who asked is checked here."""
    coordinator = FakeCoordinator()
    denials = [(what, of, name) for name in denied for what in Operation for of in Resource]
    services = group_services(coordinator, denied=denials)
    ask(api, version, services, **fields)
    for _, _, _, who in coordinator.refused:
        assert who == Culprit(fields.get("member_id", ""), None, "tester", "/127.0.0.1")
    return [
        (group, name, refuse.error.name, refuse.rule.value, refuse.detail)
        for group, name, refuse, _ in coordinator.refused
    ]


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        (ApiKey.JOIN_GROUP, 9, SESSION),
        (ApiKey.SYNC_GROUP, 5, PROTOCOL),
        (ApiKey.HEARTBEAT, 4, {}),
        (ApiKey.LEAVE_GROUP, 2, {}),
    ],
)
def test_an_empty_group_id_is_told(api: ApiKey, version: int, fields: Mapping[str, Any]) -> None:
    ((group, _, error, rule, detail),) = told(api, version, {"group_id": "", **fields})
    assert (group, error, rule) == ("", "INVALID_GROUP_ID", "group_id_empty")
    assert detail == "the group id is empty"


@pytest.mark.parametrize(
    ("api", "version", "fields", "name"),
    [
        (ApiKey.JOIN_GROUP, 9, {"group_id": "g", "member_id": "m"}, "JoinGroup"),
        (ApiKey.SYNC_GROUP, 5, {"group_id": "g", "member_id": "m", **PROTOCOL}, "SyncGroup"),
        (ApiKey.HEARTBEAT, 4, {"group_id": "g", "member_id": "m"}, "Heartbeat"),
        (ApiKey.LEAVE_GROUP, 4, {"group_id": "g"}, "LeaveGroup"),
        (ApiKey.OFFSET_COMMIT, 8, {"group_id": "g", "member_id": "m"}, "OffsetCommit"),
        (ApiKey.OFFSET_FETCH, 5, {"group_id": "g"}, "OffsetFetch"),
        (ApiKey.OFFSET_DELETE, 0, {"group_id": "g"}, "OffsetDelete"),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]}, "DeleteGroups"),
        (ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g"]}, "DescribeGroups"),
    ],
)
def test_whoever_may_not_use_a_group_is_told_of(
    api: ApiKey, version: int, fields: Mapping[str, Any], name: str
) -> None:
    ((group, found, error, rule, detail),) = told(api, version, fields, "g")
    assert (group, found, error) == ("g", name, "GROUP_AUTHORIZATION_FAILED")
    assert rule == "not_authorized"
    assert "has no permission to" in detail


def test_a_session_timeout_out_of_range_is_told_with_the_range() -> None:
    fields = {"group_id": "g", "member_id": "m", **SESSION}
    (refusal,) = told(ApiKey.JOIN_GROUP, 9, fields)
    assert refusal[2:4] == ("INVALID_SESSION_TIMEOUT", "session_timeout_out_of_range")
    assert "session of 1 ms" in refusal[4]
    assert "6000 to 1800000" in refusal[4]


def test_a_sync_without_its_protocol_is_told() -> None:
    (refusal,) = told(ApiKey.SYNC_GROUP, 5, {"group_id": "g", "member_id": "m"})
    assert refusal[2:4] == ("INCONSISTENT_GROUP_PROTOCOL", "protocol_inconsistent")


def test_offsets_of_what_does_not_exist_are_told_once_per_topic() -> None:
    fields = {"group_id": "g", "member_id": "m", "topics": [MISSING]}
    detail = "there is no partition 0 of 'missing'"
    expected = [("g", "OffsetCommit", "UNKNOWN_TOPIC_OR_PARTITION", "topic_unknown", detail)]
    assert told(ApiKey.OFFSET_COMMIT, 8, fields) == expected
    (refusal,) = told(ApiKey.OFFSET_DELETE, 0, {"group_id": "g", "topics": [NOT_DELETED]})
    assert refusal[4] == "there is no partition 3 of 'missing'"


def test_offsets_of_topics_the_caller_may_not_read_are_told() -> None:
    fields = {"group_id": "g", "topics": [MISSING]}
    (refusal,) = told(ApiKey.OFFSET_COMMIT, 8, fields, "missing")
    assert refusal[2:4] == ("TOPIC_AUTHORIZATION_FAILED", "not_authorized")


def test_what_is_in_order_is_not_told() -> None:
    assert told(ApiKey.HEARTBEAT, 4, {"group_id": "g", "member_id": "m"}) == []
