"""ListGroups (key 16): the groups this node coordinates.

v1: throttle time. v3: flexible. v4: states, and a filter by them (KIP-518). v5: group types, and
a filter by them (KIP-848). Filters know no case, and what they name need not exist.

Never refused: without DESCRIBE on the cluster a caller sees the groups it may describe.

The answer is written a few groups at a time. It is no picture of one moment: a group that comes or
goes meanwhile may be in it or not.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import part_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages import list_groups
from coordinator_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coordinator_server.api.authorized_operations import CLUSTER_NAME
from coordinator_server.api.call import Call
from coordinator_server.api.memory import Growth
from coordinator_server.api.services import Services
from coordinator_server.api.streaming_response import around
from coordinator_server.loop.time_slice import TimeSlice
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.coordinator import ListedGroup

AT_ONCE = 128
"""Groups that are looked at before others may have their turn."""


async def handle(
    call: Call, request: ListGroupsRequest, services: Services
) -> ListGroupsResponse | None:
    """Answer with the groups that pass the filters and that the caller may see."""
    found = services.coordinator.list_groups()
    if found.error:
        return ListGroupsResponse(error_code=found.error)
    write = part_encoder(list_groups.ListedGroup, ApiKey.LIST_GROUPS, call.version)
    filters = _folded(request.states_filter), _folded(request.types_filter)
    groups, count, parts = iter(found.groups), 0, []
    pace, growth, size = TimeSlice(services.clock), Growth(call), 0
    while some := list(islice(groups, AT_ONCE)):
        listed = [write(group) for group in _chosen(some, call, filters, services)]
        count += len(listed)
        parts.append(b"".join(listed))
        size += len(parts[-1])
        if growth.is_due(size):
            await growth.allowed(size)
        if pace.is_over():
            await pace.rest()
    before, behind = around(call, ListGroupsResponse(), count)
    call.answer_parts([before, *parts, behind])
    return None


def _chosen(
    groups: Iterable[ListedGroup],
    call: Call,
    filters: tuple[Collection[str], Collection[str]],
    services: Services,
) -> Iterator[list_groups.ListedGroup]:
    allowed = services.authorizer.allowed
    everything = allowed(call.caller, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    states, types = filters
    for group in groups:
        if (
            _passes(group.state, states)
            and _passes(group.group_type, types)
            and (
                everything
                or allowed(call.caller, Operation.DESCRIBE, Resource.GROUP, group.group_id)
            )
        ):
            yield list_groups.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )


def refuse(_request: ListGroupsRequest, error: ErrorCode, _version: int) -> ListGroupsResponse:
    """An error."""
    return ListGroupsResponse(error_code=error)


def _folded(names: Collection[str]) -> set[str]:
    return {name.lower() for name in names}


def _passes(name: str, wanted: Collection[str]) -> bool:
    return not wanted or name.lower() in wanted
