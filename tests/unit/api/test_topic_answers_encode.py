"""The answers of the topic APIs can be written in every version that is announced."""

import asyncio
import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import (
    request_decoder,
    request_encoder,
    response_decoder,
    response_encoder,
)
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coordinator_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coordinator_protocol.messages.describe_cluster import DescribeClusterRequest
from coordinator_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from coordinator_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from coordinator_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coordinator_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from coordinator_server.api import create_topics
from coordinator_server.api.registry import REGISTRY
from coordinator_server.api.services import Services
from tests.support.data_plane import batch_of, make_topics, produced
from tests.support.fake_services import NOW, FakeCall, fake_services

KEYS = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_CLUSTER,
)
SERVED = [
    pytest.param(key, version, id=f"{key.name}-v{version}")
    for key in KEYS
    for version in range(REGISTRY[key].min_version, REGISTRY[key].max_version + 1)
]


@pytest.fixture
async def services(tmp_path: Path) -> Services:
    services = fake_services(make_topics(tmp_path))
    services.topics.catalog.create([("orders", 1), ("doomed", 1)])
    await produced(services.topics, "orders", 0, (1000, b"a"))
    return services


def a_request(key: ApiKey, version: int) -> Any:
    """One that touches what exists and what does not."""
    if key is ApiKey.METADATA:
        names = [MetadataRequestTopic(name=name) for name in ("orders", "new", "not legal")]
        return MetadataRequest(topics=names)
    if key is ApiKey.CREATE_TOPICS:
        asked = [CreatableTopic(name, 2, 1) for name in ("new", "orders")]
        return CreateTopicsRequest(topics=asked)
    if key is ApiKey.DELETE_TOPICS:
        doomed = ["doomed", "nothing"]
        if version < 6:
            return DeleteTopicsRequest(topic_names=doomed)
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in doomed])
    if key is ApiKey.DESCRIBE_CLUSTER:
        return DescribeClusterRequest(include_cluster_authorized_operations=True)
    if key is ApiKey.LIST_OFFSETS:
        asked_offsets = [
            ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 1)
        ]
        return ListOffsetsRequest(topics=[ListOffsetsTopic("orders", asked_offsets)])
    if key is ApiKey.FETCH:
        wanted = [FetchPartition(partition=index, partition_max_bytes=1000) for index in (0, 1)]
        return FetchRequest(topics=[FetchTopic(topic="orders", partitions=wanted)])
    batch = batch_of((NOW, b"a"))
    data = [PartitionProduceData(index, batch) for index in (0, 1)]
    return ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData("orders", partition_data=data)]
    )


@pytest.mark.parametrize(("key", "version"), SERVED)
async def test_a_mixed_answer_is_written_and_read_back(
    services: Services, key: ApiKey, version: int
) -> None:
    body = request_encoder(key, version)(a_request(key, version))
    request = request_decoder(key, version)(body, 0, len(body))
    module = import_module(f"coordinator_server.api.{REGISTRY[key].module}")
    answered = module.handle(FakeCall(version), request, services)
    response = await answered if inspect.isawaitable(answered) else answered
    written = response_encoder(key, version)(response)
    read = response_decoder(key, version)(written, 0, len(written))
    assert response_encoder(key, version)(read) == written


@pytest.mark.parametrize("version", range(2, 8))
def test_a_name_as_long_as_the_protocol_allows_can_be_refused(
    services: Services, version: int
) -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic("x" * 32_767, 1, 1)])
    response = asyncio.run(create_topics.handle(FakeCall(version), request, services))
    assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert response_encoder(ApiKey.CREATE_TOPICS, version)(response)


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_a_refusal_as_a_whole_is_written(key: ApiKey, version: int) -> None:
    module = import_module(f"coordinator_server.api.{REGISTRY[key].module}")
    error = ErrorCode.INVALID_REQUEST
    response = module.refuse(a_request(key, version), error, version)
    written = response_encoder(key, version)(response)
    assert error.to_bytes(2, "big") in written
