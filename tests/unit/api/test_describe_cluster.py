"""DescribeCluster names the one node as Metadata does."""

from pathlib import Path

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.describe_cluster import DescribeClusterRequest
from coordinator_server.api import describe_cluster
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource
from tests.support.data_plane import make_topics
from tests.support.fake_services import NODE, FakeCall, fake_services


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return fake_services(make_topics(tmp_path))


def test_the_node_is_broker_and_controller(services: Services) -> None:
    response = describe_cluster.handle(FakeCall(2), DescribeClusterRequest(), services)
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (*NODE, None)
    assert not broker.is_fenced
    assert response.controller_id == NODE.node_id
    assert response.cluster_id == "test-cluster"
    assert (response.error_code, response.endpoint_type) == (0, 1)
    assert response.cluster_authorized_operations == -(2**31)


def test_authorized_operations_are_given_when_asked_for(services: Services) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = describe_cluster.handle(FakeCall(2), request, services)
    assert response.cluster_authorized_operations == sum(
        1 << code for code in (5, 7, 8, 9, 10, 11, 12)
    )


def test_who_may_not_describe_the_cluster_has_no_operations(tmp_path: Path) -> None:
    denied = {(Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster")}
    services = fake_services(make_topics(tmp_path), denied=denied)
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = describe_cluster.handle(FakeCall(2), request, services)
    assert response.cluster_authorized_operations == 0


@pytest.mark.parametrize(
    ("version", "endpoint_type", "error"),
    [
        (0, 2, ErrorCode.INVALID_REQUEST),
        (1, 2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (1, 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_other_endpoint_types_are_refused(
    services: Services, version: int, endpoint_type: int, error: ErrorCode
) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    response = describe_cluster.handle(FakeCall(version), request, services)
    assert response.error_code == error
    assert response.error_message
    assert response.brokers == []
