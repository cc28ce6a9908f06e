"""ListGroups (key 16): the groups this node coordinates.

v1: throttle time. v3: flexible. v4: states, and a filter by them (KIP-518). v5: group types, and
a filter by them (KIP-848). Filters know no case, and what they name need not exist.

Never refused: without DESCRIBE on the cluster a caller sees the groups it may describe.

The answer is written a few groups at a time. It is no picture of one moment: a group that comes or
goes meanwhile may be in it or not.
"""

import asyncio
import struct
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from coordinator_server.api.authorized_operations import CLUSTER_NAME
from coordinator_server.api.call import Call
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.coordinator import ListedGroup
from protocol.api_keys import ApiKey
from protocol.codec import part_encoder, response_encoder
from protocol.errors import ErrorCode
from protocol.headers import is_flexible
from protocol.messages import list_groups
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.varints import uvarint

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
    groups, count, parts = iter(found.groups), 0, []
    while some := list(islice(groups, AT_ONCE)):
        listed = [write(group) for group in _chosen(some, call, request, services)]
        count += len(listed)
        parts.append(b"".join(listed))
        await asyncio.sleep(0)
    call.answer_body(_body(call.version, count, parts))
    return None


def _chosen(
    groups: Iterable[ListedGroup], call: Call, request: ListGroupsRequest, services: Services
) -> Iterator[list_groups.ListedGroup]:
    allowed = services.authorizer.allowed
    everything = allowed(call.caller, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    states, types = _folded(request.states_filter), _folded(request.types_filter)
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


def _body(version: int, count: int, groups: Iterable[bytes]) -> bytes:
    """The answer with so many groups, which have been written; they are the last of its fields."""
    empty = response_encoder(ApiKey.LIST_GROUPS, version)(ListGroupsResponse())
    if is_flexible(ApiKey.LIST_GROUPS, version):
        # The empty array and no tagged fields take a byte each.
        return b"".join((empty[:-2], uvarint(count + 1), *groups, b"\0"))
    return b"".join((empty[:-4], struct.pack(">i", count), *groups))


def refuse(_request: ListGroupsRequest, error: ErrorCode, _version: int) -> ListGroupsResponse:
    """An error."""
    return ListGroupsResponse(error_code=error)


def _folded(names: Collection[str]) -> set[str]:
    return {name.lower() for name in names}


def _passes(name: str, wanted: Collection[str]) -> bool:
    return not wanted or name.lower() in wanted
