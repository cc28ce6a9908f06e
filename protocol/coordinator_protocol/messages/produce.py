"""Produce (key 0), versions 3-13, flexible from 9."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Api, field


@dataclass(slots=True)
class PartitionProduceData:
    """An element of `TopicProduceData.partition_data`."""

    index: int = field(INT32)
    records: bytes | None = field(RECORDS, nullable=3)


@dataclass(slots=True)
class TopicProduceData:
    """An element of `ProduceRequest.topic_data`."""

    name: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partition_data: list[PartitionProduceData] = field([PartitionProduceData])


@dataclass(slots=True)
class ProduceRequest:
    """The body of a request."""

    transactional_id: str | None = field(STRING, nullable=3, default=None)
    acks: int = field(INT16)
    timeout_ms: int = field(INT32)
    topic_data: list[TopicProduceData] = field([TopicProduceData])


@dataclass(slots=True)
class BatchIndexAndErrorMessage:
    """An element of `PartitionProduceResponse.record_errors`."""

    batch_index: int = field(INT32, since=8)
    batch_index_error_message: str | None = field(STRING, since=8, nullable=8, default=None)


@dataclass(slots=True)
class LeaderIdAndEpoch:
    """The type of `PartitionProduceResponse.current_leader`."""

    leader_id: int = field(INT32, since=10, default=-1)
    leader_epoch: int = field(INT32, since=10, default=-1)


@dataclass(slots=True)
class PartitionProduceResponse:
    """An element of `TopicProduceResponse.partition_responses`."""

    index: int = field(INT32)
    error_code: int = field(INT16)
    base_offset: int = field(INT64)
    log_append_time_ms: int = field(INT64, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field([BatchIndexAndErrorMessage], since=8)
    error_message: str | None = field(STRING, since=8, nullable=8, default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=10, tag=0)


@dataclass(slots=True)
class TopicProduceResponse:
    """An element of `ProduceResponse.responses`."""

    name: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partition_responses: list[PartitionProduceResponse] = field([PartitionProduceResponse])


@dataclass(slots=True)
class NodeEndpoint:
    """An element of `ProduceResponse.node_endpoints`."""

    node_id: int = field(INT32, since=10)
    host: str = field(STRING, since=10)
    port: int = field(INT32, since=10)
    rack: str | None = field(STRING, since=10, nullable=10, default=None)


@dataclass(slots=True)
class ProduceResponse:
    """The body of a response."""

    responses: list[TopicProduceResponse] = field([TopicProduceResponse])
    throttle_time_ms: int = field(INT32)
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], since=10, tag=0)


API = Api(
    key=0,
    first=3,
    last=13,
    flexible=9,
    request=ProduceRequest,
    response=ProduceResponse,
)
