"""DeleteTopics (key 20), versions 1-6, flexible from 4."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, STRING, UUID, Api, field


@dataclass(slots=True)
class DeleteTopicState:
    """An element of `DeleteTopicsRequest.topics`."""

    name: str | None = field(STRING, since=6, nullable=6, default=None)
    topic_id: bytes = field(UUID, since=6)


@dataclass(slots=True)
class DeleteTopicsRequest:
    """The body of a request."""

    topic_names: list[str] = field([STRING], until=5)
    topics: list[DeleteTopicState] = field([DeleteTopicState], since=6)
    timeout_ms: int = field(INT32)


@dataclass(slots=True)
class DeletableTopicResult:
    """An element of `DeleteTopicsResponse.responses`."""

    name: str | None = field(STRING, nullable=6)
    topic_id: bytes = field(UUID, since=6)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=5, nullable=5, default=None)


@dataclass(slots=True)
class DeleteTopicsResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    responses: list[DeletableTopicResult] = field([DeletableTopicResult])


API = Api(
    key=20,
    first=1,
    last=6,
    flexible=4,
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
)
