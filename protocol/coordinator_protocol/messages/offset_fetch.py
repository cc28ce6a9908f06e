"""OffsetFetch (key 9), versions 1-10, flexible from 6."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT16, INT32, INT64, STRING, UUID, Api, field


@dataclass(slots=True)
class OffsetFetchRequestTopic:
    """An element of `OffsetFetchRequest.topics`."""

    name: str = field(STRING, until=7)
    partition_indexes: list[int] = field([INT32], until=7)


@dataclass(slots=True)
class OffsetFetchRequestTopics:
    """An element of `OffsetFetchRequestGroup.topics`."""

    name: str = field(STRING, since=8, until=9)
    topic_id: bytes = field(UUID, since=10)
    partition_indexes: list[int] = field([INT32], since=8)


@dataclass(slots=True)
class OffsetFetchRequestGroup:
    """An element of `OffsetFetchRequest.groups`."""

    group_id: str = field(STRING, since=8)
    member_id: str | None = field(STRING, since=9, nullable=9, default=None)
    member_epoch: int = field(INT32, since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(
        [OffsetFetchRequestTopics], since=8, nullable=8
    )


@dataclass(slots=True)
class OffsetFetchRequest:
    """The body of a request."""

    group_id: str = field(STRING, until=7)
    topics: list[OffsetFetchRequestTopic] | None = field(
        [OffsetFetchRequestTopic], until=7, nullable=2
    )
    groups: list[OffsetFetchRequestGroup] = field([OffsetFetchRequestGroup], since=8)
    require_stable: bool = field(BOOL, since=7)


@dataclass(slots=True)
class OffsetFetchResponsePartition:
    """An element of `OffsetFetchResponseTopic.partitions`."""

    partition_index: int = field(INT32, until=7)
    committed_offset: int = field(INT64, until=7)
    committed_leader_epoch: int = field(INT32, since=5, until=7, default=-1)
    metadata: str | None = field(STRING, until=7, nullable=1)
    error_code: int = field(INT16, until=7)


@dataclass(slots=True)
class OffsetFetchResponseTopic:
    """An element of `OffsetFetchResponse.topics`."""

    name: str = field(STRING, until=7)
    partitions: list[OffsetFetchResponsePartition] = field([OffsetFetchResponsePartition], until=7)


@dataclass(slots=True)
class OffsetFetchResponsePartitions:
    """An element of `OffsetFetchResponseTopics.partitions`."""

    partition_index: int = field(INT32, since=8)
    committed_offset: int = field(INT64, since=8)
    committed_leader_epoch: int = field(INT32, since=8, default=-1)
    metadata: str | None = field(STRING, since=8, nullable=8)
    error_code: int = field(INT16, since=8)


@dataclass(slots=True)
class OffsetFetchResponseTopics:
    """An element of `OffsetFetchResponseGroup.topics`."""

    name: str = field(STRING, since=8, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetFetchResponsePartitions] = field(
        [OffsetFetchResponsePartitions], since=8
    )


@dataclass(slots=True)
class OffsetFetchResponseGroup:
    """An element of `OffsetFetchResponse.groups`."""

    group_id: str = field(STRING, since=8)
    topics: list[OffsetFetchResponseTopics] = field([OffsetFetchResponseTopics], since=8)
    error_code: int = field(INT16, since=8)


@dataclass(slots=True)
class OffsetFetchResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=3)
    topics: list[OffsetFetchResponseTopic] = field([OffsetFetchResponseTopic], until=7)
    error_code: int = field(INT16, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = field([OffsetFetchResponseGroup], since=8)


API = Api(
    key=9,
    first=1,
    last=10,
    flexible=6,
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
)
