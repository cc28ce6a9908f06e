"""DeleteGroups (key 42), versions 0-2, flexible from 2."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class DeleteGroupsRequest:
    """The body of a request."""

    groups_names: list[str] = field([STRING])


@dataclass(slots=True)
class DeletableGroupResult:
    """An element of `DeleteGroupsResponse.results`."""

    group_id: str = field(STRING)
    error_code: int = field(INT16)


@dataclass(slots=True)
class DeleteGroupsResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    results: list[DeletableGroupResult] = field([DeletableGroupResult])


API = Api(
    key=42,
    first=0,
    last=2,
    flexible=2,
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
)
