"""Writes segments, and syncs logs after an interval, in a second thread after a flush.

Acknowledgements do not wait for segments until too many bytes are buffered.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_file import JournalFile
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.reporting import Report
from coordinator_server.storage.segments.threads import Job, JobThread, as_os_error
from coordinator_server.storage.segments.unwritten import UnwrittenBytes

WRITE_OUT_BYTES: Final = 1 << 20
"""Journal bytes after which segments are written before the timer is due."""
RETRY_SECONDS: Final = 1.0
"""Delay of the next attempt after the system refused to start a thread."""


class SegmentWriteBack:
    """Writes buffered batches and syncs logs in the background; called on the event loop."""

    def __init__(
        self,
        journal: Journal | None,
        flush_thread: JobThread,
        thread: JobThread,
        unwritten: UnwrittenBytes,
        write_out_seconds: float,
        interval_seconds: float | None,
        report: Report,
        ended: Callable[[], None],
    ) -> None:
        """`flush_thread` writes the journal; `ended` is called after each job.

        Without an interval, logs are synced only when the flusher closes.
        """
        self._journal = journal
        self._flush_thread = flush_thread
        self._segment_writer = thread
        self._unwritten = unwritten
        self._write_out_seconds = write_out_seconds
        self._interval_seconds = interval_seconds
        self._report = report
        self._ended = ended
        self._closing = False
        self._to_write: list[SegmentLog] = []
        """Logs with buffered batches; their `is_queued_for_write_out` is set."""
        self._writing: list[SegmentLog] | None = None
        """Logs that the thread is writing."""
        self._write_out: asyncio.Handle | None = None
        self._write_out_at = WRITE_OUT_BYTES
        """Value of the journal's `written_bytes` that begins a write before the timer is due."""
        self._unsynced: dict[SegmentLog, None] = {}
        """Logs with acknowledged records that are not synced; used without a journal."""
        self._syncing: list[SegmentLog] | None = None
        self._journal_is_unsynced = False
        self._sync: asyncio.Handle | None = None

    # --- after a flush ---

    def queue_write_out(self, logs: Iterable[SegmentLog]) -> None:
        """Schedule the segment writes of logs that the journal has received."""
        for log in logs:
            if not log.is_queued_for_write_out and log.failed is None:
                log.is_queued_for_write_out = True
                self._to_write.append(log)
        if self._to_write:
            self._journal_is_unsynced = self._interval_seconds is not None
            self._schedule_write_out()
            self._schedule_sync()

    def queue_sync(self, logs: Iterable[SegmentLog]) -> None:
        """Schedule a sync of logs whose segments were written without one."""
        self._unsynced.update(dict.fromkeys(logs))
        self._schedule_sync()

    def is_behind(self) -> bool:
        """Whether acknowledgements must wait until segments are written."""
        return self._writing is not None and self._unwritten.exceeds_hold

    # --- closing ---

    @property
    def is_busy(self) -> bool:
        """Whether the thread has work."""
        return self._writing is not None or self._syncing is not None

    def is_finished(self) -> bool:
        """Begin the next piece of remaining work; returns True if there is none."""
        self._closing = True
        if not self.is_busy and self._to_write:
            self._begin_write_out()
        if not self.is_busy and (self._unsynced or self._journal_is_unsynced):
            self._begin_sync()
        return not self.is_busy

    def unfinished(self) -> list[SegmentLog]:
        """The logs with batches that are not written or not synced."""
        at_work = [*(self._writing or []), *(self._syncing or [])]
        return [*at_work, *self._to_write, *self._unsynced]

    def end(self) -> None:
        """End the thread once it is idle."""
        self._closing = True
        for handle in (self._write_out, self._sync):
            if handle is not None:
                handle.cancel()
        self._segment_writer.end()

    # --- writing out ---

    def _schedule_write_out(self) -> None:
        if self._journal is not None and self._journal.written_bytes >= self._write_out_at:
            self._begin_write_out()
        elif self._write_out is None and not self._closing:
            self._write_out = _later(self._write_out_seconds, self._write_out_due)

    def _write_out_due(self) -> None:
        # Cleared first: after a failure the next flush sets the timer again.
        self._write_out = None
        self._begin_write_out()

    def _begin_write_out(self) -> None:
        if self._write_out is not None:
            self._write_out.cancel()
            self._write_out = None
        if self._writing is not None:
            # `_end_write_out` begins the next write.
            return
        logs = self._to_write

        def write_out() -> None:
            for log in logs:
                try:
                    log.write_out()
                except Exception as error:  # noqa: BLE001 - the failed log reports it
                    log.fail(as_os_error(error))

        try:
            self._segment_writer.submit(Job(write_out, self._end_write_out, self._fail_write_out))
        except OSError as error:
            self._report_no_thread("segments_not_written", error)
            if not self._closing:
                self._write_out = _later(RETRY_SECONDS, self._write_out_due)
            return
        self._writing, self._to_write = logs, []
        for log in logs:
            log.is_queued_for_write_out = False
        if self._journal is not None:
            self._write_out_at = self._journal.written_bytes + WRITE_OUT_BYTES

    def _end_write_out(self) -> None:
        self._writing = None
        self._unwritten.recount()
        if self._to_write:
            self._schedule_write_out()
        self._ended()

    def _fail_write_out(self, error: OSError) -> None:
        """Fail the logs, which may be partly written: their owners open them again."""
        for log in self._writing or []:
            log.fail(error)
        self._report("segments_not_written", error=str(error))
        self._end_write_out()

    # --- syncing after an interval ---

    def _schedule_sync(self) -> None:
        seconds = self._interval_seconds
        idle = self._sync is None and self._syncing is None
        if seconds is not None and idle and not self._closing:
            self._sync = _later(seconds, self._sync_due)

    def _sync_due(self) -> None:
        # Cleared first: after a failure the next flush sets the timer again.
        self._sync = None
        self._begin_sync()

    def _begin_sync(self) -> None:
        if self._sync is not None:
            self._sync.cancel()
            self._sync = None
        logs = list(self._unsynced)
        failed: list[JournalFile] = []
        journal = self._journal

        def sync() -> None:
            if journal is not None:
                failed.extend(journal.sync())
            for log in logs:
                try:
                    log.sync()
                except Exception as error:  # noqa: BLE001 - the failed log reports it
                    log.fail(as_os_error(error))

        try:
            self._segment_writer.submit(Job(sync, lambda: self._end_sync(failed), self._fail_sync))
        except OSError as error:
            self._report_no_thread("logs_not_synced", error)
            self._schedule_sync()
            return
        self._syncing, self._unsynced = logs, {}
        self._journal_is_unsynced = False

    def _end_sync(self, failed: list[JournalFile]) -> None:
        self._syncing = None
        journal = self._journal
        if failed and journal is not None:
            # In the thread that writes the journal: it must not write to an abandoned file.
            abandon = Job(lambda: journal.abandon(failed), _nothing, self._sync_failed)
            try:
                self._flush_thread.submit(abandon)
            except OSError as error:
                self._sync_failed(error)
        self._unwritten.recount()
        if self._unsynced or self._journal_is_unsynced:
            self._schedule_sync()
        self._ended()

    def _fail_sync(self, error: OSError) -> None:
        for log in self._syncing or []:
            log.fail(error)
        self._sync_failed(error)
        self._journal_is_unsynced = self._journal is not None and not self._closing
        self._end_sync([])

    def _sync_failed(self, error: OSError) -> None:
        self._report("logs_not_synced", error=str(error))

    def _report_no_thread(self, event: str, error: OSError) -> None:
        self._report(event, error=str(error), retry_seconds=RETRY_SECONDS)


def _nothing() -> None:
    """Do nothing when the job has ended."""


def _later(seconds: float, call: Callable[[], None]) -> asyncio.Handle:
    return asyncio.get_running_loop().call_later(seconds, call)
