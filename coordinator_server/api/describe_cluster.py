"""DescribeCluster (key 60): the nodes, for admin clients (KIP-700).

v0: brokers. v1: endpoint type, brokers or controllers (KIP-919). v2: fenced brokers (KIP-1073);
there are none here.
"""

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from coordinator_server.api.authorized_operations import NOT_ASKED, cluster_operations
from coordinator_server.api.call import Call
from coordinator_server.api.services import Services

BROKERS = 1
CONTROLLERS = 2


def handle(
    call: Call, request: DescribeClusterRequest, services: Services
) -> DescribeClusterResponse:
    """Answer with all nodes as the caller's listener reaches them."""
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(call.version, request.endpoint_type)
    listener = call.caller.listener
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = cluster_operations(services.authorizer, call.caller)
    return DescribeClusterResponse(
        cluster_id=services.directory.cluster_id,
        controller_id=services.directory.controller(listener).node_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port)
            for node in services.directory.nodes(listener)
        ],
        cluster_authorized_operations=operations,
    )


def refuse(
    _request: DescribeClusterRequest, error: ErrorCode, _version: int
) -> DescribeClusterResponse:
    """An error and its message."""
    return DescribeClusterResponse(error_code=error, error_message=error.message)


def _wrong_endpoint(version: int, endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = (
            "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER"
        )
    else:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"Unsupported endpoint type {endpoint_type}"
    return DescribeClusterResponse(
        error_code=ErrorCode.INVALID_REQUEST if version == 0 else error, error_message=message
    )
