"""SyncGroup."""

from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.sync_group import SyncGroupRequestAssignment
from coordinator_server.group.effects import Refuse, Rule, Synced
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import FakeCoordinator, HandledRequest, ask, group_services

VERSIONS = pytest.mark.parametrize("version", range(6))


def sync(coordinator: FakeCoordinator, version: int, **fields: Any) -> HandledRequest:
    given = {
        "group_id": "g",
        "generation_id": 4,
        "member_id": "m",
        "group_instance_id": "i" if version >= 3 else None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [SyncGroupRequestAssignment(member_id="n", assignment=b"a")],
    }
    return ask(ApiKey.SYNC_GROUP, version, group_services(coordinator), **{**given, **fields})


@VERSIONS
def test_every_version_makes_the_same_event(version: int) -> None:
    coordinator = FakeCoordinator()
    assert sync(coordinator, version).is_parked
    event = coordinator.event
    assert (event.member_id, event.generation, event.assignments) == ("m", 4, {"n": b"a"})
    assert event.group_instance_id == ("i" if version >= 3 else None)
    has_protocol = version >= 5
    assert event.protocol_type == ("consumer" if has_protocol else None)
    assert event.protocol_name == ("range" if has_protocol else None)


@VERSIONS
def test_the_answer_is_the_members_assignment(version: int) -> None:
    coordinator = FakeCoordinator()
    call = sync(coordinator, version)
    coordinator.resolve(0, Synced("consumer", "range", b"mine"))
    assert (call.response.error_code, call.response.assignment) == (0, b"mine")
    assert call.response.protocol_name == ("range" if version >= 5 else None)


@VERSIONS
def test_a_refusal_has_an_empty_assignment(version: int) -> None:
    coordinator = FakeCoordinator()
    call = sync(coordinator, version)
    coordinator.resolve(0, Refuse(ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS))
    assert call.response.error_code == ErrorCode.ILLEGAL_GENERATION
    assert call.response.assignment == b""


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_from_version_5_on_the_protocol_is_mandatory_even_for_the_unauthorised(
    missing: str,
) -> None:
    services = group_services(denied=[(Operation.READ, Resource.GROUP, "g")])
    fields = {"protocol_type": "consumer", "protocol_name": "range", missing: None}
    call = ask(ApiKey.SYNC_GROUP, 5, services, group_id="g", **fields)
    assert call.response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_empty_group_id_is_invalid() -> None:
    response = sync(FakeCoordinator(), 5, group_id="").response
    assert response.error_code == ErrorCode.INVALID_GROUP_ID
