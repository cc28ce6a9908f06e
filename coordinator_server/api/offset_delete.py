"""OffsetDelete (key 47): offsets of topics nobody in the group subscribes to (KIP-496).

v0 is the only version.
"""

from functools import partial

from coordinator_server.api.call import Call
from coordinator_server.api.readable import readable_partitions
from coordinator_server.api.refusing import empty_group_id, not_authorized, not_readable
from coordinator_server.api.services import Services
from coordinator_server.group.effects import Deleted, Refuse, Result
from coordinator_server.group.events import DeleteOffsets
from coordinator_server.ports import Operation, Resource
from coordinator_server.runtime.ticket import CallbackTicket
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

Outcomes = list[tuple[int, ErrorCode]]
"""Partitions of a topic and what became of them."""


def handle(
    call: Call, request: OffsetDeleteRequest, services: Services
) -> OffsetDeleteResponse | None:
    """Delete the offsets of partitions that exist; the group is asked even if there are none."""
    group_id = request.group_id
    if not services.authorizer.allowed(call.caller, Operation.DELETE, Resource.GROUP, group_id):
        error = not_authorized(call, services, Operation.DELETE, group_id)
        return refuse(request, error, call.version)
    if not group_id:
        return refuse(request, empty_group_id(call, services), call.version)
    refused: dict[str, Outcomes] = {}
    wanted: list[tuple[str, list[int]]] = []
    for topic in request.topics:
        indexes = [given.partition_index for given in topic.partitions]
        partitions, error = readable_partitions(call.caller, topic.name, services)
        exist = [index for index in indexes if 0 <= index < partitions]
        if exist:
            wanted.append((topic.name, exist))
        missing = [index for index in indexes if not 0 <= index < partitions]
        refused.setdefault(topic.name, []).extend((index, error) for index in missing)
        if missing:
            not_readable(call, services, group_id, topic.name, missing[0], error)
    event = DeleteOffsets(CallbackTicket(partial(_deliver, call, refused)), wanted)
    services.coordinator.submit(group_id, event)
    return None


def refuse(_request: OffsetDeleteRequest, error: ErrorCode, _version: int) -> OffsetDeleteResponse:
    """An error for the request as a whole."""
    return OffsetDeleteResponse(error_code=error)


def _deliver(call: Call, refused: dict[str, Outcomes], result: Result) -> None:
    if isinstance(result, Refuse):
        call.answer(OffsetDeleteResponse(error_code=result.error))
        return
    assert isinstance(result, Deleted)
    outcomes = {topic: list(partitions) for topic, partitions in refused.items()}
    for topic, partitions in result.topics:
        outcomes.setdefault(topic, []).extend(partitions)
    call.answer(
        OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic,
                    partitions=[
                        OffsetDeleteResponsePartition(partition_index=index, error_code=error)
                        for index, error in partitions
                    ],
                )
                for topic, partitions in outcomes.items()
            ]
        )
    )
