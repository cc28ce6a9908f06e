"""JoinGroup (key 11), versions 0-9, flexible from 6."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, BYTES, INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class JoinGroupRequestProtocol:
    """An element of `JoinGroupRequest.protocols`."""

    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@dataclass(slots=True, init=False)
class JoinGroupRequest:
    """The body of a request."""

    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, since=1, default=-1)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable=5, default=None)
    protocol_type: str = field(STRING)
    protocols: list[JoinGroupRequestProtocol] = field([JoinGroupRequestProtocol])
    reason: str | None = field(STRING, since=8, nullable=8, default=None)

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] | None = None,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is None else protocols
        self.reason = reason


@dataclass(slots=True)
class JoinGroupResponseMember:
    """An element of `JoinGroupResponse.members`."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable=5, default=None)
    metadata: bytes = field(BYTES)


@dataclass(slots=True)
class JoinGroupResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=2)
    error_code: int = field(INT16)
    generation_id: int = field(INT32, default=-1)
    protocol_type: str | None = field(STRING, since=7, nullable=7, default=None)
    protocol_name: str | None = field(STRING, nullable=7)
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, since=9)
    member_id: str = field(STRING)
    members: list[JoinGroupResponseMember] = field([JoinGroupResponseMember])


API = Api(
    key=11,
    first=0,
    last=9,
    flexible=6,
    request=JoinGroupRequest,
    response=JoinGroupResponse,
)
