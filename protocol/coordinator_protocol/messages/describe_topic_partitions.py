"""DescribeTopicPartitions (key 75), version 0, flexible."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT16, INT32, STRING, UUID, Api, field


@dataclass(slots=True)
class TopicRequest:
    """An element of `DescribeTopicPartitionsRequest.topics`."""

    name: str = field(STRING)


@dataclass(slots=True)
class Cursor:
    """The type of `DescribeTopicPartitionsRequest.cursor`."""

    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


@dataclass(slots=True)
class DescribeTopicPartitionsRequest:
    """The body of a request."""

    topics: list[TopicRequest] = field([TopicRequest])
    response_partition_limit: int = field(INT32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable=0, default=None)


@dataclass(slots=True)
class DescribeTopicPartitionsResponsePartition:
    """An element of `DescribeTopicPartitionsResponseTopic.partitions`."""

    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, default=-1)
    replica_nodes: list[int] = field([INT32])
    isr_nodes: list[int] = field([INT32])
    eligible_leader_replicas: list[int] | None = field([INT32], nullable=0, default=None)
    last_known_elr: list[int] | None = field([INT32], nullable=0, default=None)
    offline_replicas: list[int] = field([INT32])


@dataclass(slots=True)
class DescribeTopicPartitionsResponseTopic:
    """An element of `DescribeTopicPartitionsResponse.topics`."""

    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable=0)
    topic_id: bytes = field(UUID)
    is_internal: bool = field(BOOL)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(
        [DescribeTopicPartitionsResponsePartition]
    )
    topic_authorized_operations: int = field(INT32, default=-2147483648)


@dataclass(slots=True)
class DescribeTopicPartitionsResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(
        [DescribeTopicPartitionsResponseTopic]
    )
    next_cursor: Cursor | None = field(Cursor, nullable=0, default=None)


API = Api(
    key=75,
    first=0,
    last=0,
    flexible=0,
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
)
