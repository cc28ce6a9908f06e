"""IncrementalAlterConfigs (key 44), versions 0-1, flexible from 1."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT8, INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class AlterableConfig:
    """An element of `AlterConfigsResource.configs`."""

    name: str = field(STRING)
    config_operation: int = field(INT8)
    value: str | None = field(STRING, nullable=0)


@dataclass(slots=True)
class AlterConfigsResource:
    """An element of `IncrementalAlterConfigsRequest.resources`."""

    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field([AlterableConfig])


@dataclass(slots=True)
class IncrementalAlterConfigsRequest:
    """The body of a request."""

    resources: list[AlterConfigsResource] = field([AlterConfigsResource])
    validate_only: bool = field(BOOL)


@dataclass(slots=True)
class AlterConfigsResourceResponse:
    """An element of `IncrementalAlterConfigsResponse.responses`."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


@dataclass(slots=True)
class IncrementalAlterConfigsResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field([AlterConfigsResourceResponse])


API = Api(
    key=44,
    first=0,
    last=1,
    flexible=1,
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
)
