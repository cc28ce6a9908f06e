"""CreatePartitions (key 37), versions 0-3, flexible from 2."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class CreatePartitionsAssignment:
    """An element of `CreatePartitionsTopic.assignments`."""

    broker_ids: list[int] = field([INT32])


@dataclass(slots=True)
class CreatePartitionsTopic:
    """An element of `CreatePartitionsRequest.topics`."""

    name: str = field(STRING)
    count: int = field(INT32)
    assignments: list[CreatePartitionsAssignment] | None = field(
        [CreatePartitionsAssignment], nullable=0
    )


@dataclass(slots=True)
class CreatePartitionsRequest:
    """The body of a request."""

    topics: list[CreatePartitionsTopic] = field([CreatePartitionsTopic])
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


@dataclass(slots=True)
class CreatePartitionsTopicResult:
    """An element of `CreatePartitionsResponse.results`."""

    name: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)


@dataclass(slots=True)
class CreatePartitionsResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    results: list[CreatePartitionsTopicResult] = field([CreatePartitionsTopicResult])


API = Api(
    key=37,
    first=0,
    last=3,
    flexible=2,
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
)
