"""One topic partition: its log, opened on first use, its high watermark and parked Fetches."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from coordinator_protocol.errors import ErrorCode
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.flusher import Flusher
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.threads import TOPIC_THREADS
from coordinator_server.topics.errors import TopicError, check_not_closed
from coordinator_server.topics.searches import Searches
from coordinator_server.topics.timestamps import Search, TimestampAndOffset
from coordinator_server.topics.transactions import Aborted

OpenLog = Callable[[bool], SegmentLog | None]
"""`open_log(create)` opens a partition's log and blocks; None if there is none to open."""


class Appended(NamedTuple):
    """The offset of appended records; `durable` is done when they are safe by the flush policy."""

    base_offset: int
    log_start_offset: int
    durable: "asyncio.Future[None]"


class ReadResult(NamedTuple):
    """The result of a read; `data` is whole batches."""

    data: bytes
    high_watermark: int
    last_stable_offset: int
    start_offset: int
    aborted: Sequence[Aborted] = ()


def check_offset(offset: int, start: int, end: int) -> None:
    """Raise TopicError with OFFSET_OUT_OF_RANGE if an offset is outside of the log."""
    if not start <= offset <= end:
        raise TopicError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"Offset {offset} is not within {start} to {end}."
        )


def check_limit(max_bytes: int) -> None:
    """Raise TopicError with UNKNOWN_SERVER_ERROR, as Kafka does, if `max_bytes` is negative."""
    if max_bytes < 0:
        raise TopicError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{max_bytes} bytes cannot be read.")


class FetchWaiter:
    """A parked Fetch; `done` completes when enough bytes have become readable."""

    __slots__ = ("_missing", "done")

    def __init__(self, missing: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._missing = missing

    def arrived(self, size: int) -> None:
        """Count `size` more readable bytes."""
        self._missing -= size
        if self._missing <= 0:
            self.release()

    def release(self) -> None:
        """Complete the Fetch with the bytes that are readable."""
        if not self.done.done():
            self.done.set_result(None)


class TopicPartitionLog:
    """The records of a topic partition, readable up to the high watermark.

    A partition that never had a record has no directory and no open file.
    """

    __slots__ = (
        "_absent",
        "_closed",
        "_closing",
        "_flusher",
        "_log",
        "_open_log",
        "_opening",
        "_reading",
        "_searches",
        "_truncate_to",
        "_waiters",
        "high_watermark",
    )

    def __init__(self, open_log: OpenLog, flusher: Flusher, searches: Searches) -> None:
        self.high_watermark = 0
        self._open_log = open_log
        self._flusher = flusher
        self._searches = searches
        self._log: SegmentLog | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        """Closes a failed log; the log is opened again after that."""
        self._waiters: set[FetchWaiter] = set()
        self._reading = asyncio.Lock()
        """One reader at a time: the first read of a segment builds its index."""
        self._absent = False
        self._truncate_to: int | None = None
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether reads need not open a log: it is open, or the partition has none."""
        return self._log is not None or self._absent

    @property
    def start_offset(self) -> int:
        """The first offset of the log."""
        return 0 if self._log is None else self._log.start_offset

    async def open(self, *, create: bool = False) -> None:
        """Open the log if it is not open; concurrent callers share one attempt.

        Raises TopicError with KAFKA_STORAGE_ERROR, or UNKNOWN_TOPIC_OR_PARTITION after `refuse`.
        """
        while self._log is None and (create or not self._absent):
            self._check_open()
            if self._opening is None:
                self._opening = asyncio.create_task(self._run_open(create))
                self._opening.add_done_callback(_retrieve_exception)
            try:
                # A disconnected client must not cancel the opening for other callers.
                await asyncio.shield(self._opening)
            except (OSError, CorruptLog) as failure:
                raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure

    async def _run_open(self, create: bool) -> None:
        try:
            if self._closing is not None:
                await asyncio.wait((self._closing,))
            log = await TOPIC_THREADS.run(partial(self._open_and_truncate, create))
            if log is not None and self._closed:
                await TOPIC_THREADS.run(log.close)
        finally:
            self._opening = None
        self._absent = log is None
        if self._closed:
            return
        if log is not None:
            self._log = log
            self._truncate_to = None
            self.high_watermark = log.end_offset

    def _open_and_truncate(self, create: bool) -> SegmentLog | None:
        log = self._open_log(create)
        if log is not None and self._truncate_to is not None:
            try:
                log.truncate(self._truncate_to)
            except BaseException:
                log.close()
                raise
        return log

    async def append(self, batch: bytes) -> Appended:
        """Append one validated batch to the open log when `UnwrittenBytes` has room.

        Raises TopicError with KAFKA_STORAGE_ERROR or UNKNOWN_TOPIC_OR_PARTITION.
        """
        try:
            await self._flusher.unwritten.wait_for_room()
        except OSError as failure:
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        self._check_open()
        log = self._log
        if log is None:
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, "The log has failed; it is reopened.")
        try:
            base_offset = log.append(batch)
        except OSError as failure:
            self._drop_if_failed(log)
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        durable = self._flusher.flush(log)
        end = log.end_offset
        if durable.done():
            self._became_durable(log, end, len(batch), durable)
        else:
            durable.add_done_callback(partial(self._became_durable, log, end, len(batch)))
        return Appended(base_offset, log.start_offset, durable)

    def _became_durable(
        self, log: SegmentLog, end: int, size: int, durable: "asyncio.Future[None]"
    ) -> None:
        if durable.cancelled() or durable.exception() is not None:
            self._drop_if_failed(log)
            return
        self.high_watermark = max(self.high_watermark, end)
        for waiter in tuple(self._waiters):
            waiter.arrived(size)

    def _drop_if_failed(self, log: SegmentLog) -> None:
        """Close a failed log; the next `open` truncates it to the records that were readable."""
        if log is self._log and log.failed is not None and not self._closed:
            # Durable records have been acknowledged, or are being acknowledged now.
            self._truncate_to = max(self.high_watermark, log.durable_offset)
            self._log = None
            self._closing = asyncio.create_task(TOPIC_THREADS.run(log.close))
            self._closing.add_done_callback(_retrieve_exception)

    async def read(
        self, offset: int, max_bytes: int, *, at_least_one: bool, committed: bool = False
    ) -> ReadResult:
        """Read whole batches from the one with `offset`, up to the high watermark.

        Returns at most `max_bytes`; with `at_least_one` the first batch may be larger. Topics have
        no transactions, so both isolation levels read the same records.
        Raises TopicError with OFFSET_OUT_OF_RANGE, UNKNOWN_SERVER_ERROR or KAFKA_STORAGE_ERROR.
        """
        self._check_open()
        log = self._log
        if log is None and not self._absent:
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, "The log has failed; it is reopened.")
        high_watermark, start = self.high_watermark, self.start_offset
        check_offset(offset, start, 0 if log is None else log.end_offset)
        data = b""
        if log is not None and offset < high_watermark:
            check_limit(max_bytes)
            if max_bytes or at_least_one:
                async with self._reading:
                    data = await self._read(log, offset, max_bytes, high_watermark)
        if not at_least_one and len(data) > max_bytes:
            data = b""
        return ReadResult(data, high_watermark, high_watermark, start)

    async def _read(self, log: SegmentLog, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Read in a thread, as the read may search a segment or wait for a sync."""
        try:
            data = await TOPIC_THREADS.run(partial(log.read, offset, max_bytes, up_to))
        except (OSError, CorruptLog) as failure:
            self._check_open()
            self._drop_if_failed(log)
            raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        self._check_open()
        check_not_closed(log)
        return data

    async def latest(self, *, committed: bool = False) -> int:
        """The high watermark. Raises TopicError with KAFKA_STORAGE_ERROR."""
        await self.open()
        return self.high_watermark

    async def search(self, search: Search, *, committed: bool = False) -> TimestampAndOffset | None:
        """Search the readable records by timestamp. Raises TopicError with KAFKA_STORAGE_ERROR."""
        await self.open()
        if self._log is None:
            return None
        try:
            return await self._searches.run(search, self._log, self.high_watermark)
        except TopicError:
            self._check_open()
            raise

    def watch(self, waiter: FetchWaiter) -> None:
        """Count bytes that become readable for a waiter from now on."""
        self._waiters.add(waiter)

    def unwatch(self, waiter: FetchWaiter) -> None:
        """Remove a waiter."""
        self._waiters.discard(waiter)

    def discard(self) -> None:
        """Refuse requests and fail the log of a deleted topic, so that closing does not sync it."""
        self.refuse()
        if self._log is not None:
            self._log.fail(OSError(f"{self._log.directory} is deleted"))

    def close_files(self) -> None:
        """Close the log's files; syncs them unless the log has failed. Blocks."""
        if self._log is not None:
            self._log.close()

    def refuse(self) -> None:
        """Refuse requests from now on; parked Fetches return UNKNOWN_TOPIC_OR_PARTITION."""
        self._closed = True
        for waiter in tuple(self._waiters):
            waiter.release()

    async def wait_closed(self) -> None:
        """Wait until a log that is being opened or closed is closed, so files can be removed."""
        for task in (self._opening, self._closing):
            if task is not None:
                await asyncio.wait((task,))

    def _check_open(self) -> None:
        if self._closed:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition has been closed.")


def _retrieve_exception(opening: "asyncio.Task[None]") -> None:
    """Retrieve the exception: without callers left, asyncio would log it as never retrieved."""
    if not opening.cancelled():
        opening.exception()
