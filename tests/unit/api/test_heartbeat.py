"""Heartbeat."""

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import response_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.heartbeat import HeartbeatResponse
from coordinator_server.group.effects import DONE, Refuse, Rule
from tests.support.fake_coordinator import FakeCoordinator, ask, group_services

VERSIONS = pytest.mark.parametrize("version", range(5))


@VERSIONS
@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS])
def test_the_constant_answer_is_what_the_encoder_writes(version: int, error: ErrorCode) -> None:
    coordinator = FakeCoordinator()
    call = ask(
        ApiKey.HEARTBEAT,
        version,
        group_services(coordinator),
        group_id="g",
        generation_id=3,
        member_id="m",
        group_instance_id="i" if version >= 3 else None,
    )
    event = coordinator.event
    assert (event.member_id, event.generation) == ("m", 3)
    assert event.group_instance_id == ("i" if version >= 3 else None)
    coordinator.resolve(0, Refuse(error, Rule.REBALANCE_UNDER_WAY) if error else DONE)
    expected = response_encoder(ApiKey.HEARTBEAT, version)(HeartbeatResponse(error_code=error))
    assert call.answers == [expected]


@VERSIONS
def test_the_empty_group_id_is_invalid(version: int) -> None:
    coordinator = FakeCoordinator()
    call = ask(ApiKey.HEARTBEAT, version, group_services(coordinator), member_id="m")
    assert call.response.error_code == ErrorCode.INVALID_GROUP_ID
    assert coordinator.submitted == []
