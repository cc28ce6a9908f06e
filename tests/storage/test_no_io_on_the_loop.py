"""No operation of a data file is done on the event loop, whatever the server does.

Not watched is what comes before the listeners are open: nobody is served who could have to wait.
"""

import asyncio
import threading
from itertools import product
from pathlib import Path

import pytest

from coordinator_server.app import App
from coordinator_server.topics.service import FetchWant
from tests.support.data_plane import batch_of
from tests.support.running_app import Caller, running_app
from tests.support.watched_files import WatchedFiles

NOW = 1_700_000_000_000


class LoopWatch:
    """Remembers operations by the thread that does them."""

    def __init__(self) -> None:
        self.on_loop: list[str] = []
        self.beside: set[str] = set()
        self._thread: int | None = None

    def begin(self) -> None:
        """The thread that calls this runs the event loop."""
        self._thread = threading.get_ident()

    def __call__(self, operation: str, path: Path) -> None:
        if threading.get_ident() == self._thread:
            self.on_loop.append(f"{operation} {path.name}")
        elif self._thread is not None:
            self.beside.add(operation)


async def use_groups(caller: Caller) -> None:
    member = await caller.join("members")
    for number in range(40):
        assert await caller.commit(number, partitions=20) == "NONE"
        assert await caller.heartbeat(member) == "NONE"
    assert await caller.fetched() == 39
    await caller.call("LeaveGroup", 1, group_id="members", member_id=member["member_id"])
    await caller.call("DeleteGroups", 1, groups_names=["members"])


async def use_topics(app: App) -> None:
    topics = app.topics
    await app.create_topic("payments", 3)
    topic = app.topics.catalog.get("payments")
    assert topic is not None
    for number in range(6):
        for index in range(3):
            batch = batch_of((NOW + number, bytes(400_000)))
            await (await topics.produce(topic, index, batch)).durable
    wants = [FetchWant(topic, index, 0, 1 << 20) for index in range(3)]
    parts = await topics.fetch(wants, max_wait_ms=0, min_bytes=1, max_bytes=1 << 22)
    assert all(part.records for part in parts)
    found = await topics.offset_for_timestamp(topic, 0, NOW + 3)
    assert found is not None
    assert found.offset == 3
    assert await topics.offset_of_max_timestamp(topic, 1) is not None
    await topics.delete(["payments"])
    offsets = topics.catalog.get("__consumer_offsets")
    assert offsets is not None
    await topics.fetch(
        [FetchWant(offsets, index, 0, 1 << 20) for index in range(4)],
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 22,
        committed=True,
    )


@pytest.mark.parametrize(
    ("policy", "journal"), [*product(["commit", "interval", "os"], ["0", "30000"])]
)
async def test_a_server_does_nothing_with_its_files_on_the_event_loop(
    tmp_path: Path, policy: str, journal: str
) -> None:
    watch = LoopWatch()
    settings = {"log.flush": policy, "log.flush.interval.ms": "10", "log.journal.bytes": journal}
    for _ in range(2):
        # The second time there is something to load.
        async with running_app(tmp_path, WatchedFiles(watch), settings, watch.begin) as app:
            with Caller(app) as caller:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(use_groups(caller))
                    tasks.create_task(use_topics(app))
        assert watch.on_loop == []
        assert {"open", "append", "read", "sync", "sync_directory", "close"} <= watch.beside
        watch = LoopWatch()


def test_the_watch_sees_what_is_done_on_the_event_loop(tmp_path: Path) -> None:
    watch = LoopWatch()
    watch.begin()
    WatchedFiles(watch).open(tmp_path / "file").append(b"x")
    assert watch.on_loop == ["open file", "append file"]
