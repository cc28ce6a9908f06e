"""SyncGroup (key 14), versions 0-5, flexible from 4."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from protocol.schema import BYTES, INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class SyncGroupRequestAssignment:
    """An element of `SyncGroupRequest.assignments`."""

    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


@dataclass(slots=True)
class SyncGroupRequest:
    """The body of a request."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)
    protocol_type: str | None = field(STRING, since=5, nullable=5, default=None)
    protocol_name: str | None = field(STRING, since=5, nullable=5, default=None)
    assignments: list[SyncGroupRequestAssignment] = field([SyncGroupRequestAssignment])


@dataclass(slots=True)
class SyncGroupResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, since=5, nullable=5, default=None)
    protocol_name: str | None = field(STRING, since=5, nullable=5, default=None)
    assignment: bytes = field(BYTES)


API = Api(
    key=14,
    first=0,
    last=5,
    flexible=4,
    request=SyncGroupRequest,
    response=SyncGroupResponse,
)
