"""ApiVersions (key 18), versions 0-4, flexible from 3."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT16, INT32, INT64, STRING, Api, field


@dataclass(slots=True)
class ApiVersionsRequest:
    """The body of a request."""

    client_software_name: str = field(STRING, since=3)
    client_software_version: str = field(STRING, since=3)


@dataclass(slots=True)
class ApiVersion:
    """An element of `ApiVersionsResponse.api_keys`."""

    api_key: int = field(INT16)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


@dataclass(slots=True)
class SupportedFeatureKey:
    """An element of `ApiVersionsResponse.supported_features`."""

    name: str = field(STRING, since=3)
    min_version: int = field(INT16, since=3)
    max_version: int = field(INT16, since=3)


@dataclass(slots=True)
class FinalizedFeatureKey:
    """An element of `ApiVersionsResponse.finalized_features`."""

    name: str = field(STRING, since=3)
    max_version_level: int = field(INT16, since=3)
    min_version_level: int = field(INT16, since=3)


@dataclass(slots=True)
class ApiVersionsResponse:
    """The body of a response."""

    error_code: int = field(INT16)
    api_keys: list[ApiVersion] = field([ApiVersion])
    throttle_time_ms: int = field(INT32, since=1)
    supported_features: list[SupportedFeatureKey] = field([SupportedFeatureKey], since=3, tag=0)
    finalized_features_epoch: int = field(INT64, since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field([FinalizedFeatureKey], since=3, tag=2)
    zk_migration_ready: bool = field(BOOL, since=3, tag=3)


API = Api(
    key=18,
    first=0,
    last=4,
    flexible=3,
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
)
