"""OffsetForLeaderEpoch (key 23), versions 2-4, flexible from 4."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, INT64, STRING, Api, field


@dataclass(slots=True)
class OffsetForLeaderPartition:
    """An element of `OffsetForLeaderTopic.partitions`."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32)


@dataclass(slots=True)
class OffsetForLeaderTopic:
    """An element of `OffsetForLeaderEpochRequest.topics`."""

    topic: str = field(STRING)
    partitions: list[OffsetForLeaderPartition] = field([OffsetForLeaderPartition])


@dataclass(slots=True)
class OffsetForLeaderEpochRequest:
    """The body of a request."""

    replica_id: int = field(INT32, since=3, default=-2)
    topics: list[OffsetForLeaderTopic] = field([OffsetForLeaderTopic])


@dataclass(slots=True)
class EpochEndOffset:
    """An element of `OffsetForLeaderTopicResult.partitions`."""

    error_code: int = field(INT16)
    partition: int = field(INT32)
    leader_epoch: int = field(INT32, default=-1)
    end_offset: int = field(INT64, default=-1)


@dataclass(slots=True)
class OffsetForLeaderTopicResult:
    """An element of `OffsetForLeaderEpochResponse.topics`."""

    topic: str = field(STRING)
    partitions: list[EpochEndOffset] = field([EpochEndOffset])


@dataclass(slots=True)
class OffsetForLeaderEpochResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    topics: list[OffsetForLeaderTopicResult] = field([OffsetForLeaderTopicResult])


API = Api(
    key=23,
    first=2,
    last=4,
    flexible=4,
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
)
