"""ConsumerGroupHeartbeat (key 68), versions 0-1, flexible."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, STRING, UUID, Api, field


@dataclass(slots=True)
class TopicPartitions:
    """An element of `ConsumerGroupHeartbeatRequest.topic_partitions`."""

    topic_id: bytes = field(UUID)
    partitions: list[int] = field([INT32])


@dataclass(slots=True)
class ConsumerGroupHeartbeatRequest:
    """The body of a request."""

    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)
    instance_id: str | None = field(STRING, nullable=0, default=None)
    rack_id: str | None = field(STRING, nullable=0, default=None)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    subscribed_topic_names: list[str] | None = field([STRING], nullable=0, default=None)
    subscribed_topic_regex: str | None = field(STRING, since=1, nullable=1, default=None)
    server_assignor: str | None = field(STRING, nullable=0, default=None)
    topic_partitions: list[TopicPartitions] | None = field(
        [TopicPartitions], nullable=0, default=None
    )


@dataclass(slots=True)
class Assignment:
    """The type of `ConsumerGroupHeartbeatResponse.assignment`."""

    topic_partitions: list[TopicPartitions] = field([TopicPartitions])


@dataclass(slots=True)
class ConsumerGroupHeartbeatResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)
    member_id: str | None = field(STRING, nullable=0, default=None)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    assignment: Assignment | None = field(Assignment, nullable=0, default=None)


API = Api(
    key=68,
    first=0,
    last=1,
    flexible=0,
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
)
