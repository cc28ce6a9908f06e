"""Storages to hold against the contract: each can be stopped and started again."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Protocol
from uuid import UUID

import pytest

from coordinator_server.storage.base import Storage
from coordinator_server.storage.memory import MemoryStorage
from coordinator_server.storage.segments.directory import DataDirectory
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_replay import replay_all
from coordinator_server.storage.segments.storage import SegmentStorage

PARTITIONS = 3
MAX_APPEND_BYTES = 3_000_000
TOPIC_ID = UUID("145b28cb-b123-4c4d-b389-653b0bd05e28")


class Rig(Protocol):
    """Makes a storage that sees what those before it have left."""

    def run(self) -> AbstractAsyncContextManager[Storage]: ...


class MemoryRig:
    def __init__(self) -> None:
        self.storage = MemoryStorage(PARTITIONS, MAX_APPEND_BYTES)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Storage]:
        yield self.storage
        await self.storage.stop()


class SegmentRig:
    """Segments on a real directory, or on any other files."""

    def __init__(
        self,
        path: Path,
        *,
        files: Files = SYSTEM_FILES,
        policy: FlushPolicy = FlushPolicy.COMMIT,
        segment_bytes: int = 20_000,
        journal_bytes: int = 0,
    ) -> None:
        self.path = path
        self.files = files
        self.policy = policy
        self.segment_bytes = segment_bytes
        self.journal_bytes = journal_bytes
        self.reports: list[tuple[str, dict[str, object]]] = []

    def _report(self, event: str, **fields: object) -> None:
        self.reports.append((event, fields))

    @asynccontextmanager
    async def run(self) -> AsyncIterator[SegmentStorage]:
        directory = DataDirectory(self.path, node_id=1, cluster_id=None)
        journal = Journal(
            self.path,
            capacity=self.journal_bytes,
            writes=self.journal_bytes > 0,
            syncs=self.policy is FlushPolicy.COMMIT,
            files=self.files,
            report=self._report,
        )
        replay_all(journal, self.path, self._report, self.files)
        # What is kept back goes to the segments at once, so that no test has to wait for it.
        flusher = Flusher(self.policy, journal=journal, write_out_seconds=0)
        storage = SegmentStorage(
            directory,
            flusher,
            partitions=PARTITIONS,
            segment_bytes=self.segment_bytes,
            topic_id=TOPIC_ID,
            report=self._report,
            journal=journal,
            files=self.files,
            max_append_bytes=MAX_APPEND_BYTES,
        )
        try:
            yield storage
            await storage.stop()
        finally:
            await flusher.close()
            journal.close()
            directory.close()


JOURNAL_BYTES = 30_000
"""So few that a test goes through several generations."""


def _name(way: object) -> str:
    return "-".join(map(str, way)) if isinstance(way, tuple) else str(way)


@pytest.fixture(params=["memory", *product(FlushPolicy, ("journal", "files"))], ids=_name)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    if request.param == "memory":
        return MemoryRig()
    policy, way = request.param
    journal_bytes = JOURNAL_BYTES if way == "journal" else 0
    return SegmentRig(tmp_path / "data", policy=policy, journal_bytes=journal_bytes)


@pytest.fixture
def segments(tmp_path: Path) -> SegmentRig:
    return SegmentRig(tmp_path / "data")
