"""SyncGroup (key 14).

v1: throttle time. v3: static members (KIP-345). v4: flexible. v5: protocol type and name, which
then must be there, in the request and in the answer (KIP-559).
"""

from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.join_answers import synced
from coordinator_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from coordinator_server.api.call import Call
from coordinator_server.api.refusals import empty_group_id, not_authorized, refused
from coordinator_server.api.services import Services
from coordinator_server.api.ticket import CallTicket
from coordinator_server.group.effects import Refuse, Result, Rule, Synced
from coordinator_server.group.events import Sync
from coordinator_server.ports import Operation, Resource

FIRST_WITH_PROTOCOL: Final = 5
_READ: Final = Operation.READ
_GROUP: Final = Resource.GROUP


def handle(call: Call, request: SyncGroupRequest, services: Services) -> SyncGroupResponse | None:
    """Take the leader's assignments; the answer is the member's own."""
    error = _check(call, request, services)
    if error is not None:
        return SyncGroupResponse(error_code=error)
    event = Sync(
        token=_Syncing(call),
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={given.member_id: given.assignment for given in request.assignments},
    )
    services.coordinator.submit(request.group_id, event)
    return None


def refuse(_request: SyncGroupRequest, error: ErrorCode, _version: int) -> SyncGroupResponse:
    """An error."""
    return SyncGroupResponse(error_code=error)


def _check(call: Call, request: SyncGroupRequest, services: Services) -> ErrorCode | None:
    if call.version >= FIRST_WITH_PROTOCOL and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        refuse = Refuse(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            Rule.PROTOCOL_INCONSISTENT,
            "from version 5 on a SyncGroup has to name protocol type and protocol",
        )
        return refused(call, services, request.group_id, refuse, request.member_id)
    if not services.authorizer.allowed(call.caller, _READ, _GROUP, request.group_id):
        return not_authorized(call, services, _READ, request.group_id, request.member_id)
    return None if request.group_id else empty_group_id(call, services, request.member_id)


class _Syncing(CallTicket):
    """Of a member that waits for its assignment."""

    __slots__ = ()

    def deliver(self, result: Result) -> None:
        """See Ticket."""
        call = self._call
        if isinstance(result, Synced):
            kind, name = result.protocol_type, result.protocol_name
            call.answer_body(synced(call.version, kind, name, result.assignment))
        else:
            assert isinstance(result, Refuse)
            call.answer(SyncGroupResponse(error_code=result.error))
