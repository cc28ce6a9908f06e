"""Metadata of many topics and partitions is made in pieces, and has the same bytes."""

from pathlib import Path
from typing import Any, cast

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import response_encoder
from coordinator_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coordinator_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from coordinator_server.api import create_topics, metadata
from coordinator_server.loop.time_slice import LONGEST_MS
from coordinator_server.ports import Operation, Resource
from coordinator_server.storage.base import Node
from tests.support.data_plane import make_topics
from tests.support.fake_services import FakeCall, FakeDirectory, fake_services
from tests.support.time_slices import AdvancingClock, pieces


class SeveralLeaders(FakeDirectory):
    """Every third partition has no leader, the others have one of two."""

    def leader(self, topic: str, partition: int, listener: str) -> Node | None:
        return None if partition % 3 == 0 else Node(partition % 2, "broker.example", 9092)


async def asked(version: int, services: Any, request: MetadataRequest) -> bytes:
    call = FakeCall(version, int(ApiKey.METADATA))
    response = await metadata.handle(call, request, services)
    if response is not None:
        return response_encoder(ApiKey.METADATA, version)(response)
    return cast("bytes", call.answers[0])


@pytest.mark.interpreted
@pytest.mark.parametrize("version", range(14))
async def test_in_pieces_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    denied = {(Operation.DESCRIBE, Resource.TOPIC, "secret")}
    services = fake_services(make_topics(tmp_path), denied=denied)
    services.directory = SeveralLeaders()
    services.topics.catalog.create([("orders", 3000), ("empty", 1), ("secret", 7)])
    names = ["orders", "missing", "secret", "empty", "no/name"]
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    in_pieces = await asked(version, services, request)
    monkeypatch.setattr(metadata, "SMALL", 100_000)
    assert in_pieces == await asked(version, services, request)


async def test_one_turn_of_the_loop_encodes_some_thousand_partitions(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path))
    for number in range(20):
        services.topics.catalog.create([(f"topic-{number}", 10_000)])
    services.clock = AdvancingClock()
    request = MetadataRequest(topics=None)
    handling = metadata.handle(FakeCall(12, int(ApiKey.METADATA)), request, services)
    # Every piece of at most 1024 partitions looks at the clock once.
    assert await pieces(handling) > 20 * 10 // LONGEST_MS


async def test_topics_that_are_asked_for_by_name_are_looked_up_in_turns(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path), auto_create_topics_enable=False)
    services.clock = AdvancingClock()
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=f"topic-{number}") for number in range(1000)]
    )
    assert await pieces(metadata.handle(FakeCall(12, 3), request, services)) > 1000 // LONGEST_MS


async def test_new_topics_are_checked_in_turns(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path))
    services.clock = AdvancingClock()
    topics = [CreatableTopic(f"topic-{number}", 1, 1) for number in range(1000)]
    request = CreateTopicsRequest(topics=topics)
    handling = create_topics.handle(FakeCall(7, 19), request, services)
    assert await pieces(handling) > 1000 // LONGEST_MS
    assert len(services.image.topics()) == 1001


async def test_all_topics_are_in_a_small_answer_as_before(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path))
    response = await metadata.handle(FakeCall(12), MetadataRequest(topics=None), services)
    assert isinstance(response, MetadataResponse)
