"""Requests about many partitions let others have their turns."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.api import fetch, list_offsets, produce
from coordinator_server.clock import ManualClock
from coordinator_server.pace import LONGEST_MS, Pace
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.api import FakeCall, fake_services
from tests.support.data_plane import make_topics

MANY = range(100)


class Hurrying(ManualClock):
    """A clock that moves whenever somebody looks at it."""

    def monotonic_ms(self) -> int:
        self.advance(1)
        return super().monotonic_ms()


PRODUCE = ProduceRequest(
    acks=1,
    timeout_ms=0,
    topic_data=[
        TopicProduceData(
            name="t", partition_data=[PartitionProduceData(index=i, records=None) for i in MANY]
        )
    ],
)
LIST_OFFSETS = ListOffsetsRequest(
    replica_id=-1,
    isolation_level=0,
    topics=[
        ListOffsetsTopic(
            name="t",
            partitions=[ListOffsetsPartition(partition_index=i, timestamp=-1) for i in MANY],
        )
    ],
)
FETCH = FetchRequest(
    max_wait_ms=0,
    min_bytes=0,
    isolation_level=0,
    topics=[
        FetchTopic(
            topic="t",
            partitions=[
                FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=1) for i in MANY
            ],
        )
    ],
)


def turns(handling: Coroutine[Any, Any, Any]) -> int:
    """How many turns of the loop a handler takes that waits for nothing."""
    count = 1
    while True:
        try:
            handling.send(None)
        except StopIteration:
            return count
        count += 1


@pytest.mark.parametrize(
    ("module", "request_of_many"),
    [(produce, PRODUCE), (list_offsets, LIST_OFFSETS), (fetch, FETCH)],
    ids=["produce", "list_offsets", "fetch"],
)
def test_a_request_about_many_partitions_takes_several_turns(
    tmp_path: Path, module: Any, request_of_many: Any
) -> None:
    services = fake_services(make_topics(tmp_path))
    services.clock = Hurrying()
    assert turns(module.handle(FakeCall(6), request_of_many, services)) > len(MANY) // LONGEST_MS
    services.clock = ManualClock()
    assert turns(module.handle(FakeCall(6), request_of_many, services)) == 1


async def test_a_turn_is_over_after_a_few_milliseconds() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    assert not pace.is_over()
    clock.advance(LONGEST_MS)
    assert pace.is_over()
    await pace.rest()
    assert not pace.is_over()
