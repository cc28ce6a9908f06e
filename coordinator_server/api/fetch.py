"""Fetch (key 1): records from an offset on, waiting for them if need be.

v4: isolation level, LSO, aborted transactions; the first version with RecordBatch v2.
v5: log start offset. v7: sessions (KIP-227). v9: current leader epoch. v10: zstd allowed.
v11: rack and preferred replica. v12: flexible, last fetched epoch.

There are no sessions: every answer says session 0, upon which clients send whole requests.
Only a log of `__consumer_offsets` taken over from Kafka has transactions; elsewhere the last stable
offset is the high watermark.
"""

from typing import NamedTuple

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from coordinator_server.api.call import Call
from coordinator_server.api.memory import Growth
from coordinator_server.api.partitions import check_partition
from coordinator_server.api.services import Services
from coordinator_server.loop.time_slice import TimeSlice
from coordinator_server.ports import Operation
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.service import FetchPart, FetchWant

HAS_LARGE_ANSWERS = True
READ_COMMITTED = 1
FULL_FETCH_EPOCHS = (0, -1)
"""Session epochs with which a client sends everything it wants (Kafka's `FetchMetadata`)."""


URGENT_ERRORS = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Errors that are answered at once; the others wait with the rest of the request, as in Kafka,
or a client that fetches from a deleted topic would ask again and again without a pause."""


class _Planned(NamedTuple):
    """One partition: what is to be read, or the answer that refuses it."""

    topic: str
    plan: FetchWant | PartitionData


async def handle(call: Call, request: FetchRequest, services: Services) -> FetchResponse:
    """Answer with whole batches, at least one if there is any, within the limits asked for."""
    if request.session_epoch not in FULL_FETCH_EPOCHS:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    pace = TimeSlice(services.clock)
    planned = await _plan(call, request, services, pace)
    wants = [plan for _, plan in planned if isinstance(plan, FetchWant)]
    urgent = any(
        isinstance(plan, PartitionData) and plan.error_code in URGENT_ERRORS for _, plan in planned
    )
    parts = iter(
        await services.topics.fetch(
            wants,
            max_wait_ms=0 if urgent else request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            committed=request.isolation_level == READ_COMMITTED,
            memory=Growth(call),
        )
    )
    response = FetchResponse()
    for topic, plan in planned:
        if pace.is_over():
            await pace.rest()
        if isinstance(plan, FetchWant):
            _add(response, topic, _data(call, request, plan, next(parts)))
        else:
            _add(response, topic, plan)
    return response


def refuse(request: FetchRequest, error: ErrorCode, _version: int) -> FetchResponse:
    """An error for the answer and, as old clients look no further, for every partition."""
    return FetchResponse(
        error_code=error,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[_failed(partition.partition, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _failed(partition: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition, error_code=error, high_watermark=-1, records=b""
    )


async def _plan(
    call: Call, request: FetchRequest, services: Services, pace: TimeSlice
) -> list[_Planned]:
    """One entry per partition; the last mention of a partition counts, at its first place."""
    asked = {
        (topic.topic, partition.partition): partition
        for topic in request.topics
        for partition in topic.partitions
    }
    planned: list[_Planned] = []
    for (name, _), partition in asked.items():
        if pace.is_over():
            await pace.rest()
        planned.append(_plan_partition(call, name, partition, request.replica_id, services))
    return planned


def _plan_partition(
    call: Call, name: str, partition: FetchPartition, replica_id: int, services: Services
) -> _Planned:
    try:
        topic = check_partition(
            call,
            name,
            partition.partition,
            Operation.READ,
            services,
            leader_epoch=partition.current_leader_epoch,
        )
        _check_replica(replica_id)
    except TopicError as refusal:
        return _Planned(name, _failed(partition.partition, refusal.error))
    want = FetchWant(
        topic, partition.partition, partition.fetch_offset, partition.partition_max_bytes
    )
    return _Planned(name, want)


def _check_replica(replica_id: int) -> None:
    if replica_id >= 0:
        raise TopicError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "There are no followers here.")


def _data(call: Call, request: FetchRequest, want: FetchWant, part: FetchPart) -> PartitionData:
    if part.error != ErrorCode.NONE:
        return _failed(want.partition, _known_error(call.version, part.error))
    aborted = [AbortedTransaction(each.producer_id, each.first_offset) for each in part.aborted]
    return PartitionData(
        partition_index=want.partition,
        high_watermark=part.high_watermark,
        last_stable_offset=part.last_stable_offset,
        log_start_offset=part.log_start_offset,
        aborted_transactions=aborted if request.isolation_level == READ_COMMITTED else None,
        records=part.records,
    )


def _known_error(version: int, error: ErrorCode) -> ErrorCode:
    """Clients up to v5 do not know KAFKA_STORAGE_ERROR and would not ask again."""
    if version <= 5 and error == ErrorCode.KAFKA_STORAGE_ERROR:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return error


def _add(response: FetchResponse, topic: str, data: PartitionData) -> None:
    """Neighbours of one topic share an entry, as in Kafka."""
    if not response.responses or response.responses[-1].topic != topic:
        response.responses.append(FetchableTopicResponse(topic=topic))
    response.responses[-1].partitions.append(data)
