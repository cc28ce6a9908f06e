"""The open segments of a log; appends, reads and compactions run in different threads."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from coordinator_server.storage.segments.files import Files
from coordinator_server.storage.segments.segment import Segment


def open_segments(files: Files, directory: Path, bases: Sequence[int]) -> list[Segment]:
    """Open the segments of a log. Raises OSError; none is open then."""
    opened: list[Segment] = []
    try:
        for base in bases:
            # One by one: those opened before one that fails have to be closed.
            opened.append(Segment(files, directory, base))  # noqa: PERF401
    except BaseException:
        for segment in opened:
            segment.file.close()
        raise
    return opened


class OpenSegments:
    """The segments in the order of their offsets; at least one."""

    def __init__(self, segments: list[Segment]) -> None:
        self.all = segments
        """Replaced, never changed in place: other threads iterate over it."""
        self.active = segments[-1]
        """The last segment."""
        self._lock = threading.Lock()
        """Held briefly: guards changes of the list, and the fields below."""
        self._readers = 0
        self._replaced: list[Segment] = []
        """Compacted segments, open until the running reads have ended."""

    def add(self, segment: Segment) -> None:
        """Make a segment the active one."""
        with self._lock:
            self.all = [*self.all, segment]
            self.active = segment

    def drop_active(self) -> Segment:
        """Remove and return the active segment; the one before becomes active."""
        with self._lock:
            dropped, self.all = self.active, self.all[:-1]
            self.active = self.all[-1]
        return dropped

    def closed(self) -> list[Segment]:
        """Return the segments before the active one, with their end offsets set."""
        segments = self.all
        for segment, following in pairwise(segments):
            segment.end_offset = following.base_offset
        return segments[:-1]

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put a compacted segment in the place of the segments it was made from."""
        with self._lock:
            first = self.all.index(old[0])
            self.all = [*self.all[:first], new, *self.all[first + len(old) :]]
            self._replaced.extend(old)
        self._close_replaced()

    def latest_known(self, up_to: int) -> int | None:
        """The largest known timestamp (ms) of the segments before an offset."""
        known = [
            segment.latest_timestamp
            for segment, following in pairwise(self.all)
            if following.base_offset <= up_to and segment.latest_timestamp is not None
        ]
        return max(known, default=None)

    def closed_bytes(self) -> int:
        """Bytes in the segments before the active one."""
        return sum(segment.size for segment in self.all[:-1])

    def dirty_bytes(self, clean_offset: int, durable_offset: int) -> int:
        """Bytes in the durable segments from the clean offset on."""
        return sum(
            segment.size
            for segment, following in pairwise(self.all)
            if segment.base_offset >= clean_offset and following.base_offset <= durable_offset
        )

    def begin_reading(self) -> list[Segment]:
        """Return the current segments, which stay open until `end_reading`."""
        with self._lock:
            self._readers += 1
            return self.all

    def end_reading(self) -> None:
        """End a read; closes replaced segments, so it blocks."""
        with self._lock:
            self._readers -= 1
        self._close_replaced()

    def _close_replaced(self) -> None:
        """Close files outside of the lock, as the event loop may wait for the lock."""
        with self._lock:
            if self._readers:
                return
            replaced, self._replaced = self._replaced, []
        for segment in replaced:
            segment.file.close()

    def close(self) -> None:
        """Close all files, even during reads, and discard the buffered batches."""
        for segment in [*self.all, *self._replaced]:
            segment.discard_buffered()
            with suppress(OSError):
                segment.file.close()
