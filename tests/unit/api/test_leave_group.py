"""LeaveGroup."""

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.leave_group import MemberIdentity
from coordinator_server.api.chunked_work import LONGEST_MS
from coordinator_server.api.leave_group import AT_ONCE
from coordinator_server.group.effects import Left, LeftMember, Refuse, Result, Rule
from coordinator_server.group.events import Event, Leave, LeavingMember
from tests.support.fake_coordinator import FakeCoordinator, HandledRequest, ask, group_services
from tests.support.time_slices import AdvancingClock

SINGLE = pytest.mark.parametrize("version", range(3))
BATCHED = pytest.mark.parametrize("version", range(3, 6))


def leave(coordinator: FakeCoordinator, version: int, group_id: str = "g") -> HandledRequest:
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


def many(number: int) -> list[MemberIdentity]:
    return [MemberIdentity(member_id=f"m-{index}", reason=None) for index in range(number)]


def all_leave(_group_id: str, event: Event) -> Result:
    assert isinstance(event, Leave)
    return Left([LeftMember(each.member_id, None, ErrorCode.NONE) for each in event.members])


@BATCHED
async def test_very_many_members_leave_in_turns_and_are_answered_in_order(version: int) -> None:
    coordinator = FakeCoordinator(all_leave)
    services = group_services(coordinator)
    services.clock = AdvancingClock()
    members = many(10 * AT_ONCE + 1)
    call = ask(ApiKey.LEAVE_GROUP, version, services, group_id="g", members=members)
    # A millisecond passes at every look, of which there is one for each part.
    assert 0 < len(coordinator.submitted) <= LONGEST_MS
    await call.answered()
    assert max(len(event.members) for _, event in coordinator.submitted) == AT_ONCE
    found = [(member.member_id, member.error_code) for member in call.response.members]
    assert found == [(member.member_id, ErrorCode.NONE) for member in members]


async def test_a_group_that_is_gone_after_the_first_of_many() -> None:
    asked = 0

    def gone(group_id: str, event: Event) -> Result:
        nonlocal asked
        asked += 1
        if asked == 1:
            return all_leave(group_id, event)
        return Refuse(ErrorCode.UNKNOWN_MEMBER_ID, Rule.GROUP_UNKNOWN)

    services = group_services(FakeCoordinator(gone))
    members = many(2 * AT_ONCE)
    call = ask(ApiKey.LEAVE_GROUP, 5, services, group_id="g", members=members)
    await call.answered()
    errors = [member.error_code for member in call.response.members]
    assert errors == [ErrorCode.NONE] * AT_ONCE + [ErrorCode.UNKNOWN_MEMBER_ID] * AT_ONCE


async def test_another_error_for_many_is_one_of_the_request() -> None:
    refused = Refuse(ErrorCode.NOT_COORDINATOR, Rule.TENURE_ENDED)
    services = group_services(FakeCoordinator(lambda *_: refused))
    call = ask(ApiKey.LEAVE_GROUP, 5, services, group_id="g", members=many(3 * AT_ONCE))
    await call.answered()
    assert call.response.error_code == ErrorCode.NOT_COORDINATOR
