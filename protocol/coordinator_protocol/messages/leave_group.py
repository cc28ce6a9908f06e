"""LeaveGroup (key 13), versions 0-5, flexible from 4."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class MemberIdentity:
    """An element of `LeaveGroupRequest.members`."""

    member_id: str = field(STRING, since=3)
    group_instance_id: str | None = field(STRING, since=3, nullable=3, default=None)
    reason: str | None = field(STRING, since=5, nullable=5, default=None)


@dataclass(slots=True)
class LeaveGroupRequest:
    """The body of a request."""

    group_id: str = field(STRING)
    member_id: str = field(STRING, until=2)
    members: list[MemberIdentity] = field([MemberIdentity], since=3)


@dataclass(slots=True)
class MemberResponse:
    """An element of `LeaveGroupResponse.members`."""

    member_id: str = field(STRING, since=3)
    group_instance_id: str | None = field(STRING, since=3, nullable=3)
    error_code: int = field(INT16, since=3)


@dataclass(slots=True)
class LeaveGroupResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    members: list[MemberResponse] = field([MemberResponse], since=3)


API = Api(
    key=13,
    first=0,
    last=5,
    flexible=4,
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
)
