"""Writes the buffered batches of a log to its segment files in order, and syncs them.

The event loop only buffers batches; threads write and sync the files meanwhile.
"""

import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator_server.storage.segments.files import Files
from coordinator_server.storage.segments.segment import Segment
from coordinator_server.storage.segments.segments import OpenSegments
from coordinator_server.storage.segments.threads import as_os_error


class SegmentWriter:
    """Writes and syncs the segments of one log from the oldest unsynced one to the active one."""

    def __init__(self, directory: Path, files: Files, segments: OpenSegments) -> None:
        self.failed: OSError | None = None
        """The error that ended appends, if any; the log must be closed and opened again."""
        self.sync_failed = False
        """Whether a sync failed: writes since the last successful sync may be lost."""
        self.synced_offset = 0
        """Every record before this offset is durable in the segment files."""
        self.full_synced_offset = 0
        """The end offset of the last full segment that was synced."""
        self._directory = directory
        self._files = files
        self._segments = segments
        self._lock = threading.Lock()
        """Held briefly: guards `_dirty`, `_full` and the ends of segments."""
        self._writing = threading.Lock()
        """Held while buffered batches are written, so that each is written once and in order."""
        self._syncing = threading.Lock()
        """Held for a whole sync: a second sync must not return before the first has ended."""
        self._dirty: list[Segment] = []
        self._full: list[Segment] = []
        """Unsynced segments before the active one, oldest first; never changed in place.
        Only the first has a file; the others and the active segment get theirs in turn."""

    # --- called on the event loop, never waits for the disk ---

    def buffer_batch(self, batch: bytes, end_offset: int, max_timestamp: int) -> None:
        """Buffer a batch of the active segment for `write_out`."""
        self._segments.active.buffer_batch(batch, end_offset, max_timestamp)

    def roll(self, offset: int) -> None:
        """Begin a segment; `write_out` creates its file once the earlier segments are synced."""
        with self._lock:
            self._full = [*self._full, self._segments.active]
            self._segments.add(Segment(None, self._directory, offset))

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that are buffered; a running write may reduce them at any moment."""
        active = self._segments.active
        missing = active.length - active.size
        for segment in self._full:
            if segment is not active:
                missing += segment.length - segment.size
        return max(missing, 0)

    # --- called in any thread; blocks ---

    def write_out(self) -> int:
        """Write the buffered batches to the segments and return the offset behind them.

        An OSError fails the log and leaves the files as they were.
        """
        if self._full:
            with self._syncing:
                return self._write_all()
        return self._write_oldest()

    def sync(self, then: Callable[[int], None] | None = None) -> int:
        """Make everything appended before the call durable and return the offset behind it.

        `then` gets that offset before a truncation can run. An OSError fails the log, without a
        retry: the kernel may have dropped the dirty pages, and a second fsync would succeed.
        """
        with self._syncing:
            end = self._write_all()
            self._sync_dirty()
            if self.failed is not None:
                # The log failed during the sync and may have been opened again since.
                raise self.failed
            self.synced_offset = max(self.synced_offset, end)
            if then is not None:
                then(end)
            return end

    @contextmanager
    def exclusive_after_write(self) -> Iterator[None]:
        """Write the buffered batches and exclude other writes and syncs. Raises OSError."""
        with self._syncing:
            self._write_all()
            yield

    def reset(self, synced_offset: int) -> None:
        """Start from files that the caller has synced up to an offset."""
        self._dirty.clear()
        self.synced_offset = self.full_synced_offset = synced_offset

    def close(self) -> None:
        """Close the files of the segments."""
        with self._writing:
            self._segments.close()

    # --- called with `_syncing` held ---

    def _write_all(self) -> int:
        self._finish_full()
        return self._write_oldest()

    def _finish_full(self) -> None:
        """Sync each full segment before the next one gets its file: only the last can be torn."""
        while self._full:
            self._write(self._full[0])
            self._sync_dirty()
            self.full_synced_offset = self._full[0].end_offset
            with self._lock:
                following = self._full[1] if len(self._full) > 1 else self._segments.active
            # `close` waits for this lock: no file may appear in a directory that is opened again.
            with self._writing:
                self._make_file(following)
            # Other threads write `following` only once `_full` does not begin before it.
            self._write(following)
            with self._lock:
                self._full = self._full[1:]

    def _make_file(self, segment: Segment) -> None:
        if self.failed is not None:
            raise self.failed
        try:
            segment.make_file(self._files)
            self._files.sync_directory(self._directory)
        except OSError as error:
            self.failed = error
            raise
        except (Exception, CancelledError) as error:
            self.failed = as_os_error(error)
            raise self.failed from error

    def _sync_dirty(self) -> None:
        if self.failed is not None:
            raise self.failed
        # `_write` marks a segment as dirty before it writes: this must not run in between.
        with self._writing, self._lock:
            dirty, self._dirty = self._dirty, []
        try:
            for segment in dirty:
                segment.file.sync()
        except OSError as error:
            self.sync_failed, self.failed = True, error
            raise
        except (Exception, CancelledError) as error:
            self.sync_failed, self.failed = True, as_os_error(error)
            raise self.failed from error

    # --- called with or without `_syncing` held ---

    def _write_oldest(self) -> int:
        with self._lock:
            segment = self._full[0] if self._full else self._segments.active
        return self._write(segment)

    def _write(self, segment: Segment) -> int:
        """Write the buffered batches of a segment that has a file; returns its end offset."""
        with self._writing:
            with self._lock:
                end = segment.end_offset
                has_more = segment.length > segment.size
                if has_more and segment not in self._dirty:
                    self._dirty.append(segment)
            if has_more:
                if self.failed is not None:
                    raise self.failed
                try:
                    segment.write_out()
                except OSError as error:
                    self.failed = error
                    raise
                except (Exception, CancelledError) as error:
                    self.failed = as_os_error(error)
                    raise self.failed from error
        return end
