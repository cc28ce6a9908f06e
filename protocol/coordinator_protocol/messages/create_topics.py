"""CreateTopics (key 19), versions 2-7, flexible from 5."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Api, field


@dataclass(slots=True)
class CreatableReplicaAssignment:
    """An element of `CreatableTopic.assignments`."""

    partition_index: int = field(INT32)
    broker_ids: list[int] = field([INT32])


@dataclass(slots=True)
class CreatableTopicConfig:
    """An element of `CreatableTopic.configs`."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable=2)


@dataclass(slots=True)
class CreatableTopic:
    """An element of `CreateTopicsRequest.topics`."""

    name: str = field(STRING)
    num_partitions: int = field(INT32)
    replication_factor: int = field(INT16)
    assignments: list[CreatableReplicaAssignment] = field([CreatableReplicaAssignment])
    configs: list[CreatableTopicConfig] = field([CreatableTopicConfig])


@dataclass(slots=True)
class CreateTopicsRequest:
    """The body of a request."""

    topics: list[CreatableTopic] = field([CreatableTopic])
    timeout_ms: int = field(INT32, default=60000)
    validate_only: bool = field(BOOL)


@dataclass(slots=True)
class CreatableTopicConfigs:
    """An element of `CreatableTopicResult.configs`."""

    name: str = field(STRING, since=5)
    value: str | None = field(STRING, since=5, nullable=5)
    read_only: bool = field(BOOL, since=5)
    config_source: int = field(INT8, since=5, default=-1)
    is_sensitive: bool = field(BOOL, since=5)


@dataclass(slots=True)
class CreatableTopicResult:
    """An element of `CreateTopicsResponse.topics`."""

    name: str = field(STRING)
    topic_id: bytes = field(UUID, since=7)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=2)
    topic_config_error_code: int = field(INT16, since=5, tag=0)
    num_partitions: int = field(INT32, since=5, default=-1)
    replication_factor: int = field(INT16, since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(
        [CreatableTopicConfigs], since=5, nullable=5
    )


@dataclass(slots=True)
class CreateTopicsResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    topics: list[CreatableTopicResult] = field([CreatableTopicResult])


API = Api(
    key=19,
    first=2,
    last=7,
    flexible=5,
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
)
