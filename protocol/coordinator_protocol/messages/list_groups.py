"""ListGroups (key 16), versions 0-5, flexible from 3."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class ListGroupsRequest:
    """The body of a request."""

    states_filter: list[str] = field([STRING], since=4)
    types_filter: list[str] = field([STRING], since=5)


@dataclass(slots=True)
class ListedGroup:
    """An element of `ListGroupsResponse.groups`."""

    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, since=4)
    group_type: str = field(STRING, since=5)


@dataclass(slots=True)
class ListGroupsResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    groups: list[ListedGroup] = field([ListedGroup])


API = Api(
    key=16,
    first=0,
    last=5,
    flexible=3,
    request=ListGroupsRequest,
    response=ListGroupsResponse,
)
