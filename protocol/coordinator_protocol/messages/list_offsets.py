"""ListOffsets (key 2), versions 1-11, flexible from 6."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT8, INT16, INT32, INT64, STRING, Api, field


@dataclass(slots=True)
class ListOffsetsPartition:
    """An element of `ListOffsetsTopic.partitions`."""

    partition_index: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=4, default=-1)
    timestamp: int = field(INT64)


@dataclass(slots=True)
class ListOffsetsTopic:
    """An element of `ListOffsetsRequest.topics`."""

    name: str = field(STRING)
    partitions: list[ListOffsetsPartition] = field([ListOffsetsPartition])


@dataclass(slots=True)
class ListOffsetsRequest:
    """The body of a request."""

    replica_id: int = field(INT32)
    isolation_level: int = field(INT8, since=2)
    topics: list[ListOffsetsTopic] = field([ListOffsetsTopic])
    timeout_ms: int = field(INT32, since=10)


@dataclass(slots=True)
class ListOffsetsPartitionResponse:
    """An element of `ListOffsetsTopicResponse.partitions`."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    timestamp: int = field(INT64, default=-1)
    offset: int = field(INT64, default=-1)
    leader_epoch: int = field(INT32, since=4, default=-1)


@dataclass(slots=True)
class ListOffsetsTopicResponse:
    """An element of `ListOffsetsResponse.topics`."""

    name: str = field(STRING)
    partitions: list[ListOffsetsPartitionResponse] = field([ListOffsetsPartitionResponse])


@dataclass(slots=True)
class ListOffsetsResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=2)
    topics: list[ListOffsetsTopicResponse] = field([ListOffsetsTopicResponse])


API = Api(
    key=2,
    first=1,
    last=11,
    flexible=6,
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
)
