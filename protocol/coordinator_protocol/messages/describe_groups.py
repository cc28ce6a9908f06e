"""DescribeGroups (key 15), versions 0-6, flexible from 5."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, BYTES, INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class DescribeGroupsRequest:
    """The body of a request."""

    groups: list[str] = field([STRING])
    include_authorized_operations: bool = field(BOOL, since=3)


@dataclass(slots=True)
class DescribedGroupMember:
    """An element of `DescribedGroup.members`."""

    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=4, nullable=4, default=None)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    member_metadata: bytes = field(BYTES)
    member_assignment: bytes = field(BYTES)


@dataclass(slots=True)
class DescribedGroup:
    """An element of `DescribeGroupsResponse.groups`."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=6, nullable=6, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    protocol_type: str = field(STRING)
    protocol_data: str = field(STRING)
    members: list[DescribedGroupMember] = field([DescribedGroupMember])
    authorized_operations: int = field(INT32, since=3, default=-2147483648)


@dataclass(slots=True)
class DescribeGroupsResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=1)
    groups: list[DescribedGroup] = field([DescribedGroup])


API = Api(
    key=15,
    first=0,
    last=6,
    flexible=5,
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
)
