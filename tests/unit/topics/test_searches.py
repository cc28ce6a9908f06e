"""Searches have two threads of their own, and end when nobody wants to know any more."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.searches import AT_ONCE, Searches
from coordinator_server.topics.timestamps import SearchStopped, TimestampAndOffset
from tests.support.data_plane import make_topics, produced

NOW = 1_700_000_000_000


class Endless:
    """A search that ends when it is stopped."""

    def __init__(self) -> None:
        self.begun = 0
        self.begins = Event()

    def __call__(self, _log: SegmentLog, _up_to: int, stopping: Event) -> TimestampAndOffset | None:
        self.begun += 1
        self.begins.set()
        assert stopping.wait(10)
        raise SearchStopped("it was stopped")


def found(_log: SegmentLog, up_to: int, _stopping: Event) -> TimestampAndOffset | None:
    return TimestampAndOffset(NOW, up_to)


@pytest.fixture
def searches() -> Iterator[Searches]:
    searches = Searches()
    yield searches
    searches.close()


@pytest.fixture
def log(tmp_path: Path) -> SegmentLog:
    return SegmentLog(tmp_path / "orders-0")


async def test_searches_that_nobody_waits_for_any_more_let_others_have_their_threads(
    searches: Searches, log: SegmentLog
) -> None:
    endless = Endless()
    asking = [asyncio.create_task(searches.run(endless, log, 7)) for _ in range(20)]
    await asyncio.to_thread(endless.begins.wait, 10)
    for each in asking:
        each.cancel()
    async with asyncio.timeout(10):
        assert await searches.run(found, log, 7) == (NOW, 7)


async def test_many_searches_take_no_thread_from_anybody_else(
    searches: Searches, log: SegmentLog
) -> None:
    endless = Endless()
    asking = [asyncio.create_task(searches.run(endless, log, 7)) for _ in range(100)]
    await asyncio.to_thread(endless.begins.wait, 10)
    async with asyncio.timeout(10):
        assert await asyncio.to_thread(int, "5") == 5
    searches.close()
    await asyncio.wait(asking)
    assert endless.begun <= AT_ONCE


async def test_what_was_found_in_a_log_that_was_closed_meanwhile_is_not_answered(
    searches: Searches, log: SegmentLog
) -> None:
    log.closing.set()
    with pytest.raises(TopicError) as refused:
        await searches.run(found, log, 7)
    assert refused.value.error is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_topic_that_is_deleted_while_it_is_searched_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = make_topics(tmp_path)
    (orders,) = topics.catalog.create([("orders", 1)])
    await produced(topics, "orders", 0, (NOW, b"a"))
    begun, may_go_on = Event(), Event()
    batches = SegmentLog.batches

    def slowly(log: SegmentLog, since: int | None = None) -> object:
        begun.set()
        may_go_on.wait(10)
        return batches(log, since)

    monkeypatch.setattr(SegmentLog, "batches", slowly)
    asking = asyncio.create_task(topics.offset_for_timestamp(orders, 0, NOW))
    await asyncio.to_thread(begun.wait, 10)
    await topics.delete(["orders"])
    may_go_on.set()
    with pytest.raises(TopicError) as refused:
        await asking
    assert refused.value.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics.close()
