"""DescribeConfigs (key 32), versions 1-4, flexible from 4."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT8, INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class DescribeConfigsResource:
    """An element of `DescribeConfigsRequest.resources`."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configuration_keys: list[str] | None = field([STRING], nullable=1)


@dataclass(slots=True)
class DescribeConfigsRequest:
    """The body of a request."""

    resources: list[DescribeConfigsResource] = field([DescribeConfigsResource])
    include_synonyms: bool = field(BOOL)
    include_documentation: bool = field(BOOL, since=3)


@dataclass(slots=True)
class DescribeConfigsSynonym:
    """An element of `DescribeConfigsResourceResult.synonyms`."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable=1)
    source: int = field(INT8)


@dataclass(slots=True)
class DescribeConfigsResourceResult:
    """An element of `DescribeConfigsResult.configs`."""

    name: str = field(STRING)
    value: str | None = field(STRING, nullable=1)
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1)
    is_sensitive: bool = field(BOOL)
    synonyms: list[DescribeConfigsSynonym] = field([DescribeConfigsSynonym])
    config_type: int = field(INT8, since=3)
    documentation: str | None = field(STRING, since=3, nullable=3)


@dataclass(slots=True)
class DescribeConfigsResult:
    """An element of `DescribeConfigsResponse.results`."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=1)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[DescribeConfigsResourceResult] = field([DescribeConfigsResourceResult])


@dataclass(slots=True)
class DescribeConfigsResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    results: list[DescribeConfigsResult] = field([DescribeConfigsResult])


API = Api(
    key=32,
    first=1,
    last=4,
    flexible=4,
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
)
