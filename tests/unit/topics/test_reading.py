"""Files are read beside the event loop, and what was closed meanwhile is not believed."""

import asyncio
import threading
from pathlib import Path

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.topics.partition import TopicPartitionLog
from coordinator_server.topics.service import FetchPart, FetchWant, Topics
from tests.support.data_plane import make_topics, produced, records_in, values_of

NOW = 1_700_000_000_000


class Reads:
    """Reads of logs, each of which has to be let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        read = SegmentLog.read

        def slowly(log: SegmentLog, offset: int, max_bytes: int, up_to: int) -> bytes:
            self.begun.set()
            assert threading.current_thread() is not threading.main_thread()
            self.may_end.wait(10)
            return read(log, offset, max_bytes, up_to)

        monkeypatch.setattr(SegmentLog, "read", slowly)


@pytest.fixture
async def topics(tmp_path: Path) -> Topics:
    topics = make_topics(tmp_path)
    topics.catalog.create([("orders", 2)])
    await produced(topics, "orders", 0, (NOW, b"a"))
    return topics


async def fetched(topics: Topics, offset: int = 0, max_wait_ms: int = 0) -> FetchPart:
    want = FetchWant(topics.catalog.topics()["orders"], 0, offset, 1 << 20)
    (part,) = await topics.fetch([want], max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20)
    return part


async def test_the_loop_goes_on_while_records_are_read(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    fetching = asyncio.create_task(fetched(topics))
    await asyncio.to_thread(reads.begun.wait, 10)
    assert await produced(topics, "orders", 0, (NOW, b"b")) == 1
    reads.may_end.set()
    part = await fetching
    assert values_of(part.records) == [(0, b"a")]
    assert part.high_watermark == 1


async def test_where_there_is_nothing_to_read_nobody_waits_for_a_thread(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(*_: object) -> None:
        raise AssertionError("a thread was asked for")

    monkeypatch.setattr(asyncio, "to_thread", no_thread)
    part = await fetched(topics, offset=1)
    assert (part.error, part.records, part.high_watermark) == (ErrorCode.NONE, b"", 1)


async def test_a_topic_that_is_deleted_while_it_is_read_is_unknown(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    fetching = asyncio.create_task(fetched(topics))
    await asyncio.to_thread(reads.begun.wait, 10)
    await topics.delete(["orders"])
    reads.may_end.set()
    assert (await fetching).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_what_was_read_of_a_log_that_was_closed_meanwhile_is_not_answered(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    fetching = asyncio.create_task(fetched(topics))
    await asyncio.to_thread(reads.begun.wait, 10)
    partition = topics._partition(topics.catalog.topics()["orders"], 0)
    assert isinstance(partition, TopicPartitionLog)
    assert partition._log is not None
    partition._log.closing.set()
    reads.may_end.set()
    part = await fetching
    assert (part.error, part.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")


async def test_many_who_read_a_segment_for_the_first_time_all_get_its_records(
    topics: Topics, tmp_path: Path
) -> None:
    topics.close()
    again = make_topics(tmp_path)
    found = await asyncio.gather(*(records_in(again, "orders", 0) for _ in range(20)))
    assert found == [[(0, b"a")]] * 20
