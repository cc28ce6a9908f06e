"""ListGroups (key 16): the groups this node coordinates.

v1: throttle time. v3: flexible. v4: states, and a filter by them (KIP-518). v5: group types, and
a filter by them (KIP-848). Filters know no case, and what they name need not exist.

Never refused: without DESCRIBE on the cluster a caller sees the groups it may describe.
"""

from collections.abc import Collection

from coordinator_server.api.authorized_operations import CLUSTER_NAME
from coordinator_server.api.call import Call
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource
from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(call: Call, request: ListGroupsRequest, services: Services) -> ListGroupsResponse:
    """Answer with the groups that pass the filters and that the caller may see."""
    found = services.coordinator.list_groups()
    if found.error:
        return ListGroupsResponse(error_code=found.error)
    allowed = services.authorizer.allowed
    everything = allowed(call.caller, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    states, types = _folded(request.states_filter), _folded(request.types_filter)
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in found.groups
            if _passes(group.state, states)
            and _passes(group.group_type, types)
            and (
                everything
                or allowed(call.caller, Operation.DESCRIBE, Resource.GROUP, group.group_id)
            )
        ]
    )


def refuse(_request: ListGroupsRequest, error: ErrorCode, _version: int) -> ListGroupsResponse:
    """An error."""
    return ListGroupsResponse(error_code=error)


def _folded(names: Collection[str]) -> set[str]:
    return {name.lower() for name in names}


def _passes(name: str, wanted: Collection[str]) -> bool:
    return not wanted or name.lower() in wanted
