"""DeleteGroups (key 42): groups without members, with their offsets (KIP-229).

v1: as v0. v2: flexible.
"""

from collections.abc import Iterable
from functools import partial

from coordinator_protocol.codec import part_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from coordinator_server.api.call import Call
from coordinator_server.api.chunked_work import ChunkedWork
from coordinator_server.api.refusals import not_authorized
from coordinator_server.api.services import Services
from coordinator_server.api.streaming_response import StreamedArray
from coordinator_server.group.effects import Refuse, Result, Rule
from coordinator_server.group.events import DeleteGroup
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import CallbackTicket


def handle(call: Call, request: DeleteGroupsRequest, services: Services) -> None:
    """Delete each group once, and answer when all deletions are durable."""
    allowed: list[str] = []
    refused: list[str] = []
    for group_id in dict.fromkeys(request.groups_names):
        may = services.authorizer.allowed(call.caller, Operation.DELETE, Resource.GROUP, group_id)
        (allowed if may else refused).append(group_id)
        if not may:
            not_authorized(call, services, Operation.DELETE, group_id)
    work = ChunkedWork(services.clock, call.failed)
    groups = [*allowed, *refused]
    answer = StreamedArray(call, DeleteGroupsResponse(), len(groups), work)
    write = part_encoder(DeletableGroupResult, call.api_key, call.version)

    def put(index: int, result: Result) -> None:
        error = result.error if isinstance(result, Refuse) else ErrorCode.NONE
        answer.put(index, write(DeletableGroupResult(group_id=groups[index], error_code=error)))

    def delete(index: int) -> None:
        ticket = CallbackTicket(partial(put, index), call.failed)
        services.coordinator.submit(groups[index], DeleteGroup(ticket))

    forbidden = Refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED, Rule.NOT_AUTHORIZED)
    for index in range(len(allowed), len(groups)):
        put(index, forbidden)
    work.add(map(delete, range(len(allowed))))


def refuse(request: DeleteGroupsRequest, error: ErrorCode, _version: int) -> DeleteGroupsResponse:
    """An error for every group."""
    return DeleteGroupsResponse(results=_failed(request.groups_names, error))


def _failed(group_ids: Iterable[str], error: ErrorCode) -> list[DeletableGroupResult]:
    return [
        DeletableGroupResult(group_id=group_id, error_code=error)
        for group_id in dict.fromkeys(group_ids)
    ]
