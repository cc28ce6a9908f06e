"""ListOffsets (key 2): offsets of a partition by timestamp.

v1: one offset per partition. v2: isolation level. v4: leader epochs (KIP-320). v6: flexible.
v7: -3, the offset of the largest timestamp (KIP-734). v8: -4, the earliest local offset
(KIP-405). v9: -5, the latest tiered offset (KIP-1005). v10: timeout of remote storage (KIP-1075),
which there is none of.

Nothing beyond the high watermark is answered, and nothing beyond the first open transaction to who
reads committed records: a log of `__consumer_offsets` taken over from Kafka may have some.
"""

from collections import Counter
from collections.abc import Sequence

from coordinator_protocol.codec import part_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.headers import is_flexible
from coordinator_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coordinator_server.api.call import Call
from coordinator_server.api.partitions import check_partition
from coordinator_server.api.services import Services
from coordinator_server.api.streaming_response import around, around_empty
from coordinator_server.loop.time_slice import TimeSlice
from coordinator_server.ports import Operation, TopicInfo
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.service import LEADER_EPOCH

READ_COMMITTED = 1
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

SMALL = 200
"""Partitions of a response that is encoded in one turn of the event loop."""

AT_ONCE = 64
"""Partitions of a larger one that are encoded before the time is looked at."""

_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""Since which version a negative timestamp has a meaning."""


async def handle(
    call: Call, request: ListOffsetsRequest, services: Services
) -> ListOffsetsResponse | None:
    """Answer for every partition once, each with its own error."""
    committed = request.isolation_level == READ_COMMITTED
    pace = TimeSlice(services.clock)
    mentions: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for partition in topic.partitions:
            if pace.is_over():
                await pace.rest()
            mentions[topic.name, partition.partition_index] += 1
    answers: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        of_topic = answers.setdefault(topic.name, {})
        for partition in topic.partitions:
            index = partition.partition_index
            if pace.is_over():
                await pace.rest()
            if index not in of_topic:
                duplicate = mentions[topic.name, index] > 1
                of_topic[index] = await _answer(
                    call, topic.name, partition, duplicate, services, committed=committed
                )
    topics = [(name, list(of_topic.values())) for name, of_topic in answers.items()]
    if len(mentions) > SMALL:
        await _send(call, topics, pace)
        return None
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=partitions)
            for name, partitions in topics
        ]
    )


async def _send(
    call: Call,
    topics: Sequence[tuple[str, Sequence[ListOffsetsPartitionResponse]]],
    pace: TimeSlice,
) -> None:
    """Answer with a large response; others have their turns while it is encoded."""
    key, version = call.api_key, call.version
    flexible = is_flexible(key, version)
    write_topic = part_encoder(ListOffsetsTopicResponse, key, version)
    write = part_encoder(ListOffsetsPartitionResponse, key, version)
    before, after = around(call, ListOffsetsResponse(), len(topics))
    parts: list[bytes] = [before]
    for name, partitions in topics:
        empty = write_topic(ListOffsetsTopicResponse(name=name))
        head, tail = around_empty(empty, flexible, len(partitions), 0)
        parts.append(head)
        for at in range(0, len(partitions), AT_ONCE):
            parts.append(b"".join([write(each) for each in partitions[at : at + AT_ONCE]]))
            if pace.is_over():
                await pace.rest()
        parts.append(tail)
        if pace.is_over():
            await pace.rest()
    call.answer_parts([*parts, after])


def refuse(request: ListOffsetsRequest, error: ErrorCode, _version: int) -> ListOffsetsResponse:
    """An error for every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _answer(
    call: Call,
    name: str,
    partition: ListOffsetsPartition,
    duplicate: bool,
    services: Services,
    *,
    committed: bool,
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=partition.partition_index)
    try:
        topic = check_partition(
            call,
            name,
            partition.partition_index,
            Operation.DESCRIBE,
            services,
            leader_epoch=partition.current_leader_epoch,
        )
        _check_timestamp(call.version, partition.timestamp, duplicate)
        await _look_up(call.version, topic, partition, answer, services, committed=committed)
    except TopicError as refusal:
        # Who names a partition twice learns of that, unless the topic is none of its business.
        told = not duplicate or refusal.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answer.error_code = refusal.error if told else ErrorCode.INVALID_REQUEST
    return answer


def _check_timestamp(version: int, timestamp: int, duplicate: bool) -> None:
    if duplicate:
        raise TopicError(ErrorCode.INVALID_REQUEST, "The partition is named more than once.")
    if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        raise TopicError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Timestamp {timestamp} has no meaning in version {version}.",
        )


async def _look_up(
    version: int,
    topic: TopicInfo,
    partition: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    services: Services,
    *,
    committed: bool,
) -> None:
    topics, index, timestamp = services.topics, partition.partition_index, partition.timestamp
    if timestamp == LATEST_TIERED:
        return
    if timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL):
        earliest, latest = await topics.offsets(topic, index, committed=committed)
        answer.offset = latest if timestamp == LATEST else earliest
    else:
        found = await (
            topics.offset_of_max_timestamp(topic, index, committed=committed)
            if timestamp == MAX_TIMESTAMP
            else topics.offset_for_timestamp(topic, index, timestamp, committed=committed)
        )
        if found is None:
            return
        answer.timestamp, answer.offset = found
    if version >= 4:
        answer.leader_epoch = LEADER_EPOCH
