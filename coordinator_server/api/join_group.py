"""JoinGroup (key 11).

v1: rebalance timeout; before, the session timeout serves as one. v2: throttle time.
v4: a dynamic member is first told its id, MEMBER_ID_REQUIRED (KIP-394). v5: static members
(KIP-345). v6: flexible. v7: protocol type in the answer, whose protocol name may be null
(KIP-559). v8: reason (KIP-800). v9: skip assignment (KIP-814).
"""

from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.join_answers import follower_joined, leader_joined, not_joined
from coordinator_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coordinator_server.api.call import Call
from coordinator_server.api.refusals import empty_group_id, not_authorized, refused
from coordinator_server.api.services import Services
from coordinator_server.api.ticket import CallTicket
from coordinator_server.group.effects import Joined, Refuse, Result, Rule
from coordinator_server.group.events import Join
from coordinator_server.ports import Operation, Resource

FIRST_WITH_REBALANCE_TIMEOUT: Final = 1
FIRST_WITH_KNOWN_MEMBER_ID: Final = 4
FIRST_WITH_NULL_PROTOCOL: Final = 7
FIRST_WITH_SKIP_ASSIGNMENT: Final = 9
_READ: Final = Operation.READ
_GROUP: Final = Resource.GROUP


def handle(call: Call, request: JoinGroupRequest, services: Services) -> JoinGroupResponse | None:
    """Let a member join; the answer comes when the group's join phase ends."""
    error = _check(call, request, services)
    if error is not None:
        return _error(call.version, error, request.member_id)
    version = call.version
    event = Join(
        token=_Joining(call),
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=call.caller.client_id or "",
        client_host=call.caller.host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms
            if version >= FIRST_WITH_REBALANCE_TIMEOUT
            else request.session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple([(protocol.name, protocol.metadata) for protocol in request.protocols]),
        client_reason=request.reason,
        requires_known_member_id=version >= FIRST_WITH_KNOWN_MEMBER_ID,
        can_skip_assignment=version >= FIRST_WITH_SKIP_ASSIGNMENT,
    )
    services.coordinator.submit(request.group_id, event)
    return None


def refuse(_request: JoinGroupRequest, error: ErrorCode, version: int) -> JoinGroupResponse:
    """An error."""
    return _error(version, error, "")


def _check(call: Call, request: JoinGroupRequest, services: Services) -> ErrorCode | None:
    config = services.config
    group_id = request.group_id
    if not services.authorizer.allowed(call.caller, _READ, _GROUP, group_id):
        return not_authorized(call, services, _READ, group_id, request.member_id)
    if not group_id:
        return empty_group_id(call, services, request.member_id)
    shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not shortest <= request.session_timeout_ms <= longest:
        refuse = Refuse(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            Rule.SESSION_TIMEOUT_OUT_OF_RANGE,
            f"it asked for a session of {request.session_timeout_ms} ms, "
            "group.min.session.timeout.ms and group.max.session.timeout.ms allow "
            f"{shortest} to {longest}",
        )
        instance_id = request.group_instance_id
        return refused(call, services, group_id, refuse, request.member_id, instance_id)
    return None


class _Joining(CallTicket):
    """Of a member whose join phase has not ended."""

    __slots__ = ()

    def deliver(self, result: Result) -> None:
        """See Ticket."""
        call = self._call
        if isinstance(result, Joined):
            _answer_joined(call, result)
        else:
            assert isinstance(result, Refuse)
            version, error = call.version, result.error
            name = _protocol_name(version, None)
            call.answer_body(not_joined(version, error, name, result.member_id), error)


def _answer_joined(call: Call, result: Joined) -> None:
    """Only a leader, or a static member that comes back, is told of more than itself."""
    version, generation, leader = call.version, result.generation, result.leader
    kind, name = result.protocol_type, _protocol_name(version, result.protocol_name)
    member_id, members, skips = result.member_id, result.members, result.skip_assignment
    if members or skips:
        body = leader_joined(version, generation, kind, name, leader, member_id, members, skips)
    else:
        body = follower_joined(version, generation, kind, name, leader, member_id)
    call.answer_body(body)


def _error(version: int, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, protocol_name=_protocol_name(version, None), member_id=member_id
    )


def _protocol_name(version: int, name: str | None) -> str | None:
    """No protocol is an empty name before v7 and null from then on."""
    return name or ("" if version < FIRST_WITH_NULL_PROTOCOL else None)
