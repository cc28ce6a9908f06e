"""FindCoordinator (key 10), versions 0-6, flexible from 3."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT8, INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class FindCoordinatorRequest:
    """The body of a request."""

    key: str = field(STRING, until=3)
    key_type: int = field(INT8, since=1)
    coordinator_keys: list[str] = field([STRING], since=4)


@dataclass(slots=True)
class Coordinator:
    """An element of `FindCoordinatorResponse.coordinators`."""

    key: str = field(STRING, since=4)
    node_id: int = field(INT32, since=4)
    host: str = field(STRING, since=4)
    port: int = field(INT32, since=4)
    error_code: int = field(INT16, since=4)
    error_message: str | None = field(STRING, since=4, nullable=4)


@dataclass(slots=True)
class FindCoordinatorResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16, until=3)
    error_message: str | None = field(STRING, since=1, until=3, nullable=1)
    node_id: int = field(INT32, until=3)
    host: str = field(STRING, until=3)
    port: int = field(INT32, until=3)
    coordinators: list[Coordinator] = field([Coordinator], since=4)


API = Api(
    key=10,
    first=0,
    last=6,
    flexible=3,
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
)
