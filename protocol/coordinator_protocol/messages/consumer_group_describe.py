"""ConsumerGroupDescribe (key 69), versions 0-1, flexible."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Api, field


@dataclass(slots=True)
class ConsumerGroupDescribeRequest:
    """The body of a request."""

    group_ids: list[str] = field([STRING])
    include_authorized_operations: bool = field(BOOL)


@dataclass(slots=True)
class TopicPartitions:
    """An element of `Assignment.topic_partitions`."""

    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    partitions: list[int] = field([INT32])


@dataclass(slots=True)
class Assignment:
    """The type of `Member.assignment`."""

    topic_partitions: list[TopicPartitions] = field([TopicPartitions])


@dataclass(slots=True)
class Member:
    """An element of `DescribedGroup.members`."""

    member_id: str = field(STRING)
    instance_id: str | None = field(STRING, nullable=0, default=None)
    rack_id: str | None = field(STRING, nullable=0, default=None)
    member_epoch: int = field(INT32)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field([STRING])
    subscribed_topic_regex: str | None = field(STRING, nullable=0, default=None)
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    member_type: int = field(INT8, since=1, default=-1)


@dataclass(slots=True)
class DescribedGroup:
    """An element of `ConsumerGroupDescribeResponse.groups`."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    assignor_name: str = field(STRING)
    members: list[Member] = field([Member])
    authorized_operations: int = field(INT32, default=-2147483648)


@dataclass(slots=True)
class ConsumerGroupDescribeResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    groups: list[DescribedGroup] = field([DescribedGroup])


API = Api(
    key=69,
    first=0,
    last=1,
    flexible=0,
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
)
