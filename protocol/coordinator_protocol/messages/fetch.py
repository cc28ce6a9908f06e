"""Fetch (key 1), versions 4-18, flexible from 12."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Api, field


@dataclass(slots=True)
class ReplicaState:
    """The type of `FetchRequest.replica_state`."""

    replica_id: int = field(INT32, since=15, default=-1)
    replica_epoch: int = field(INT64, since=15, default=-1)


@dataclass(slots=True)
class FetchPartition:
    """An element of `FetchTopic.partitions`."""

    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=9, default=-1)
    fetch_offset: int = field(INT64)
    last_fetched_epoch: int = field(INT32, since=12, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    partition_max_bytes: int = field(INT32)
    replica_directory_id: bytes = field(UUID, since=17, tag=0)
    high_watermark: int = field(INT64, since=18, tag=1, default=9223372036854775807)


@dataclass(slots=True)
class FetchTopic:
    """An element of `FetchRequest.topics`."""

    topic: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[FetchPartition] = field([FetchPartition])


@dataclass(slots=True)
class ForgottenTopic:
    """An element of `FetchRequest.forgotten_topics_data`."""

    topic: str = field(STRING, since=7, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[int] = field([INT32], since=7)


@dataclass(slots=True)
class FetchRequest:
    """The body of a request."""

    cluster_id: str | None = field(STRING, since=12, nullable=12, tag=0, default=None)
    replica_id: int = field(INT32, until=14, default=-1)
    replica_state: ReplicaState = field(ReplicaState, since=15, tag=1)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, default=2147483647)
    isolation_level: int = field(INT8)
    session_id: int = field(INT32, since=7)
    session_epoch: int = field(INT32, since=7, default=-1)
    topics: list[FetchTopic] = field([FetchTopic])
    forgotten_topics_data: list[ForgottenTopic] = field([ForgottenTopic], since=7)
    rack_id: str = field(STRING, since=11)


@dataclass(slots=True)
class EpochEndOffset:
    """The type of `PartitionData.diverging_epoch`."""

    epoch: int = field(INT32, since=12, default=-1)
    end_offset: int = field(INT64, since=12, default=-1)


@dataclass(slots=True)
class LeaderIdAndEpoch:
    """The type of `PartitionData.current_leader`."""

    leader_id: int = field(INT32, since=12, default=-1)
    leader_epoch: int = field(INT32, since=12, default=-1)


@dataclass(slots=True)
class SnapshotId:
    """The type of `PartitionData.snapshot_id`."""

    end_offset: int = field(INT64, since=12, default=-1)
    epoch: int = field(INT32, since=12, default=-1)


@dataclass(slots=True)
class AbortedTransaction:
    """An element of `PartitionData.aborted_transactions`."""

    producer_id: int = field(INT64)
    first_offset: int = field(INT64)


@dataclass(slots=True)
class PartitionData:
    """An element of `FetchableTopicResponse.partitions`."""

    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    high_watermark: int = field(INT64)
    last_stable_offset: int = field(INT64, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = field(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field([AbortedTransaction], nullable=4)
    preferred_read_replica: int = field(INT32, since=11, default=-1)
    records: bytes | None = field(RECORDS, nullable=4)


@dataclass(slots=True)
class FetchableTopicResponse:
    """An element of `FetchResponse.responses`."""

    topic: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[PartitionData] = field([PartitionData])


@dataclass(slots=True)
class NodeEndpoint:
    """An element of `FetchResponse.node_endpoints`."""

    node_id: int = field(INT32, since=16)
    host: str = field(STRING, since=16)
    port: int = field(INT32, since=16)
    rack: str | None = field(STRING, since=16, nullable=16, default=None)


@dataclass(slots=True)
class FetchResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=7)
    session_id: int = field(INT32, since=7)
    responses: list[FetchableTopicResponse] = field([FetchableTopicResponse])
    node_endpoints: list[NodeEndpoint] = field([NodeEndpoint], since=16, tag=0)


API = Api(
    key=1,
    first=4,
    last=18,
    flexible=12,
    request=FetchRequest,
    response=FetchResponse,
)
