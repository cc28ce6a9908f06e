"""Group commit: one flush makes the new batches of all logs durable.

With a journal a flush is one journal write; a background thread writes the segments later. Without
a journal a flush writes, or syncs, each log. A thread runs the flush while appends for the next one
accumulate; the next flush may also linger for more of them. So the number of writes depends on the
disk, not on the number of appends. The event loop never waits for a disk, and a flush that fails
does not prevent the next one.
"""

import asyncio
import errno
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Final

from coordinator_server.loop.batching import Soon, SoonInLoop
from coordinator_server.storage.segments.adaptive_linger import (
    LINGER_SECONDS,
    AdaptiveLinger,
    RecordCounts,
)
from coordinator_server.storage.segments.background import SegmentWriteBack
from coordinator_server.storage.segments.flush_waiter import FlushWaiter, FutureWaiter
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.reporting import Report
from coordinator_server.storage.segments.threads import (
    Job,
    JobThread,
    StartThread,
    as_os_error,
    start_thread,
)
from coordinator_server.storage.segments.unwritten import UnwrittenBytes

DEFAULT_INTERVAL_MS: Final = 1_000
WRITE_OUT_SECONDS: Final = 0.25
"""Delay between a journal write and the write of the segments."""
CLOSE_SECONDS: Final = 5.0

CallLater = Callable[[float, Callable[[], None]], asyncio.Handle]
"""`call_later(seconds, call)` sets a timer."""
_Failures = dict[SegmentLog, OSError]


class FlushPolicy(StrEnum):
    """When records are synced to disk (`log.flush`)."""

    COMMIT = "commit"
    """Before the acknowledgement."""
    INTERVAL = "interval"
    """Within `log.flush.interval.ms` after the acknowledgement."""
    OS = "os"
    """When the operating system decides to."""


class Flusher:
    """Makes the logs of one data directory durable."""

    def __init__(
        self,
        policy: FlushPolicy = FlushPolicy.COMMIT,
        interval_ms: int = DEFAULT_INTERVAL_MS,
        journal: Journal | None = None,
        write_out_seconds: float = WRITE_OUT_SECONDS,
        soon: Soon | None = None,
        later: CallLater | None = None,
        report: Report = lambda *_args, **_fields: None,
        start: StartThread = start_thread,
    ) -> None:
        """The caller owns the journal and the logs, and closes them."""
        self._journal = journal if journal is not None and journal.is_written else None
        self._syncs_logs = self._journal is None and policy is FlushPolicy.COMMIT
        """Whether a flush syncs the segments of the logs."""
        self._report = report
        self._waiting: list[FlushWaiter] = []
        self._flushing: list[FlushWaiter] | None = None
        """The waiters of the running flush; None if none is running."""
        self._soon = soon or SoonInLoop()
        self._is_due = False
        """Whether a flush is scheduled."""
        self._closed = False
        syncs = self._journal is not None and self._journal.syncs
        self._linger = AdaptiveLinger() if syncs else None
        self._call_later = later or _call_later_in_loop
        self._records: RecordCounts = {}
        """Record counts of the running flush; used by the adaptive linger."""
        self._flushes = 0
        """How many flushes have ended."""
        self._linger_timer: asyncio.Handle | None = None
        """Timer that begins a flush that has lingered for too long."""
        self._progress: asyncio.Future[None] | None = None
        """Resolved for `close` when a flush or a background job ends."""
        self._flush_thread = JobThread("flusher", start)
        self.unwritten = UnwrittenBytes()
        interval = interval_ms / 1000 if policy is FlushPolicy.INTERVAL else None
        self._background = SegmentWriteBack(
            self._journal,
            self._flush_thread,
            JobThread("segment-writer", start),
            self.unwritten,
            write_out_seconds,
            interval,
            report,
            self._background_ended,
        )

    def flush(self, log: SegmentLog) -> "asyncio.Future[None]":
        """Return a future that is done when every record of the log is safe under the policy.

        It fails with the OSError of this log; errors of other logs do not affect it.
        """
        future = asyncio.get_running_loop().create_future()
        self.wait(FutureWaiter(log, future))
        return future

    def wait(self, waiter: FlushWaiter) -> None:
        """Add a waiter to the next flush; it is called on the event loop."""
        if self._closed:
            error = f"{waiter.log.directory}: the record was not written, the server is stopping"
            self._notify(waiter, OSError(errno.EBADF, error))
            return
        self.unwritten.count(waiter.log)
        self._waiting.append(waiter)
        if not self._is_due and self._flushing is None:
            self._schedule_flush()

    async def close(self, seconds: float = CLOSE_SECONDS) -> list[SegmentLog]:
        """Flush and sync all logs, under every policy, and end the threads.

        After `seconds` it fails the remaining waiters and returns the logs that may lack records;
        with a journal, their acknowledged records are in the journal.
        """
        self._linger = None
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        try:
            async with asyncio.timeout(seconds):
                await self._finish()
        except TimeoutError:
            pass
        self._closed = True
        self.unwritten.close()
        left = self._abandon(seconds)
        self._background.end()
        self._flush_thread.end()
        return left

    async def _finish(self) -> None:
        while self._flushing is not None or self._waiting:
            self._begin_flush()
            await self._wait_for_progress()
        while not self._background.is_finished():
            await self._wait_for_progress()

    async def _wait_for_progress(self) -> None:
        """Wait until a running flush or background job has ended."""
        if self._flushing is None and not self._background.is_busy:
            return
        self._progress = asyncio.get_running_loop().create_future()
        await self._progress

    def _abandon(self, seconds: float) -> list[SegmentLog]:
        """Fail the remaining waiters and return the logs that may lack records."""
        waiting = [*(self._flushing or []), *self._waiting]
        self._flushing, self._waiting = None, []
        left = dict.fromkeys([*(waiter.log for waiter in waiting), *self._background.unfinished()])
        if left:
            self._report(
                "logs_not_flushed",
                seconds=seconds,
                count=len(left),
                directories=sorted(log.name for log in left),
                hint="the disk did not respond in time; with a journal, the next start restores "
                "the acknowledged records from it",
            )
        for waiter in waiting:
            why = f"{waiter.log.directory} was not flushed within {seconds:g} s before the stop"
            waiter.log.fail(OSError(errno.ETIMEDOUT, why))
            self._notify(waiter, waiter.log.failed)
        return list(left)

    # --- flushes ---

    def _schedule_flush(self) -> None:
        self._is_due = True
        try:
            self._soon(self._begin_flush)
        except BaseException:
            self._is_due = False
            raise

    def _begin_flush(self) -> None:
        self._is_due = False
        if self._flushing is not None or not self._waiting or self._closed:
            return
        if self._background.is_behind() or self._must_linger():
            return
        waiting, self._waiting = self._waiting, []
        failures: _Failures = {}
        try:
            work = self._work(waiting, failures)
            if work is not None:
                self._flush_thread.submit(
                    Job(
                        work,
                        lambda: self._end_flush(waiting, failures),
                        lambda error: self._fail_flush(waiting, error),
                    )
                )
        except (Exception, CancelledError) as error:  # noqa: BLE001 - no memory, no thread
            self._flushing = waiting
            self._fail_flush(waiting, as_os_error(error))
            return
        self._flushing = waiting
        if work is None:
            self._end_flush(waiting, failures)

    def _work(self, waiting: list[FlushWaiter], failures: _Failures) -> Callable[[], None] | None:
        """The work of a flush for the thread; None if no log has new batches."""
        if self._journal is not None:
            return self._journal_work(self._journal, waiting)
        logs = dict.fromkeys([waiter.log for waiter in waiting])
        syncs = self._syncs_logs

        def work() -> None:
            for log in logs:
                try:
                    if syncs:
                        log.sync()
                    else:
                        log.write_out()
                except Exception as error:  # noqa: BLE001 - it fails this log alone
                    failures[log] = failure = as_os_error(error)
                    log.fail(failure)

        return work

    def _journal_work(
        self, journal: Journal, waiting: list[FlushWaiter]
    ) -> Callable[[], None] | None:
        """Take the new entries of all logs and return the work that writes them as one frame."""
        logs: list[SegmentLog] = []
        parts: list[bytes] = []
        for waiter in waiting:
            log = waiter.log
            if log.failed is None and (entries := log.take_entries()):
                logs.append(log)
                parts.extend(entries)
        if not logs:
            return None

        def work() -> None:
            try:
                journal.write(parts, logs)
            except Exception as error:  # noqa: BLE001 - the frame may be lost
                failure = as_os_error(error)
                for log in logs:
                    log.fail(failure)

        return work

    def _fail_flush(self, waiting: list[FlushWaiter], error: OSError) -> None:
        """End a flush with an unknown result: its logs fail and are opened again."""
        self._report("flush_failed", error=str(error), logs=sorted({w.log.name for w in waiting}))
        for waiter in waiting:
            waiter.log.fail(error)
        self._end_flush(waiting, dict.fromkeys([waiter.log for waiter in waiting], error))

    def _end_flush(self, waiting: list[FlushWaiter], failures: _Failures) -> None:
        """Call the waiters of a flush and schedule the next one."""
        if self._flushing is not waiting:
            # `close` has abandoned this flush and called its waiters.
            return
        self._flushing = None
        try:
            if self._waiting and not self._is_due:
                self._schedule_flush()
            self._notify_all(waiting, failures)
            self._hand_to_background([waiter.log for waiter in waiting])
            if self._linger is not None:
                self._update_linger(self._linger)
        except (Exception, CancelledError) as bug:  # noqa: BLE001 - the next flush must begin
            self._linger = None
            _report_bug("the work after a flush has failed", bug)
        finally:
            self._wake_close()

    def _hand_to_background(self, logs: list[SegmentLog]) -> None:
        """Schedule the segment writes or syncs that follow a flush."""
        if self._journal is not None:
            self._background.queue_write_out(logs)
            if any(log.failed is not None for log in logs):
                # Failed logs are never written: producers must not wait for their bytes.
                self.unwritten.recount()
            return
        self.unwritten.recount()
        if not self._syncs_logs:
            self._background.queue_sync(logs)

    def _notify_all(self, waiting: list[FlushWaiter], failures: _Failures) -> None:
        """Call the waiters of a flush, with the error if their log has failed."""
        syncs_logs = self._syncs_logs
        for waiter in waiting:
            log = waiter.log
            error = failures.get(log) if syncs_logs else log.failed
            if error is None and not syncs_logs:
                log.mark_safe(waiter.end)
            try:  # `_notify` inlined, as this runs for every append
                waiter.flushed(error)
            except (Exception, CancelledError) as bug:  # noqa: BLE001 - see _notify
                _fail_waiter(waiter, bug)

    def _notify(self, waiter: FlushWaiter, error: OSError | None) -> None:
        """Call one waiter; an exception in it does not affect the others."""
        try:
            waiter.flushed(error)
        except (Exception, CancelledError) as bug:  # noqa: BLE001 - see above
            _fail_waiter(waiter, bug)

    def _background_ended(self) -> None:
        """Schedule a flush that `is_behind` has held back."""
        if self._waiting and self._flushing is None and not self._is_due:
            self._schedule_flush()
        self._wake_close()

    def _wake_close(self) -> None:
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)

    # --- lingering ---

    def _must_linger(self) -> bool:
        linger = self._linger
        if linger is None:
            return False
        self._records = _new_records(self._waiting)
        return linger.wanted > 0 and sum(self._records.values()) < linger.wanted

    def _update_linger(self, linger: AdaptiveLinger) -> None:
        self._flushes += 1
        linger.ended(self._records, _new_records(self._waiting))
        if linger.wanted and self._linger_timer is None:
            self._start_linger_timer(linger)

    def _start_linger_timer(self, linger: AdaptiveLinger) -> None:
        """Set one timer for many flushes: it compares the count of flushes when it is due."""
        passes = self._flushes

        def look() -> None:
            self._linger_timer = None
            if self._linger is None:
                return
            if self._flushing is None and self._flushes == passes:
                if self._waiting:
                    linger.back_off()
                else:
                    linger.stop()
                self._begin_flush()
            elif linger.wanted:
                self._start_linger_timer(linger)

        self._linger_timer = self._call_later(LINGER_SECONDS, look)


_TRIES: Final = 10
"""Attempts to call a waiter that raises, for example because memory is short for a moment."""


def _fail_waiter(waiter: FlushWaiter, bug: BaseException) -> None:
    """Fail a waiter whose callback has raised, so that it does not wait forever."""
    _report_bug(f"{waiter.log.directory}: the callback of an append has failed", bug)
    for _ in range(_TRIES):
        with suppress(Exception, CancelledError):
            waiter.flushed(as_os_error(bug))
            return


def _report_bug(message: str, bug: BaseException) -> None:
    context = {"message": message, "exception": bug}
    asyncio.get_running_loop().call_exception_handler(context)


def _call_later_in_loop(seconds: float, call: Callable[[], None]) -> asyncio.Handle:
    return asyncio.get_running_loop().call_later(seconds, call)


def _new_records(waiting: list[FlushWaiter]) -> RecordCounts:
    """Count the records that are not durable yet, by log name."""
    records: RecordCounts = {}
    for waiter in waiting:
        log = waiter.log
        records[log.name] = log.end_offset - log.durable_offset
    return records
