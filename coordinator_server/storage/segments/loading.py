"""Reads a partition's log for a tenure that begins, without holding up the event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from coordinator_server.storage.base import CorruptLog, Loaded
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.progress import LoadProgress
from coordinator_server.storage.segments.runs import RunReader
from protocol.errors import Malformed


async def load(
    partition: int, log: SegmentLog, progress: LoadProgress, turns: asyncio.Lock
) -> AsyncIterator[Loaded]:
    """Every record; the event loop gets a turn every few milliseconds.

    Partitions that load at the same time take turns, one of them between two of the loop's.
    Raises CorruptLog, OSError.
    """
    progress.begin(partition, log.size)
    reader = RunReader()
    steps = _read(log, reader)
    done: int | None = 0
    try:
        while done is not None:
            async with turns:
                done = next(steps, None)
                await asyncio.sleep(0)
            if done is not None:
                progress.advance(partition, done)
            for loaded in reader.take(flush=done is None):
                yield loaded
    finally:
        progress.end(partition)


def _read(log: SegmentLog, reader: RunReader) -> Iterator[int]:
    """Read everything, a turn's worth at a time; yields the bytes of all batches before."""
    done = 0
    for header, chunk, offset in log.batches():
        try:
            for _ in reader.read(header, chunk, offset):
                yield done
        except Malformed as error:
            where = f"{log.directory}, the batch at offset {header.base_offset}"
            raise CorruptLog(f"{where}: {error}") from error
        done += header.size
