"""Produce (key 0).

v3: transactional id; record batches of magic 2 only. v4: KAFKA_STORAGE_ERROR. v5: log start
offset. v7: zstd. v8: error messages. v9: flexible.

With acks=0 there is no answer at all; an error closes the connection, as in Kafka. With acks=1
and acks=-1 the answer leaves when the records are durable under `log.flush`, whatever the request
says of time: that is how long to wait for followers, and there are none.

InitProducerId is not announced, so no client has a producer id from us: batches that carry one
are refused, for what their sequence numbers promise could not be kept.
"""

import asyncio
from collections.abc import Sequence

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from coordinator_server.api.call import Call
from coordinator_server.api.partitions import check_partition
from coordinator_server.api.services import Services
from coordinator_server.loop.time_slice import TimeSlice
from coordinator_server.ports import Operation
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.partition import Appended

NO_ACKS = 0
VALID_ACKS = (NO_ACKS, 1, -1)

Pending = tuple[PartitionProduceResponse, Appended]
"""An answer that waits for its records to become durable."""


async def handle(call: Call, request: ProduceRequest, services: Services) -> ProduceResponse | None:
    """Append each partition's batch; None where the client wants no answer."""
    response = ProduceResponse()
    pending: list[Pending] = []
    pace = TimeSlice(services.clock)
    for name, asked in _asked(request).items():
        answers = TopicProduceResponse(name=name)
        response.responses.append(answers)
        for data in asked.values():
            if pace.is_over():
                await pace.rest()
            answers.partition_responses.append(
                await _append(call, request, name, data, pending, services)
            )
    if request.acks == NO_ACKS:
        _end_unanswered(call, response)
        return None
    await _settle(pending)
    return response


def refuse(request: ProduceRequest, error: ErrorCode, _version: int) -> ProduceResponse:
    """An error for every partition."""
    refusal = TopicError(error, error.message)
    response = ProduceResponse()
    for topic in request.topic_data:
        answers = [_unplaced(data.index) for data in topic.partition_data]
        for answer in answers:
            _fail(answer, refusal)
        response.responses.append(
            TopicProduceResponse(name=topic.name, partition_responses=answers)
        )
    return response


def _asked(request: ProduceRequest) -> dict[str, dict[int, PartitionProduceData]]:
    """Each partition once, by topic and index: of several mentions the last counts, as in Kafka."""
    asked: dict[str, dict[int, PartitionProduceData]] = {}
    for topic in request.topic_data:
        of_topic = asked.setdefault(topic.name, {})
        for data in topic.partition_data:
            of_topic[data.index] = data
    return asked


async def _append(
    call: Call,
    request: ProduceRequest,
    topic_name: str,
    data: PartitionProduceData,
    pending: list[Pending],
    services: Services,
) -> PartitionProduceResponse:
    answer = _unplaced(data.index)
    try:
        topic = check_partition(call, topic_name, data.index, Operation.WRITE, services)
        _check_acks(request.acks)
        appended = await services.topics.produce(
            topic, data.index, data.records, zstd_allowed=call.version >= 7
        )
        pending.append((answer, appended))
    except TopicError as refusal:
        _fail(answer, refusal)
    return answer


def _unplaced(index: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, base_offset=-1, log_append_time_ms=-1, log_start_offset=-1
    )


def _check_acks(acks: int) -> None:
    if acks not in VALID_ACKS:
        raise TopicError(
            ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}, expected one of -1, 0 and 1."
        )


def _fail(answer: PartitionProduceResponse, refusal: TopicError) -> None:
    answer.error_code = refusal.error
    answer.error_message = str(refusal)


def _end_unanswered(call: Call, response: ProduceResponse) -> None:
    """Without acks a closed connection is the only way to tell of an error."""
    errors = [
        f"{topic.name}-{answer.index}: {ErrorCode(answer.error_code).name}"
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.error_code != ErrorCode.NONE
    ]
    if errors:
        call.disconnect(f"produce with acks=0 failed: {', '.join(errors[:10])}")
    else:
        call.answer_nothing()


async def _settle(pending: Sequence[Pending]) -> None:
    """Wait until the records are durable, and answer each partition with what became of it."""
    waiting = [appended.durable for _, appended in pending if not appended.durable.done()]
    if waiting:
        await asyncio.wait(waiting)
    for answer, appended in pending:
        if appended.durable.cancelled():
            _fail(answer, TopicError(ErrorCode.KAFKA_STORAGE_ERROR, "Not stored: shutting down."))
        elif (failure := appended.durable.exception()) is not None:
            _fail(answer, TopicError(ErrorCode.KAFKA_STORAGE_ERROR, f"Not stored: {failure}"))
        else:
            answer.base_offset = appended.base_offset
            answer.log_start_offset = appended.log_start_offset
