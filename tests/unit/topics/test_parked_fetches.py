"""Fetches that wait: one record may release very many of them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.topics.service import FEW_WANTS, FetchWant
from tests.support.data_plane import make_topics, produced

NOW = 1_700_000_000_000
CLIENTS = 20


class FairScheduler:
    """Counts turns of the event loop."""

    def __init__(self) -> None:
        self.now = 0
        self._loop = asyncio.get_running_loop()
        self._next()

    def _next(self) -> None:
        self.now += 1
        self._handle = self._loop.call_soon(self._next)

    def stop(self) -> None:
        self._handle.cancel()


async def test_fetches_of_many_partitions_that_one_record_releases_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = make_topics(tmp_path)
    (topic,) = topics.catalog.create([("orders", FEW_WANTS + 1)])
    wants = [FetchWant(topic, index, 0, 1000) for index in range(topic.partitions)]
    turns, reads, read = FairScheduler(), list[int](), topics._read

    async def noted(*given: Any, **options: Any) -> Any:
        reads.append(turns.now)
        return await read(*given, **options)

    monkeypatch.setattr(topics, "_read", noted)
    fetches = [
        asyncio.create_task(topics.fetch(wants, max_wait_ms=60_000, min_bytes=1, max_bytes=1000))
        for _ in range(CLIENTS)
    ]
    while len(topics._parked) < CLIENTS:  # noqa: ASYNC110 - threads open the partitions
        await asyncio.sleep(0.001)
    reads.clear()
    await produced(topics, "orders", 0, (NOW, b"a"))
    parts = await asyncio.gather(*fetches)
    turns.stop()
    assert all(each[0].records for each in parts)
    assert len(set(reads)) == CLIENTS
    topics.close()
