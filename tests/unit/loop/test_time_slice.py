"""Requests about many partitions let others have their turns."""

import asyncio
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from coordinator_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from coordinator_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from coordinator_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from coordinator_server.api import fetch, list_offsets, produce
from coordinator_server.clock import ManualClock
from coordinator_server.loop.time_slice import LONGEST_MS, LongWork, TimeSlice
from tests.support.data_plane import make_topics
from tests.support.fake_services import FakeCall, fake_services
from tests.support.time_slices import AdvancingClock, pieces

MANY = range(100)


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


@pytest.mark.parametrize(
    ("module", "request_of_many"),
    [(produce, PRODUCE), (list_offsets, LIST_OFFSETS), (fetch, FETCH)],
    ids=["produce", "list_offsets", "fetch"],
)
async def test_a_request_about_many_partitions_takes_several_turns(
    tmp_path: Path, module: Any, request_of_many: Any
) -> None:
    services = fake_services(make_topics(tmp_path))
    services.clock = AdvancingClock()
    assert (
        await pieces(module.handle(FakeCall(6), request_of_many, services))
        > len(MANY) // LONGEST_MS
    )
    services.clock = ManualClock()
    assert await pieces(module.handle(FakeCall(6), request_of_many, services)) == 1


async def test_a_turn_is_over_after_a_few_milliseconds() -> None:
    clock = ManualClock()
    pace = TimeSlice(clock)
    assert not pace.is_over()
    clock.advance(LONGEST_MS)
    assert pace.is_over()
    await pace.rest()
    assert not pace.is_over()


async def test_a_turn_of_the_loop_goes_on_with_one_of_several_long_requests() -> None:
    loop = asyncio.get_running_loop()
    turn = 0
    at: list[int] = []

    def tick() -> None:
        nonlocal turn
        turn += 1
        if len(at) < 4:
            loop.call_soon(tick)

    loop.call_soon(tick)
    pace = [TimeSlice(ManualClock()) for _ in range(4)]

    async def work(mine: TimeSlice) -> None:
        await mine.rest()
        at.append(turn)

    await asyncio.gather(*(work(each) for each in pace))
    assert len(set(at)) == 4


async def test_a_cancelled_request_takes_no_turn_from_others() -> None:
    pace = TimeSlice(ManualClock())
    cancelled = asyncio.create_task(pace.rest())
    other = asyncio.create_task(TimeSlice(ManualClock()).rest())
    await asyncio.sleep(0)
    cancelled.cancel()
    await other
    assert cancelled.cancelled()


async def test_a_piece_of_work_that_raises_leaves_the_others_their_turns() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    done: list[int] = []

    def broken() -> None:
        raise MemoryError

    work = LongWork(asyncio.get_running_loop())
    for piece in (broken, lambda: done.append(1)):
        work.add(piece)
    for _ in range(3):
        await asyncio.sleep(0)
    assert done == [1]


async def test_a_turn_of_the_queue_that_fails_is_made_up_for() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    done: list[int] = []

    class Waiting(deque[Any]):
        def popleft(self) -> Any:
            if not done:
                done.append(0)
                raise MemoryError
            return super().popleft()

    work = LongWork(asyncio.get_running_loop())
    work._waiting = Waiting()
    work.add(lambda: done.append(1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert done == [0, 1]
