"""AddPartitionsToTxn (key 24), versions 0-5, flexible from 3."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT16, INT32, INT64, STRING, Api, field


@dataclass(slots=True)
class AddPartitionsToTxnTopic:
    """An element of `AddPartitionsToTxnTransaction.topics`."""

    name: str = field(STRING)
    partitions: list[int] = field([INT32])


@dataclass(slots=True)
class AddPartitionsToTxnTransaction:
    """An element of `AddPartitionsToTxnRequest.transactions`."""

    transactional_id: str = field(STRING, since=4)
    producer_id: int = field(INT64, since=4)
    producer_epoch: int = field(INT16, since=4)
    verify_only: bool = field(BOOL, since=4)
    topics: list[AddPartitionsToTxnTopic] = field([AddPartitionsToTxnTopic], since=4)


@dataclass(slots=True)
class AddPartitionsToTxnRequest:
    """The body of a request."""

    v3_and_below_transactional_id: str = field(STRING, until=3)
    v3_and_below_producer_id: int = field(INT64, until=3)
    v3_and_below_producer_epoch: int = field(INT16, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field([AddPartitionsToTxnTopic], until=3)
    transactions: list[AddPartitionsToTxnTransaction] = field(
        [AddPartitionsToTxnTransaction], since=4
    )


@dataclass(slots=True)
class AddPartitionsToTxnPartitionResult:
    """An element of `AddPartitionsToTxnTopicResult.results_by_partition`."""

    partition_index: int = field(INT32)
    partition_error_code: int = field(INT16)


@dataclass(slots=True)
class AddPartitionsToTxnTopicResult:
    """An element of `AddPartitionsToTxnResult.topic_results`."""

    name: str = field(STRING)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(
        [AddPartitionsToTxnPartitionResult]
    )


@dataclass(slots=True)
class AddPartitionsToTxnResult:
    """An element of `AddPartitionsToTxnResponse.results_by_transaction`."""

    transactional_id: str = field(STRING, since=4)
    topic_results: list[AddPartitionsToTxnTopicResult] = field(
        [AddPartitionsToTxnTopicResult], since=4
    )


@dataclass(slots=True)
class AddPartitionsToTxnResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        [AddPartitionsToTxnTopicResult], until=3
    )
    error_code: int = field(INT16, since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(
        [AddPartitionsToTxnResult], since=4
    )


API = Api(
    key=24,
    first=0,
    last=5,
    flexible=3,
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
)
