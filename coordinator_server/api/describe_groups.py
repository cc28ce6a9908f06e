"""DescribeGroups (key 15): classic groups with their members.

v1: throttle time. v3: authorized operations (KIP-430). v4: static members (KIP-345).
v5: flexible. v6: GROUP_ID_NOT_FOUND and an error message; before, a group that does not exist is
described as Dead, without an error (KIP-1043).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from coordinator_protocol.codec import part_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.headers import is_flexible
from coordinator_protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from coordinator_server.api.authorized_operations import authorized_operations
from coordinator_server.api.call import Call
from coordinator_server.api.chunked_work import ChunkedWork
from coordinator_server.api.refusals import not_authorized
from coordinator_server.api.services import Services
from coordinator_server.api.streaming_response import StreamedArray, around_empty
from coordinator_server.group.effects import Described, DescribedMember, Refuse, Result
from coordinator_server.group.events import Describe
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import CallbackTicket

DEAD = "Dead"
FIRST_WITH_OPERATIONS = 3
FIRST_WITH_NOT_FOUND = 6
MEMBERS_AT_ONCE = 100
"""A group of more members is written in steps: 5,000 of them take tens of milliseconds."""


def handle(call: Call, request: DescribeGroupsRequest, services: Services) -> None:
    """Answer when every group the caller may describe has been heard."""
    allowed: list[str] = []
    refused: list[DescribedGroup] = []
    for group_id in request.groups:
        if services.authorizer.allowed(call.caller, Operation.DESCRIBE, Resource.GROUP, group_id):
            allowed.append(group_id)
        else:
            error = not_authorized(call, services, Operation.DESCRIBE, group_id)
            refused.append(_failed(group_id, error))
    work = ChunkedWork(services.clock, call.failed, call.may_grow)
    empty = DescribeGroupsResponse()
    answer = StreamedArray(call, empty, len(refused) + len(allowed), work)
    write = part_encoder(DescribedGroup, call.api_key, call.version)

    def finish(index: int, element: bytes) -> None:
        answer.put(len(refused) + index, element)

    def put(index: int, result: Result) -> None:
        group_id = allowed[index]
        described = _described(call.version, group_id, result)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = authorized_operations(
                services.authorizer, call.caller, Resource.GROUP, group_id
            )
        if isinstance(result, Described) and len(result.members) > MEMBERS_AT_ONCE:
            pieces = partial(finish, index)
            work.add(_written(call, write(described), result.members, pieces))
            return
        if isinstance(result, Described):
            described.members = [_member(member) for member in result.members]
        finish(index, write(described))

    def ask(index: int) -> None:
        ticket = CallbackTicket(partial(put, index), call.failed)
        services.coordinator.submit(allowed[index], Describe(ticket))

    for index, failed in enumerate(refused):
        answer.put(index, write(failed))
    work.add(map(ask, range(len(allowed))))


def refuse(
    request: DescribeGroupsRequest, error: ErrorCode, _version: int
) -> DescribeGroupsResponse:
    """An error for every group."""
    return DescribeGroupsResponse(groups=[_failed(group_id, error) for group_id in request.groups])


def _failed(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error)


def _described(version: int, group_id: str, result: Result) -> DescribedGroup:
    if isinstance(result, Refuse):
        if result.error != ErrorCode.GROUP_ID_NOT_FOUND:
            return _failed(group_id, result.error)
        if version < FIRST_WITH_NOT_FOUND:
            return DescribedGroup(group_id=group_id, group_state=DEAD)
        return DescribedGroup(
            group_id=group_id,
            group_state=DEAD,
            error_code=result.error,
            error_message=result.detail,
        )
    assert isinstance(result, Described)
    return DescribedGroup(
        group_id=group_id,
        group_state=result.state,
        protocol_type=result.protocol_type,
        protocol_data=result.protocol_name,
    )


def _member(member: DescribedMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )


def _written(
    call: Call,
    group: bytes,
    members: Sequence[DescribedMember],
    finish: Callable[[bytes], None],
) -> Iterator[None]:
    """Write the members of a large group, given the encoded group without any."""
    write = part_encoder(DescribedGroupMember, call.api_key, call.version)
    behind = 4 if call.version >= FIRST_WITH_OPERATIONS else 0
    flexible = is_flexible(call.api_key, call.version)
    before, after = around_empty(group, flexible, len(members), behind)
    pieces = [before]
    for member in members:
        pieces.append(write(_member(member)))
        yield
    finish(b"".join([*pieces, after]))
