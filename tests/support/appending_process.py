"""A process that appends records until it is killed, and tells which of them are durable.

`python -m tests.support.appending_process DATA FIRST POLICY` prints each acknowledged number
from FIRST on; the records are spread over the partitions of tests/storage.
"""

import asyncio
import sys
from pathlib import Path
from uuid import UUID

from coordinator_server.storage.base import PartitionLog
from coordinator_server.storage.segments.directory import DataDirectory
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_replay import replay_all
from coordinator_server.storage.segments.storage import SegmentStorage
from tests.support.appending import appended
from tests.support.records import loaded, record

PARTITIONS = 3
SEGMENT_BYTES = 4_000
JOURNAL_BYTES = 30_000


def open_storage(
    data: Path, policy: FlushPolicy = FlushPolicy.COMMIT
) -> tuple[DataDirectory, SegmentStorage]:
    """The storage that the process writes, for those who look at what it left."""
    directory = DataDirectory(data, node_id=1, cluster_id=None)
    journal = Journal(data, capacity=JOURNAL_BYTES, syncs=policy is FlushPolicy.COMMIT)
    replay_all(journal, data, ignore)
    storage = SegmentStorage(
        directory,
        Flusher(policy, journal=journal),
        partitions=PARTITIONS,
        segment_bytes=SEGMENT_BYTES,
        topic_id=UUID(int=1),
        report=ignore,
        journal=journal,
    )
    return directory, storage


def ignore(_event: str, **_fields: object) -> None:
    """Report nothing."""


async def append_for_ever(data: Path, first: int, policy: FlushPolicy) -> None:
    _directory, storage = open_storage(data, policy)
    logs = [await storage.claim(partition) for partition in range(PARTITIONS)]
    for log in logs:
        await loaded(log)
    await asyncio.gather(*(append_to(log, first + log.partition) for log in logs))


async def append_to(log: PartitionLog, number: int) -> None:
    while True:
        await appended(log, [record(number, size=number % 300)])
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        number += PARTITIONS


if __name__ == "__main__":
    asyncio.run(append_for_ever(Path(sys.argv[1]), int(sys.argv[2]), FlushPolicy(sys.argv[3])))
