"""Heartbeat (key 12).

v1: throttle time. v3: static members (KIP-345). v4: flexible.

By far the most frequent request: `express` serves it from its bytes, and its response is one of a
few constant byte strings.
"""

import struct
from functools import cache, partial
from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.fields import plain_text
from coordinator_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coordinator_server.api.call import Call
from coordinator_server.api.refusals import empty_group_id, not_authorized
from coordinator_server.api.services import Services
from coordinator_server.group.effects import Refuse, Result
from coordinator_server.group.events import Heartbeat
from coordinator_server.ports import Caller, Operation, Resource
from coordinator_server.runtime.ticket import CallbackTicket

FIRST_WITH_INSTANCES: Final = 3
FIRST_FLEXIBLE: Final = 4
NO_TAGS: Final = 0
_NULL: Final = b"\xff\xff"
"""The length of a null string."""
_NONE: Final = ErrorCode.NONE
_int32: Final = struct.Struct(">i").unpack_from
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


def express(
    buffer: bytes,
    body: int,
    end: int,
    version: int,
    caller: Caller,
    now_ms: int,
    services: Services,
) -> bytes | None:
    """Renew a session from the bytes of the request; see registry.Express."""
    if version >= FIRST_FLEXIBLE:
        fields = _flexible_fields(buffer, body)
    else:
        fields = _plain_fields(buffer, body, version)
    group_id, generation, member_id, instance_id, at = fields
    # No field has reached beyond the end if the last one has not.
    if at != end or not services.authorizer.allowed(caller, _READ, _GROUP, group_id):
        return None
    if not services.coordinator.renew(group_id, member_id, instance_id, generation, now_ms):
        return None
    return _body(version, _NONE)


_Fields = tuple[str, int, str, str | None, int]
"""Group id, generation, member id, group instance id, and where the request ends."""


def _flexible_fields(buffer: bytes, at: int) -> _Fields:
    # Read in place: a call for each field would take as long as all the rest.
    size = buffer[at]
    end = at + size
    group_id = buffer[at + 1 : end].decode()
    generation: int = _int32(buffer, end)[0]
    at = end + 4
    member_size = buffer[at]
    end = at + member_size
    member_id = buffer[at + 1 : end].decode()
    instance_id: str | None = None
    instance_size = buffer[end]
    if instance_size:
        at, end = end, end + instance_size
        instance_id = buffer[at + 1 : end].decode()
    else:
        end += 1
    # A size of 0 is null, one of 0x80 is the first byte of a longer size.
    if not size or not member_size or (size | member_size | instance_size) >= 0x80:
        raise ValueError("null, or longer than 126 bytes")
    if buffer[end] != NO_TAGS:
        raise ValueError("tagged fields")
    return group_id, generation, member_id, instance_id, end + 1


def _plain_fields(buffer: bytes, at: int, version: int) -> _Fields:
    group_id, at = plain_text(buffer, at)
    generation: int = _int32(buffer, at)[0]
    member_id, at = plain_text(buffer, at + 4)
    if version < FIRST_WITH_INSTANCES:
        return group_id, generation, member_id, None, at
    if buffer[at : at + 2] == _NULL:
        return group_id, generation, member_id, None, at + 2
    instance_id, at = plain_text(buffer, at)
    return group_id, generation, member_id, instance_id, at


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
