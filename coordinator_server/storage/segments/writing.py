"""Brings what a log took to the files of its segments, in order, and makes it durable.

One thread appends; any thread may write out and sync meanwhile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

from coordinator_server.storage.segments.files import Files
from coordinator_server.storage.segments.segment import Segment
from coordinator_server.storage.segments.segments import OpenSegments

MAX_KEPT_BACK: Final = 256 * 1024
"""Bytes of batches that are in the journal, and not in the segment; the next append writes them."""


class SegmentWriter:
    """Writes to the active segment of a log, and to the one before until that is synced."""

    def __init__(self, directory: Path, files: Files, segments: OpenSegments) -> None:
        self.failed: OSError | None = None
        """Why nothing can be appended any more; the log must be closed and opened again."""
        self.synced_offset = 0
        """The files of the segments have everything before, and it is durable."""
        self._directory = directory
        self._files = files
        self._segments = segments
        self._lock = Lock()
        """Held for moments: an append and a sync must agree on what is dirty."""
        self._writing = Lock()
        """Held while what was kept back is written, so that it goes out once and in order."""
        self._syncing = Lock()
        """Held for a whole sync: nobody may take what another still syncs for durable."""
        self._dirty: list[Segment] = []
        self._full: Segment | None = None
        """The one before the active one, until it is synced; the active one has no file so long."""

    # --- by who appends ---

    def append(self, batch: bytes, end_offset: int) -> None:
        """Write a batch to the active segment. Raises OSError; then it is not there."""
        active = self._segments.active
        try:
            with self._lock:
                # A write that fails is cut off again, and that has to reach the disk too.
                if active not in self._dirty:
                    self._dirty.append(active)
                active.append(batch, end_offset)
        except OSError as error:
            self._fail_if_unclean(active, error)
            raise

    def _fail_if_unclean(self, active: Segment, error: OSError) -> None:
        """A write that failed half-way and could not be taken back ends this log's life."""
        try:
            clean = active.file.size() == active.size
        except OSError:
            clean = False
        if not clean:
            self.failed = error

    def keep_back(self, batch: bytes, end_offset: int, max_timestamp: int) -> None:
        """Leave a batch of the active segment to `write_out`.

        Raises OSError where that cannot be done with those before it.
        """
        active = self._segments.active
        # Nobody waits for the sync of a full one, without which this one has no file.
        if self._full is None and active.length - active.size > MAX_KEPT_BACK:
            self.write_out()
        active.keep_back(batch, end_offset, max_timestamp)

    def roll(self, offset: int) -> None:
        """Begin a segment. The full one is synced first, so that only the active one can tear.

        Raises OSError; the full one stays the active one then.
        """
        self.sync()
        segment = Segment(self._files, self._directory, offset)
        try:
            self._files.sync_directory(self._directory)
        except OSError:
            segment.file.close()
            raise
        self._segments.add(segment)

    def roll_later(self, offset: int) -> None:
        """Begin a segment that gets its file from `write_out`, once the full one is synced.

        Nobody appends more than a segment ahead of that. Raises OSError as `write_out`.
        """
        if self._full is not None:
            self.write_out()
        with self._lock:
            self._full = self._segments.active
            self._segments.add(Segment(None, self._directory, offset))

    # --- by anybody ---

    def write_out(self) -> int:
        """Write to the segments what was kept back; up to which offset everything is there then.

        Raises OSError. The log has failed then: what was acknowledged is in the journal alone.
        """
        if self._full is not None:
            with self._syncing:
                return self._write_all()
        return self._write_oldest()

    def sync(self) -> int:
        """Make everything appended before the call durable; where that ends. Raises OSError.

        After a failure the system may have dropped what it could not write and claim success at
        the next try: so there is none, the log has failed.
        """
        with self._syncing:
            end = self._write_all()
            self._sync_dirty()
            if self.failed is not None:
                # Meanwhile, and perhaps the log is opened again and goes on at another offset.
                raise self.failed
            self.synced_offset = max(self.synced_offset, end)
            return end

    @contextmanager
    def written_out(self) -> Iterator[None]:
        """Write all, and let nobody else write or sync meanwhile. Raises OSError."""
        with self._syncing:
            self._write_all()
            yield

    def begin_anew(self, synced_offset: int) -> None:
        """Somebody else has synced what there is: all before an offset."""
        self._dirty.clear()
        self.synced_offset = synced_offset

    def close(self) -> None:
        """Close the files of the segments."""
        with self._writing:
            self._segments.close()

    # --- while nobody else syncs ---

    def _write_all(self) -> int:
        self._finish_full()
        return self._write_oldest()

    def _finish_full(self) -> None:
        """Sync the full segment, then give the active one its file: only the last can tear."""
        if self._full is None:
            return
        self._write(self._full)
        self._sync_dirty()
        active = self._segments.active
        # Closing waits for this, and no file may come into a directory that is opened again then.
        with self._writing:
            if self.failed is not None:
                raise self.failed
            try:
                active.make_file(self._files)
                self._files.sync_directory(self._directory)
            except OSError as error:
                self.failed = error
                raise
        # Until now nobody else writes it, whoever appends least of all.
        self._write(active)
        with self._lock:
            self._full = None

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
            self.failed = error
            raise

    # --- while others may sync ---

    def _write_oldest(self) -> int:
        with self._lock:
            segment = self._full or self._segments.active
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
        return end
