"""OffsetCommit (key 8), versions 2-10, flexible from 8."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, INT64, STRING, UUID, Api, field


@dataclass(slots=True)
class OffsetCommitRequestPartition:
    """An element of `OffsetCommitRequestTopic.partitions`."""

    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=6, default=-1)
    committed_metadata: str | None = field(STRING, nullable=2)


@dataclass(slots=True)
class OffsetCommitRequestTopic:
    """An element of `OffsetCommitRequest.topics`."""

    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetCommitRequestPartition] = field([OffsetCommitRequestPartition])


@dataclass(slots=True)
class OffsetCommitRequest:
    """The body of a request."""

    group_id: str = field(STRING)
    generation_id_or_member_epoch: int = field(INT32, default=-1)
    member_id: str = field(STRING)
    retention_time_ms: int = field(INT64, until=4, default=-1)
    group_instance_id: str | None = field(STRING, since=7, nullable=7, default=None)
    topics: list[OffsetCommitRequestTopic] = field([OffsetCommitRequestTopic])


@dataclass(slots=True)
class OffsetCommitResponsePartition:
    """An element of `OffsetCommitResponseTopic.partitions`."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@dataclass(slots=True)
class OffsetCommitResponseTopic:
    """An element of `OffsetCommitResponse.topics`."""

    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetCommitResponsePartition] = field([OffsetCommitResponsePartition])


@dataclass(slots=True)
class OffsetCommitResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=3)
    topics: list[OffsetCommitResponseTopic] = field([OffsetCommitResponseTopic])


API = Api(
    key=8,
    first=2,
    last=10,
    flexible=8,
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
)
