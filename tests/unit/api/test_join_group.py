"""JoinGroup."""

from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.join_group import JoinGroupRequestProtocol
from coordinator_server.group.effects import Joined, Refuse, Rule
from tests.support.fake_coordinator import FakeCoordinator, HandledRequest, ask, group_services

VERSIONS = pytest.mark.parametrize("version", range(10))


def join(coordinator: FakeCoordinator, version: int, **fields: Any) -> HandledRequest:
    given = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": "m",
        "group_instance_id": "i" if version >= 5 else None,
        "protocol_type": "consumer",
        "protocols": [
            JoinGroupRequestProtocol(name="range", metadata=b"r"),
            JoinGroupRequestProtocol(name="sticky", metadata=b"s"),
        ],
        "reason": "because" if version >= 8 else None,
    }
    return ask(ApiKey.JOIN_GROUP, version, group_services(coordinator), **{**given, **fields})


@VERSIONS
def test_every_version_makes_the_same_event_with_what_it_lacks_defaulted(version: int) -> None:
    coordinator = FakeCoordinator()
    assert join(coordinator, version).is_parked
    event = coordinator.event
    assert (event.member_id, event.session_timeout_ms) == ("m", 10_000)
    assert event.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert event.group_instance_id == ("i" if version >= 5 else None)
    assert event.client_reason == ("because" if version >= 8 else None)
    assert event.requires_known_member_id is (version >= 4)
    assert event.can_skip_assignment is (version >= 9)
    assert event.protocols == (("range", b"r"), ("sticky", b"s"))
    assert (event.client_id, event.client_host) == ("tester", "/127.0.0.1")


@VERSIONS
def test_a_joined_leader_is_told_of_the_members(version: int) -> None:
    coordinator = FakeCoordinator()
    call = join(coordinator, version)
    members = [("m", "i", b"r"), ("n", None, b"s")]
    coordinator.resolve(0, Joined("m", 3, "consumer", "range", "m", members, skip_assignment=True))
    response = call.response
    assert (response.error_code, response.generation_id, response.leader) == (0, 3, "m")
    assert response.protocol_name == "range"
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    assert response.skip_assignment is (version >= 9)
    assert [(m.member_id, m.metadata) for m in response.members] == [("m", b"r"), ("n", b"s")]
    if version >= 5:
        assert [m.group_instance_id for m in response.members] == ["i", None]


@VERSIONS
def test_a_refusal_carries_the_member_id_and_no_protocol(version: int) -> None:
    coordinator = FakeCoordinator()
    call = join(coordinator, version, member_id="")
    refusal = Refuse(ErrorCode.MEMBER_ID_REQUIRED, Rule.MEMBER_ID_REQUIRED, "", "tester-1")
    coordinator.resolve(0, refusal)
    response = call.response
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert (response.member_id, response.leader, response.members) == ("tester-1", "", [])
    assert response.generation_id == -1
    assert response.protocol_name == ("" if version < 7 else None)


@VERSIONS
def test_the_empty_group_id_is_invalid(version: int) -> None:
    coordinator = FakeCoordinator()
    response = join(coordinator, version, group_id="").response
    assert response.error_code == ErrorCode.INVALID_GROUP_ID
    assert response.member_id == "m"
    assert coordinator.submitted == []


@pytest.mark.parametrize(
    ("timeout", "is_valid"),
    [(-1, False), (0, False), (5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)],
)
def test_the_session_timeout_is_within_the_configured_bounds(timeout: int, is_valid: bool) -> None:
    coordinator = FakeCoordinator()
    call = join(coordinator, 9, session_timeout_ms=timeout)
    assert call.is_parked is is_valid
    if not is_valid:
        assert call.response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
