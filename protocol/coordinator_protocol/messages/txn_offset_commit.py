"""TxnOffsetCommit (key 28), versions 0-5, flexible from 3."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, INT64, STRING, Api, field


@dataclass(slots=True)
class TxnOffsetCommitRequestPartition:
    """An element of `TxnOffsetCommitRequestTopic.partitions`."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=2, default=-1)
    committed_metadata: str | None = field(STRING, nullable=0)


@dataclass(slots=True)
class TxnOffsetCommitRequestTopic:
    """An element of `TxnOffsetCommitRequest.topics`."""

    name: str = field(STRING)
    partitions: list[TxnOffsetCommitRequestPartition] = field([TxnOffsetCommitRequestPartition])


@dataclass(slots=True)
class TxnOffsetCommitRequest:
    """The body of a request."""

    transactional_id: str = field(STRING)
    group_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    generation_id: int = field(INT32, since=3, default=-1)
    member_id: str = field(STRING, since=3)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field([TxnOffsetCommitRequestTopic])


@dataclass(slots=True)
class TxnOffsetCommitResponsePartition:
    """An element of `TxnOffsetCommitResponseTopic.partitions`."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@dataclass(slots=True)
class TxnOffsetCommitResponseTopic:
    """An element of `TxnOffsetCommitResponse.topics`."""

    name: str = field(STRING)
    partitions: list[TxnOffsetCommitResponsePartition] = field([TxnOffsetCommitResponsePartition])


@dataclass(slots=True)
class TxnOffsetCommitResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = field([TxnOffsetCommitResponseTopic])


API = Api(
    key=28,
    first=0,
    last=5,
    flexible=3,
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
)
