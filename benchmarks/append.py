"""What an append costs until it is acknowledged, under each flush policy.

`python -m benchmarks.append [SECONDS]` appends commits to sixteen partitions of the embedded log,
each as soon as its last one is acknowledged, and prints appends and CPU (all threads).
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import uvloop

from benchmarks.load_time import commit
from coordinator_protocol.batch_builder import NewBatch
from coordinator_server.storage.base import PartitionLog, append
from coordinator_server.storage.segments.directory import DataDirectory
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.journal import DEFAULT_BYTES, Journal
from coordinator_server.storage.segments.storage import SegmentStorage

PARTITIONS: Final = 16
DEFAULT_SECONDS: Final = 2.0


class Way(NamedTuple):
    """A setting to be measured."""

    name: str
    policy: FlushPolicy
    journal_bytes: int = 0


WAYS: Final = (
    Way("commit", FlushPolicy.COMMIT, DEFAULT_BYTES),
    Way("commit, no journal", FlushPolicy.COMMIT),
    Way("interval", FlushPolicy.INTERVAL, DEFAULT_BYTES),
    Way("os", FlushPolicy.OS, DEFAULT_BYTES),
    Way("os, no journal", FlushPolicy.OS),
)


class Measured(NamedTuple):
    """Of one way."""

    appends: int
    seconds: float
    cpu_seconds: float


@asynccontextmanager
async def storage_of(way: Way, directory: Path) -> AsyncIterator[SegmentStorage]:
    """A storage as a server has it."""
    held = DataDirectory(directory, node_id=1, cluster_id=None)
    journal = Journal(
        directory,
        capacity=way.journal_bytes,
        writes=way.journal_bytes > 0,
        syncs=way.policy is FlushPolicy.COMMIT,
    )
    flusher = Flusher(way.policy, journal=journal)
    yield SegmentStorage(
        held,
        flusher,
        partitions=PARTITIONS,
        segment_bytes=100 << 20,
        topic_id=UUID(int=1),
        report=lambda *_, **__: None,
        journal=journal,
    )
    await flusher.close()
    journal.close()
    held.close()


async def append_until(log: PartitionLog, end: float) -> int:
    """How many commits were acknowledged one after the other."""
    done = 0
    while time.perf_counter() < end:
        record = commit(done)
        batch = NewBatch(record.timestamp)
        batch.add(record.key or b"", record.value)
        await append(log, batch)
        done += 1
        if done % 16 == 0:
            await asyncio.sleep(0)  # unsynced appends are done at once, and others want a turn
    return done


async def measure(way: Way, seconds: float, directory: Path) -> Measured:
    """Append for so long."""
    async with storage_of(way, directory) as storage:
        logs = [await storage.claim(partition) for partition in range(PARTITIONS)]
        wall, cpu = time.perf_counter(), time.process_time()
        done = await asyncio.gather(*(append_until(log, wall + seconds) for log in logs))
        measured = Measured(sum(done), time.perf_counter() - wall, time.process_time() - cpu)
        for log in logs:
            await log.close()
    return measured


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=DEFAULT_SECONDS, help="of each")
    seconds = parser.parse_args().seconds
    print("| `log.flush` | appends/s | CPU us per append |\n|---|--:|--:|")
    for way in WAYS:
        # /tmp may be memory, where syncing costs nothing.
        with tempfile.TemporaryDirectory(prefix="append-", dir="/var/tmp") as name:
            found = uvloop.run(measure(way, seconds, Path(name)))
        per_append = found.cpu_seconds * 1e6 / found.appends
        print(f"| {way.name} | {found.appends / found.seconds:,.0f} | {per_append:.1f} |")


if __name__ == "__main__":
    main()
