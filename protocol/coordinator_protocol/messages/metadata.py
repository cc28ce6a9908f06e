"""Metadata (key 3), versions 0-13, flexible from 9."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT16, INT32, STRING, UUID, Api, field


@dataclass(slots=True)
class MetadataRequestTopic:
    """An element of `MetadataRequest.topics`."""

    topic_id: bytes = field(UUID, since=10)
    name: str | None = field(STRING, nullable=10)


@dataclass(slots=True)
class MetadataRequest:
    """The body of a request."""

    topics: list[MetadataRequestTopic] | None = field([MetadataRequestTopic], nullable=1)
    allow_auto_topic_creation: bool = field(BOOL, since=4, default=True)
    include_cluster_authorized_operations: bool = field(BOOL, since=8, until=10)
    include_topic_authorized_operations: bool = field(BOOL, since=8)


@dataclass(slots=True)
class MetadataResponseBroker:
    """An element of `MetadataResponse.brokers`."""

    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, since=1, nullable=1, default=None)


@dataclass(slots=True)
class MetadataResponsePartition:
    """An element of `MetadataResponseTopic.partitions`."""

    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, since=7, default=-1)
    replica_nodes: list[int] = field([INT32])
    isr_nodes: list[int] = field([INT32])
    offline_replicas: list[int] = field([INT32], since=5)


@dataclass(slots=True)
class MetadataResponseTopic:
    """An element of `MetadataResponse.topics`."""

    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable=12)
    topic_id: bytes = field(UUID, since=10)
    is_internal: bool = field(BOOL, since=1)
    partitions: list[MetadataResponsePartition] = field([MetadataResponsePartition])
    topic_authorized_operations: int = field(INT32, since=8, default=-2147483648)


@dataclass(slots=True)
class MetadataResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=3)
    brokers: list[MetadataResponseBroker] = field([MetadataResponseBroker])
    cluster_id: str | None = field(STRING, since=2, nullable=2, default=None)
    controller_id: int = field(INT32, since=1, default=-1)
    topics: list[MetadataResponseTopic] = field([MetadataResponseTopic])
    cluster_authorized_operations: int = field(INT32, since=8, until=10, default=-2147483648)
    error_code: int = field(INT16, since=13)


API = Api(
    key=3,
    first=0,
    last=13,
    flexible=9,
    request=MetadataRequest,
    response=MetadataResponse,
)
