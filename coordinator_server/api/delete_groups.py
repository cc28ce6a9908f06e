"""DeleteGroups (key 42): groups without members, with their offsets (KIP-229).

v1: as v0. v2: flexible.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from coordinator_server.api.call import Call
from coordinator_server.api.gather import Gather
from coordinator_server.api.refusing import not_authorized
from coordinator_server.api.services import Services
from coordinator_server.group.effects import Refuse, Result
from coordinator_server.group.events import DeleteGroup
from coordinator_server.ports import Operation, Resource
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(call: Call, request: DeleteGroupsRequest, services: Services) -> None:
    """Delete each group once, and answer when all deletions are durable."""
    allowed: list[str] = []
    refused: list[str] = []
    for group_id in dict.fromkeys(request.groups_names):
        may = services.authorizer.allowed(call.caller, Operation.DELETE, Resource.GROUP, group_id)
        (allowed if may else refused).append(group_id)
        if not may:
            not_authorized(call, services, Operation.DELETE, group_id)
    gather = Gather(len(allowed), partial(_deliver, call, allowed, refused))
    for index, group_id in enumerate(allowed):
        services.coordinator.submit(group_id, DeleteGroup(gather.ticket(index)))


def refuse(request: DeleteGroupsRequest, error: ErrorCode, _version: int) -> DeleteGroupsResponse:
    """An error for every group."""
    return DeleteGroupsResponse(results=_failed(request.groups_names, error))


def _deliver(call: Call, allowed: list[str], refused: list[str], results: Sequence[Result]) -> None:
    outcomes = [
        DeletableGroupResult(
            group_id=group_id,
            error_code=result.error if isinstance(result, Refuse) else ErrorCode.NONE,
        )
        for group_id, result in zip(allowed, results, strict=True)
    ]
    outcomes += _failed(refused, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    call.answer(DeleteGroupsResponse(results=outcomes))


def _failed(group_ids: Iterable[str], error: ErrorCode) -> list[DeletableGroupResult]:
    return [
        DeletableGroupResult(group_id=group_id, error_code=error)
        for group_id in dict.fromkeys(group_ids)
    ]
