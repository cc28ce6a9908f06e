"""DescribeGroups (key 15): classic groups with their members.

v1: throttle time. v3: authorized operations (KIP-430). v4: static members (KIP-345).
v5: flexible. v6: GROUP_ID_NOT_FOUND and an error message; before, a group that does not exist is
described as Dead, without an error (KIP-1043).
"""

from functools import partial

from coordinator_server.api.array_answer import ArrayAnswer
from coordinator_server.api.authorized_operations import authorized_operations
from coordinator_server.api.call import Call
from coordinator_server.api.in_turns import InTurns
from coordinator_server.api.refusing import not_authorized
from coordinator_server.api.services import Services
from coordinator_server.group.effects import Described, Refuse, Result
from coordinator_server.group.events import Describe
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import CallbackTicket
from protocol.codec import part_encoder
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

DEAD = "Dead"
FIRST_WITH_NOT_FOUND = 6


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
    work = InTurns(services.clock, call.failed)
    empty = DescribeGroupsResponse()
    answer = ArrayAnswer(call, empty, len(refused) + len(allowed), work)
    write = part_encoder(DescribedGroup, call.api_key, call.version)

    def put(index: int, result: Result) -> None:
        group_id = allowed[index]
        described = _described(call.version, group_id, result)
        if request.include_authorized_operations and not described.error_code:
            described.authorized_operations = authorized_operations(
                services.authorizer, call.caller, Resource.GROUP, group_id
            )
        answer.put(len(refused) + index, write(described))

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
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in result.members
        ],
    )
