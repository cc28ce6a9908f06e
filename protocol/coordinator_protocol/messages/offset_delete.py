"""OffsetDelete (key 47), version 0, never flexible."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class OffsetDeleteRequestPartition:
    """An element of `OffsetDeleteRequestTopic.partitions`."""

    partition_index: int = field(INT32)


@dataclass(slots=True)
class OffsetDeleteRequestTopic:
    """An element of `OffsetDeleteRequest.topics`."""

    name: str = field(STRING)
    partitions: list[OffsetDeleteRequestPartition] = field([OffsetDeleteRequestPartition])


@dataclass(slots=True)
class OffsetDeleteRequest:
    """The body of a request."""

    group_id: str = field(STRING)
    topics: list[OffsetDeleteRequestTopic] = field([OffsetDeleteRequestTopic])


@dataclass(slots=True)
class OffsetDeleteResponsePartition:
    """An element of `OffsetDeleteResponseTopic.partitions`."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@dataclass(slots=True)
class OffsetDeleteResponseTopic:
    """An element of `OffsetDeleteResponse.topics`."""

    name: str = field(STRING)
    partitions: list[OffsetDeleteResponsePartition] = field([OffsetDeleteResponsePartition])


@dataclass(slots=True)
class OffsetDeleteResponse:
    """The body of a response."""

    error_code: int = field(INT16)
    throttle_time_ms: int = field(INT32)
    topics: list[OffsetDeleteResponseTopic] = field([OffsetDeleteResponseTopic])


API = Api(
    key=47,
    first=0,
    last=0,
    flexible=None,
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
)
