"""Heartbeat (key 12), versions 0-4, flexible from 4."""

from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class HeartbeatRequest:
    """The body of a request."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)


@dataclass(slots=True)
class HeartbeatResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)


API = Api(
    key=12,
    first=0,
    last=4,
    flexible=4,
    request=HeartbeatRequest,
    response=HeartbeatResponse,
)
