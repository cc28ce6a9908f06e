"""A read-only partition of `__consumer_offsets`; only the coordinator writes it.

Its log changes with the coordinator's tenures. Readers get only records that were acknowledged
under the flush policy, so a crash cannot remove a record that was read.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from coordinator_protocol.errors import ErrorCode, Malformed
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.flusher import Flusher
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.threads import TOPIC_THREADS
from coordinator_server.topics.errors import TopicError, check_not_closed
from coordinator_server.topics.partition import FetchWaiter, ReadResult, check_limit, check_offset
from coordinator_server.topics.searches import Searches
from coordinator_server.topics.timestamps import Search, TimestampAndOffset
from coordinator_server.topics.transactions import Transactions

Acknowledged = Callable[[SegmentLog, int, int], None]
"""`acknowledged(log, end_offset, size)` is called for every batch that became durable."""


class CoordinatorLogs(Protocol):
    """The logs of the coordinator's storage, for readers."""

    def open_log(self, partition: int) -> SegmentLog | None:
        """The log of a partition's current tenure; None if it has no tenure."""
        ...

    def follow(self, partition: int, acknowledged: Acknowledged) -> None:
        """Call `acknowledged` for every batch that becomes durable."""
        ...


class CoordinatorPartition:
    """One partition of the coordinator's log for Fetch and ListOffsets."""

    def __init__(
        self, logs: CoordinatorLogs, index: int, flusher: Flusher, searches: Searches
    ) -> None:
        self.high_watermark = 0
        self.last_stable_offset = 0
        self._logs = logs
        self._index = index
        self._flusher = flusher
        self._searches = searches
        self._log: SegmentLog | None = None
        self._transactions = Transactions()
        self._waiters: set[FetchWaiter] = set()
        self._reading = asyncio.Lock()
        """One reader at a time: the first read of a segment builds its index."""
        self._follows = False

    @property
    def is_open(self) -> bool:
        """Whether the known log is that of the current tenure."""
        return self._log is not None and self._logs.open_log(self._index) is self._log

    @property
    def start_offset(self) -> int:
        """The first offset of the log."""
        return 0 if self._log is None else self._log.start_offset

    async def open(self, *, create: bool = False) -> None:
        """Find the current log. Raises TopicError with KAFKA_STORAGE_ERROR."""
        async with self._reading:
            await self._present()

    async def _present(self) -> SegmentLog:
        """Return the current log, with its transactions read up to the high watermark."""
        log = self._log if self.is_open else await self._find()
        assert log is not None
        if self._transactions.end < self.high_watermark:
            await self._advance(log)
        return log

    async def _find(self) -> SegmentLog:
        log = self._logs.open_log(self._index)
        if log is None:
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, "The coordinator has no log here now.")
        if not self._follows:
            self._logs.follow(self._index, self._acknowledged)
            self._follows = True
        end = log.end_offset
        try:
            # Batches appended before `follow` are acknowledged when this flush is done.
            await self._flusher.flush(log)
        except OSError as failure:
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        self._log = log
        self.high_watermark = max(end, self.high_watermark)
        return log

    async def _advance(self, log: SegmentLog) -> None:
        end = self.high_watermark
        try:
            await TOPIC_THREADS.run(partial(self._transactions.advance, log, end))
        except (OSError, CorruptLog, Malformed) as failure:
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        # `end` instead of the high watermark, which may have advanced meanwhile.
        self.last_stable_offset = self._transactions.last_stable_offset(end)

    def _acknowledged(self, log: SegmentLog, end: int, size: int) -> None:
        self.high_watermark = max(self.high_watermark, end)
        for waiter in tuple(self._waiters):
            waiter.arrived(size)

    async def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool, committed: bool
    ) -> ReadResult:
        """See TopicPartitionLog.read; transactions bound the reads of committed records."""
        async with self._reading:
            log = await self._present()
            check_offset(offset, self.start_offset, log.end_offset)
            high_watermark, stable = self.high_watermark, self.last_stable_offset
            up_to = stable if committed else high_watermark
            data = b""
            if offset < up_to:
                check_limit(max_bytes)
                if max_bytes or at_least_one:
                    data = await self._read(log, offset, max_bytes, up_to)
            if not at_least_one and len(data) > max_bytes:
                data = b""
            aborted = self._transactions.aborted_within(offset, up_to) if committed else []
            return ReadResult(data, high_watermark, stable, self.start_offset, aborted)

    async def _read(self, log: SegmentLog, offset: int, max_bytes: int, up_to: int) -> bytes:
        try:
            data = await TOPIC_THREADS.run(partial(log.read, offset, max_bytes, up_to))
        except (OSError, CorruptLog) as failure:
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        check_not_closed(log)
        return data

    async def search(self, search: Search, *, committed: bool) -> TimestampAndOffset | None:
        """Search the readable records by timestamp. Raises TopicError with KAFKA_STORAGE_ERROR."""
        async with self._reading:
            log = await self._present()
            up_to = self.last_stable_offset if committed else self.high_watermark
        return await self._searches.run(search, log, up_to)

    async def latest(self, *, committed: bool) -> int:
        """The last stable offset or the high watermark. Raises TopicError."""
        async with self._reading:
            await self._present()
        return self.last_stable_offset if committed else self.high_watermark

    def watch(self, waiter: FetchWaiter) -> None:
        """Count bytes that become readable for a waiter from now on."""
        self._waiters.add(waiter)

    def unwatch(self, waiter: FetchWaiter) -> None:
        """Remove a waiter."""
        self._waiters.discard(waiter)

    def refuse(self) -> None:
        """Release the parked Fetches; the storage closes the log."""
        for waiter in tuple(self._waiters):
            waiter.release()
