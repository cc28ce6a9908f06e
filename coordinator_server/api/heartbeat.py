"""Heartbeat (key 12).

v1: throttle time. v3: static members (KIP-345). v4: flexible.

By far the most frequent request: its answer is one of a few constant byte strings, and a member
sends the same bytes again and again.
"""

import struct
from functools import cache, partial
from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coordinator_server.api.call import Call
from coordinator_server.api.refusals import empty_group_id, not_authorized
from coordinator_server.api.services import Services
from coordinator_server.group.effects import Refuse, Result
from coordinator_server.group.events import Heartbeat
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import CallbackTicket

NO_TAGS: Final = 0
_READ: Final = Operation.READ
_GROUP: Final = Resource.GROUP


def handle(call: Call, request: HeartbeatRequest, services: Services) -> None:
    """Renew a member's session, or tell it what it has to do."""
    group_id = request.group_id
    if not services.authorizer.allowed(call.caller, _READ, _GROUP, group_id):
        _answer(call, not_authorized(call, services, _READ, group_id, request.member_id))
    elif not group_id:
        _answer(call, empty_group_id(call, services, request.member_id))
    else:
        event = Heartbeat(
            CallbackTicket(partial(_deliver, call), call.failed),
            request.member_id,
            request.group_instance_id,
            request.generation_id,
        )
        services.coordinator.submit(group_id, event)


class Again:
    """The same heartbeat once more: nothing is decoded, but the group is asked each time."""

    __slots__ = ("_caller", "_group_id", "_renew", "_services", "_success")

    def __init__(self, call: Call, request: HeartbeatRequest, services: Services) -> None:
        self._success = _body(call.version, ErrorCode.NONE)
        self._group_id = request.group_id
        self._caller = call.caller
        self._services = services
        heartbeat = Heartbeat(
            None, request.member_id, request.group_instance_id, request.generation_id
        )
        self._renew = services.coordinator.renewal(request.group_id, heartbeat)

    def __call__(self, now_ms: int, times: int) -> bytes | None:
        """A success for each of them; None: `handle` has to find the answer."""
        allowed = self._services.authorizer.allowed(self._caller, _READ, _GROUP, self._group_id)
        return self._success if allowed and self._renew(now_ms, times) else None


again = Again
"""What serves a request once more."""


def refuse(_request: HeartbeatRequest, error: ErrorCode, _version: int) -> HeartbeatResponse:
    """An error."""
    return HeartbeatResponse(error_code=error)


def _deliver(call: Call, result: Result) -> None:
    _answer(call, result.error if isinstance(result, Refuse) else ErrorCode.NONE)


def _answer(call: Call, error: ErrorCode) -> None:
    call.answer_body(_body(call.version, error), error)


@cache
def _body(version: int, error: int) -> bytes:
    """The encoded response, which holds nothing but the error and a throttle time of 0."""
    if version == 0:
        return struct.pack(">h", error)
    if version < 4:
        return struct.pack(">ih", 0, error)
    return struct.pack(">ihB", 0, error, NO_TAGS)
