"""LeaveGroup."""

import pytest

from coordinator_server.group.effects import Left, LeftMember, Refuse, Rule
from coordinator_server.group.events import LeavingMember
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from tests.support.groups import Asked, FakeCoordinator, ask, group_services

SINGLE = pytest.mark.parametrize("version", range(3))
BATCHED = pytest.mark.parametrize("version", range(3, 6))


def leave(coordinator: FakeCoordinator, version: int, group_id: str = "g") -> Asked:
    members = [
        MemberIdentity(member_id="m", reason="done" if version >= 5 else None),
        MemberIdentity(member_id="", group_instance_id="i"),
    ]
    return ask(
        ApiKey.LEAVE_GROUP,
        version,
        group_services(coordinator),
        group_id=group_id,
        member_id="m",
        members=members,
    )


@SINGLE
def test_before_version_3_one_member_leaves(version: int) -> None:
    coordinator = FakeCoordinator()
    call = leave(coordinator, version)
    assert coordinator.event.members == [LeavingMember("m", None)]
    coordinator.resolve(0, Left([LeftMember("m", None, ErrorCode.UNKNOWN_MEMBER_ID)]))
    assert call.response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@BATCHED
def test_from_version_3_on_each_member_has_its_error(version: int) -> None:
    coordinator = FakeCoordinator()
    call = leave(coordinator, version)
    reason = "done" if version >= 5 else None
    assert coordinator.event.members == [
        LeavingMember("m", None, reason),
        LeavingMember("", "i"),
    ]
    left = [LeftMember("m", None, ErrorCode.NONE), LeftMember("", "i", ErrorCode.UNKNOWN_MEMBER_ID)]
    coordinator.resolve(0, Left(left))
    response = call.response
    assert response.error_code == ErrorCode.NONE
    found = [(m.member_id, m.group_instance_id, m.error_code) for m in response.members]
    assert found == [("m", None, 0), ("", "i", ErrorCode.UNKNOWN_MEMBER_ID)]


@BATCHED
def test_of_a_group_that_does_not_exist_every_member_is_unknown(version: int) -> None:
    coordinator = FakeCoordinator()
    call = leave(coordinator, version)
    coordinator.resolve(0, Refuse(ErrorCode.UNKNOWN_MEMBER_ID, Rule.GROUP_UNKNOWN))
    assert call.response.error_code == ErrorCode.NONE
    errors = [member.error_code for member in call.response.members]
    assert errors == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


@pytest.mark.parametrize("version", range(6))
def test_other_errors_are_of_the_request_as_a_whole(version: int) -> None:
    coordinator = FakeCoordinator()
    call = leave(coordinator, version)
    coordinator.resolve(0, Refuse(ErrorCode.NOT_COORDINATOR, Rule.NOT_OWNED))
    assert (call.response.error_code, call.response.members) == (ErrorCode.NOT_COORDINATOR, [])


@pytest.mark.parametrize("version", range(6))
def test_the_empty_group_id_is_invalid(version: int) -> None:
    response = leave(FakeCoordinator(), version, "").response
    assert response.error_code == ErrorCode.INVALID_GROUP_ID
