"""DescribeCluster (key 60), versions 0-2, flexible."""

# ruff: noqa: RUF009
from dataclasses import dataclass

from coordinator_protocol.schema import BOOL, INT8, INT16, INT32, STRING, Api, field


@dataclass(slots=True)
class DescribeClusterRequest:
    """The body of a request."""

    include_cluster_authorized_operations: bool = field(BOOL)
    endpoint_type: int = field(INT8, since=1, default=1)
    include_fenced_brokers: bool = field(BOOL, since=2)


@dataclass(slots=True)
class DescribeClusterBroker:
    """An element of `DescribeClusterResponse.brokers`."""

    broker_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=0, default=None)
    is_fenced: bool = field(BOOL, since=2)


@dataclass(slots=True)
class DescribeClusterResponse:
    """The body of a response."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)
    endpoint_type: int = field(INT8, since=1, default=1)
    cluster_id: str = field(STRING)
    controller_id: int = field(INT32, default=-1)
    brokers: list[DescribeClusterBroker] = field([DescribeClusterBroker])
    cluster_authorized_operations: int = field(INT32, default=-2147483648)


API = Api(
    key=60,
    first=0,
    last=2,
    flexible=0,
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
)
