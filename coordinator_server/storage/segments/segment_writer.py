"""Brings what a log took to the files of its segments, in order, and makes it durable.

The event loop only keeps batches back, in memory; threads write them out and sync meanwhile.
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
    """Writes to the oldest segment of a log that is not synced, and to those behind it in turn."""

    def __init__(self, directory: Path, files: Files, segments: OpenSegments) -> None:
        self.failed: OSError | None = None
        """Why nothing can be appended any more; the log must be closed and opened again."""
        self.sync_failed = False
        """Whether nobody knows what is on disk of that which was written since the last sync."""
        self.synced_offset = 0
        """The files of the segments have everything before, and it is durable."""
        self.full_synced_offset = 0
        """As that, of segments that were synced because they were full."""
        self._directory = directory
        self._files = files
        self._segments = segments
        self._lock = threading.Lock()
        """Held for moments: an append and a sync must agree on what is dirty."""
        self._writing = threading.Lock()
        """Held while what was kept back is written, so that it goes out once and in order."""
        self._syncing = threading.Lock()
        """Held for a whole sync: nobody may take what another still syncs for durable."""
        self._dirty: list[Segment] = []
        self._full: list[Segment] = []
        """Segments before the active one that are not synced, oldest first; never changed in place.
        The first has a file; those behind it, and the active one, have none so long."""

    # --- on the event loop: never waits for the disk ---

    def buffer_batch(self, batch: bytes, end_offset: int, max_timestamp: int) -> None:
        """Leave a batch of the active segment to `write_out`."""
        self._segments.active.buffer_batch(batch, end_offset, max_timestamp)

    def roll(self, offset: int) -> None:
        """Begin a segment; it gets its file from `write_out`, once those before it are synced."""
        with self._lock:
            self._full = [*self._full, self._segments.active]
            self._segments.add(Segment(None, self._directory, offset))

    @property
    def unwritten_bytes(self) -> int:
        """What the files lack; a moment later it may be less."""
        active = self._segments.active
        missing = active.length - active.size
        for segment in self._full:
            if segment is not active:
                missing += segment.length - segment.size
        return max(missing, 0)

    # --- by anybody; blocks ---

    def write_out(self) -> int:
        """Write to the segments what was kept back; up to which offset everything is there then.

        Raises OSError. The log has failed then, and the files have what they had before.
        """
        if self._full:
            with self._syncing:
                return self._write_all()
        return self._write_oldest()

    def sync(self, then: Callable[[int], None] | None = None) -> int:
        """Make everything appended before the call durable; where that ends. Raises OSError.

        `then` is told where, before anybody can cut that off again. After a failure the system may
        have dropped what it could not write and claim success at the next try: so there is none,
        the log has failed.
        """
        with self._syncing:
            end = self._write_all()
            self._sync_dirty()
            if self.failed is not None:
                # Meanwhile, and perhaps the log is opened again and goes on at another offset.
                raise self.failed
            self.synced_offset = max(self.synced_offset, end)
            if then is not None:
                then(end)
            return end

    @contextmanager
    def exclusive_after_write(self) -> Iterator[None]:
        """Write all, and let nobody else write or sync meanwhile. Raises OSError."""
        with self._syncing:
            self._write_all()
            yield

    def reset(self, synced_offset: int) -> None:
        """Somebody else has synced what there is: all before an offset."""
        self._dirty.clear()
        self.synced_offset = self.full_synced_offset = synced_offset

    def close(self) -> None:
        """Close the files of the segments."""
        with self._writing:
            self._segments.close()

    # --- while nobody else syncs ---

    def _write_all(self) -> int:
        self._finish_full()
        return self._write_oldest()

    def _finish_full(self) -> None:
        """Sync each full segment, then give the next one its file: only the last can tear."""
        while self._full:
            self._write(self._full[0])
            self._sync_dirty()
            self.full_synced_offset = self._full[0].end_offset
            with self._lock:
                following = self._full[1] if len(self._full) > 1 else self._segments.active
            # Closing waits for this, and no file may come into a directory that is opened again.
            with self._writing:
                self._make_file(following)
            # Until now nobody else writes it, whoever appends least of all.
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
        # A segment is marked before it is written: nobody may be in between.
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

    # --- while others may sync ---

    def _write_oldest(self) -> int:
        with self._lock:
            segment = self._full[0] if self._full else self._segments.active
        return self._write(segment)

    def _write(self, segment: Segment) -> int:
        """Write what was kept back of a segment that has a file; where it ends then."""
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
