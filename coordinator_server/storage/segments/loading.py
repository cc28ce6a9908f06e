"""Loads a partition's log at the start of a tenure without blocking the event loop.

A thread reads the files, one block ahead of the event loop, which decodes the records.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from coordinator_protocol.batch import check_crc, read_header
from coordinator_protocol.errors import Malformed
from coordinator_server.storage.base import CorruptLog, LoadedRecords
from coordinator_server.storage.segments.batch_reader import RunReader
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.progress import LoadProgress
from coordinator_server.storage.segments.segment import Segment
from coordinator_server.storage.segments.threads import STORAGE_THREADS


class Block(NamedTuple):
    """Whole batches of a segment, and their position in its file."""

    segment: Segment
    at: int
    data: bytes


class BlockReader:
    """Reads the segments of a log from the first to the last; all methods block."""

    def __init__(self, log: SegmentLog) -> None:
        self._log = log
        self._segments: list[Segment] | None = None
        self._number = 0
        self._at = 0

    def next(self) -> Block | None:
        """Read the next block; None at the end. Raises CorruptLog, OSError."""
        segments = self._segments
        if segments is None:
            segments = self._segments = self._log.begin_reading()
        while self._number < len(segments):
            segment, at = segments[self._number], self._at
            if at < segment.size and (data := segment.block(at)):
                self._at = at + len(data)
                return Block(segment, at, data)
            if at < segment.size and segment is not segments[-1]:
                raise CorruptLog(f"{segment.path}, position {at}: the segment ends in a batch")
            self._number += 1
            self._at = 0
        return None

    def close(self) -> None:
        """End the read of the segments."""
        if self._segments is not None:
            self._segments = None
            self._number = 0
            self._log.end_reading()


async def load(
    partition: int, log: SegmentLog, progress: LoadProgress, turns: asyncio.Lock
) -> AsyncIterator[LoadedRecords]:
    """Yield every record, and yield to the event loop every few milliseconds.

    `turns` lets only one loading partition decode records per turn of the event loop.
    Raises CorruptLog, OSError.
    """
    progress.begin(partition, log.size)
    reader = RunReader()
    blocks = BlockReader(log)
    coming = _read_ahead(blocks)
    try:
        done = 0
        bases = log.base_offsets
        ends = [bases[0]]
        """The offset behind the last batch."""
        segment: Segment | None = None
        while (block := await coming) is not None:
            coming = _read_ahead(blocks)
            if block.segment is not segment:
                segment = block.segment
                log.check_contiguous(ends[0], segment.base_offset)
            steps = _read(log, block, reader, ends)
            is_over = False
            while not is_over:
                async with turns:
                    is_over = next(steps, None) is None
                    await asyncio.sleep(0)
                for loaded in reader.take(flush=False):
                    yield loaded
            done += len(block.data)
            progress.advance(partition, done)
        if segment is None or segment.base_offset != bases[-1]:
            log.check_contiguous(ends[0], bases[-1])
        for loaded in reader.take(flush=True):
            yield loaded
    finally:
        progress.end(partition)
        _close_after_read(coming, blocks)


def _read_ahead(blocks: BlockReader) -> "asyncio.Task[Block | None]":
    return asyncio.get_running_loop().create_task(STORAGE_THREADS.run(blocks.next))


def _close_after_read(coming: "asyncio.Task[Block | None]", blocks: BlockReader) -> None:
    """Close the reader after its running read, which cannot be interrupted."""

    def close(read: "asyncio.Task[Block | None]") -> None:
        if not read.cancelled():
            read.exception()
        closing = asyncio.get_running_loop().create_task(STORAGE_THREADS.run(blocks.close))
        closing.add_done_callback(_retrieve_exception)

    coming.add_done_callback(close)


def _retrieve_exception(closing: "asyncio.Task[None]") -> None:
    """Retrieve the exception, or asyncio logs it as never retrieved."""
    if not closing.cancelled():
        closing.exception()


def _read(log: SegmentLog, block: Block, reader: RunReader, ends: list[int]) -> Iterator[bool]:
    """Decode a block; yields after each time slice but the last.

    Stores the offset behind the block in `ends[0]`.
    """
    segment, start, data = block
    at = 0
    while at < len(data):
        try:
            header = read_header(data, at)
            check_crc(header, data, at)
        except Malformed as error:
            raise CorruptLog(f"{segment.path}, position {start + at}: {error}") from error
        if header.base_offset < ends[0]:
            # No checksum covers offsets. One that is too large shows when the next is smaller.
            raise CorruptLog(
                f"{segment.path}, position {start + at}: offset {header.base_offset}, expected "
                f"{ends[0]} or more"
            )
        ends[0] = header.last_offset + 1
        try:
            for _ in reader.read(header, data, at):
                yield True
        except Malformed as error:
            where = f"{log.directory}, the batch at offset {header.base_offset}"
            raise CorruptLog(f"{where}: {error}") from error
        at += header.size
