"""LeaveGroup (key 13).

v1: throttle time. v3: several members, each with an error of its own; a static member may be
named by its instance id alone (KIP-345). v4: flexible. v5: reason (KIP-800).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from coordinator_protocol.codec import part_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from coordinator_server.api.call import Call
from coordinator_server.api.chunked_work import ChunkedWork
from coordinator_server.api.refusals import empty_group_id, not_authorized
from coordinator_server.api.services import Services
from coordinator_server.api.streaming_response import StreamedArray
from coordinator_server.group.effects import Left, LeftMember, Refuse, Result
from coordinator_server.group.events import Leave, LeavingMember
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import CallbackTicket

FIRST_BATCHED: Final = 3

AT_ONCE: Final = 64
"""Members that leave before others have their turn: so many take about a millisecond."""


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
    if len(members) > AT_ONCE:
        _ManyLeave(call, group_id, members, services).begin()
        return None
    ticket = CallbackTicket(partial(_deliver, call, members), call.failed)
    services.coordinator.submit(group_id, Leave(ticket, members))
    return None


def refuse(_request: LeaveGroupRequest, error: ErrorCode, _version: int) -> LeaveGroupResponse:
    """An error for the request as a whole."""
    return LeaveGroupResponse(error_code=error)


class _ManyLeave:
    """Lets very many members go, some at a time: each is a change of the group with a log line.

    The group begins one rebalance with the first of them, as with all at once.
    """

    __slots__ = ("_answer", "_call", "_group_id", "_members", "_services", "_work", "_write")

    def __init__(
        self, call: Call, group_id: str, members: list[LeavingMember], services: Services
    ) -> None:
        self._call = call
        self._group_id = group_id
        self._members = members
        self._services = services
        self._work = ChunkedWork(services.clock, call.failed)
        self._answer = StreamedArray(call, LeaveGroupResponse(), len(members), self._work)
        self._write = part_encoder(MemberResponse, call.api_key, call.version)

    def begin(self) -> None:
        """Ask the group about some after the other."""
        self._work.add(map(self._ask, range(0, len(self._members), AT_ONCE)))

    def _ask(self, first: int) -> None:
        some = self._members[first : first + AT_ONCE]
        ticket = CallbackTicket(partial(self._put, first, some), self._call.failed)
        self._services.coordinator.submit(self._group_id, Leave(ticket, some))

    def _put(self, first: int, asked: list[LeavingMember], result: Result) -> None:
        if isinstance(result, Refuse) and result.error != ErrorCode.UNKNOWN_MEMBER_ID:
            self._work.stop()
            self._call.answer(LeaveGroupResponse(error_code=result.error))
            return
        for index, member in enumerate(_left_members(asked, result), start=first):
            self._answer.put(index, self._write(_response_of(member)))


def _deliver(call: Call, asked: list[LeavingMember], result: Result) -> None:
    if isinstance(result, Refuse) and result.error != ErrorCode.UNKNOWN_MEMBER_ID:
        call.answer(LeaveGroupResponse(error_code=result.error))
    else:
        call.answer(_left(call.version, _left_members(asked, result)))


def _left_members(asked: list[LeavingMember], result: Result) -> Sequence[LeftMember]:
    if isinstance(result, Left):
        return result.members
    assert isinstance(result, Refuse)
    # There is no such group, which is an error of each member.
    return [LeftMember(each.member_id, each.group_instance_id, result.error) for each in asked]


def _left(version: int, members: Sequence[LeftMember]) -> LeaveGroupResponse:
    if version < FIRST_BATCHED:
        return LeaveGroupResponse(error_code=members[0].error)
    return LeaveGroupResponse(members=[_response_of(member) for member in members])


def _response_of(member: LeftMember) -> MemberResponse:
    return MemberResponse(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        error_code=member.error,
    )
