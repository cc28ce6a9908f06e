"""SyncGroup (key 14), versions 0-5, flexible from 4."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BYTES, INT16, INT32, STRING, Api, field


@dataclass(slots=True, init=False)
class SyncGroupRequestAssignment:
    """An element of `SyncGroupRequest.assignments`."""

    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)

    def __init__(
        self,
        member_id: str = "",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment


@dataclass(slots=True, init=False)
class SyncGroupRequest:
    """The body of a request."""

    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)
    protocol_type: str | None = field(STRING, since=5, nullable=5, default=None)
    protocol_name: str | None = field(STRING, since=5, nullable=5, default=None)
    assignments: list[SyncGroupRequestAssignment] = field([SyncGroupRequestAssignment])

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is None else assignments


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
