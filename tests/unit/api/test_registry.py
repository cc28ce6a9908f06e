"""The registry, and what is true of every API in it."""

import subprocess
import sys
from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import load_api, response_decoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.create_topics import CreatableTopic
from coordinator_protocol.messages.fetch import FetchPartition, FetchTopic
from coordinator_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from coordinator_protocol.messages.metadata import MetadataRequestTopic
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coordinator_protocol.messages.produce import PartitionProduceData, TopicProduceData
from coordinator_server.api.registry import REGISTRY, ServedApi, announced, find_route
from coordinator_server.ports import Operation, Resource
from tests.support.fake_coordinator import FakeCoordinator, ask, group_services

ORDERS = OffsetCommitRequestTopic(
    name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0)]
)
NAMING_THE_GROUP: dict[int, dict[str, Any]] = {
    ApiKey.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ["g"]},
    ApiKey.JOIN_GROUP: {"group_id": "g"},
    ApiKey.SYNC_GROUP: {"group_id": "g", "protocol_type": "consumer", "protocol_name": "range"},
    ApiKey.HEARTBEAT: {"group_id": "g"},
    ApiKey.LEAVE_GROUP: {"group_id": "g"},
    ApiKey.OFFSET_COMMIT: {"group_id": "g", "topics": [ORDERS]},
    ApiKey.OFFSET_FETCH: {
        "group_id": "g",
        "topics": [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])],
        "groups": [OffsetFetchRequestGroup(group_id="g", topics=None)],
    },
    ApiKey.OFFSET_DELETE: {"group_id": "g"},
    ApiKey.LIST_GROUPS: {},
    ApiKey.DESCRIBE_GROUPS: {"groups": ["g"]},
    ApiKey.DELETE_GROUPS: {"groups_names": ["g"]},
}
"""What a request of each API about one group holds."""

REFUSED: dict[int, dict[str, Any]] = NAMING_THE_GROUP | {
    ApiKey.METADATA: {"topics": [MetadataRequestTopic(name="orders")]},
    ApiKey.PRODUCE: {
        "acks": 1,
        "topic_data": [TopicProduceData(name="orders", partition_data=[PartitionProduceData()])],
    },
    ApiKey.FETCH: {"topics": [FetchTopic(topic="orders", partitions=[FetchPartition()])]},
    ApiKey.LIST_OFFSETS: {
        "topics": [ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition()])]
    },
    ApiKey.CREATE_TOPICS: {"topics": [CreatableTopic(name="orders")]},
    ApiKey.DELETE_TOPICS: {"topic_names": ["orders"]},
}
NAMING_TOPICS = REFUSED.keys() - NAMING_THE_GROUP.keys()
"""What a request that is refused holds; NAMING_TOPICS are answered topic by topic."""

APIS = pytest.mark.parametrize("api", announced(), ids=lambda api: api.key.name)


@APIS
def test_every_announced_version_has_a_route_and_no_other(api: ServedApi) -> None:
    for version in range(api.min_version, api.max_version + 1):
        way = find_route(api.key, version)
        assert way is not None
        assert way.version == version
    assert find_route(api.key, api.min_version - 1) is None
    assert find_route(api.key, api.max_version + 1) is None


@APIS
def test_a_route_is_made_once(api: ServedApi) -> None:
    assert find_route(api.key, api.max_version) is find_route(api.key, api.max_version)


@APIS
def test_every_announced_version_is_one_kafka_has(api: ServedApi) -> None:
    schema = load_api(api.key)
    assert schema.first <= api.min_version <= api.max_version <= schema.last


@pytest.mark.parametrize(
    "api",
    [api for api in announced() if api.resource is Resource.GROUP],
    ids=lambda api: api.key.name,
)
def test_the_matrix_of_permissions_is_what_is_checked(api: ServedApi) -> None:
    """Whoever lacks what the registry names is told so and reaches no group."""
    assert api.operation is not None
    for version in range(api.min_version, api.max_version + 1):
        coordinator = FakeCoordinator()
        cluster = (Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster")
        denied = [(api.operation, Resource.GROUP, "g"), cluster]
        call = ask(
            api.key,
            version,
            group_services(coordinator, denied=denied),
            **NAMING_THE_GROUP[api.key],
        )
        assert coordinator.submitted == []
        if api.key != ApiKey.LIST_GROUPS:
            assert str(int(ErrorCode.GROUP_AUTHORIZATION_FAILED)) in str(call.response)


def test_importing_the_registry_imports_no_messages_and_no_api() -> None:
    code = (
        "import sys, coordinator_server.api.registry;"
        "print([m for m in sys.modules if m.startswith('coordinator_protocol.messages.')"
        " or m in ('coordinator_server.api.heartbeat', 'coordinator_server.group.group')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_librdkafka_finds_the_versions_it_insists_on() -> None:
    assert REGISTRY[ApiKey.PRODUCE].min_version <= 3
    assert REGISTRY[ApiKey.FETCH].min_version <= 4


def test_what_does_not_work_is_not_announced() -> None:
    assert ApiKey.INIT_PRODUCER_ID not in REGISTRY
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in REGISTRY


@APIS
def test_every_api_can_refuse_in_every_version(api: ServedApi) -> None:
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    for version in range(api.min_version, api.max_version + 1):
        way = find_route(api.key, version)
        assert way is not None
        request = load_api(api.key).request(**REFUSED.get(api.key, {}))
        body = way.encode(way.refuse(request, error, version))
        response = response_decoder(api.key, version)(body, 0, len(body))
        assert str(int(error)) in str(response)
        assert "orders" in str(response) or api.key not in NAMING_TOPICS


def test_every_api_can_be_served_when_no_file_can_be_opened_any_more() -> None:
    code = (
        "import resource; from coordinator_server.api import registry; registry.import_all();"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3));"
        "print(len([registry.Route(api, version) for api in registry.REGISTRY.values()"
        " for version in range(api.min_version, api.max_version + 1)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rows = REGISTRY.values()
    assert int(done.stdout) == sum(1 + api.max_version - api.min_version for api in rows)
