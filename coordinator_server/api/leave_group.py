"""LeaveGroup (key 13).

v1: throttle time. v3: several members, each with an error of its own; a static member may be
named by its instance id alone (KIP-345). v4: flexible. v5: reason (KIP-800).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from coordinator_server.api.call import Call
from coordinator_server.api.refusing import empty_group_id, not_authorized
from coordinator_server.api.services import Services
from coordinator_server.group.effects import Left, LeftMember, Refuse, Result
from coordinator_server.group.events import Leave, LeavingMember
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import CallbackTicket
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

FIRST_BATCHED: Final = 3


def handle(call: Call, request: LeaveGroupRequest, services: Services) -> LeaveGroupResponse | None:
    """Let members go."""
    group_id = request.group_id
    if not services.authorizer.allowed(call.caller, Operation.READ, Resource.GROUP, group_id):
        error = not_authorized(call, services, Operation.READ, group_id)
        return LeaveGroupResponse(error_code=error)
    if not group_id:
        return LeaveGroupResponse(error_code=empty_group_id(call, services))
    members = (
        [
            LeavingMember(member.member_id, member.group_instance_id, member.reason)
            for member in request.members
        ]
        if call.version >= FIRST_BATCHED
        else [LeavingMember(request.member_id, None)]
    )
    ticket = CallbackTicket(partial(_deliver, call, members))
    services.coordinator.submit(group_id, Leave(ticket, members))
    return None


def refuse(_request: LeaveGroupRequest, error: ErrorCode, _version: int) -> LeaveGroupResponse:
    """An error for the request as a whole."""
    return LeaveGroupResponse(error_code=error)


def _deliver(call: Call, asked: list[LeavingMember], result: Result) -> None:
    if isinstance(result, Left):
        call.answer(_left(call.version, result.members))
        return
    assert isinstance(result, Refuse)
    if result.error == ErrorCode.UNKNOWN_MEMBER_ID:
        # There is no such group, which is an error of each member.
        unknown = [
            LeftMember(member.member_id, member.group_instance_id, result.error) for member in asked
        ]
        call.answer(_left(call.version, unknown))
    else:
        call.answer(LeaveGroupResponse(error_code=result.error))


def _left(version: int, members: Sequence[LeftMember]) -> LeaveGroupResponse:
    if version < FIRST_BATCHED:
        return LeaveGroupResponse(error_code=members[0].error)
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=member.error,
            )
            for member in members
        ]
    )
