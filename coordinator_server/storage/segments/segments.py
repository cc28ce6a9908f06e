"""The open segments of a log: one thread appends to the last one, others read and compact."""

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
    """In the order of their offsets; there is at least one."""

    def __init__(self, segments: list[Segment]) -> None:
        self.all = segments
        """Not changed in place, so whoever has taken it may go through it."""
        self.active = segments[-1]
        """The last one."""
        self._lock = threading.Lock()
        """Held for moments: guards what follows, and changes of the list."""
        self._readers = 0
        self._replaced: list[Segment] = []
        """Compacted away, and open for who may still read them."""

    def add(self, segment: Segment) -> None:
        """Go on with another one."""
        with self._lock:
            self.all = [*self.all, segment]
            self.active = segment

    def drop_active(self) -> Segment:
        """Go back to the one before; returns the one that is not among them any more."""
        with self._lock:
            dropped, self.all = self.active, self.all[:-1]
            self.active = self.all[-1]
        return dropped

    def closed(self) -> list[Segment]:
        """Those before the active one, with their ends known; they never change."""
        segments = self.all
        for segment, following in pairwise(segments):
            segment.end_offset = following.base_offset
        return segments[:-1]

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put a compacted one, which has taken the names of others, in their place."""
        with self._lock:
            first = self.all.index(old[0])
            self.all = [*self.all[:first], new, *self.all[first + len(old) :]]
            self._replaced.extend(old)
        self._close_replaced()

    def latest_known(self, up_to: int) -> int | None:
        """The largest timestamp (ms) before an offset of segments that were walked before."""
        known = [
            segment.latest_timestamp
            for segment, following in pairwise(self.all)
            if following.base_offset <= up_to and segment.latest_timestamp is not None
        ]
        return max(known, default=None)

    def closed_bytes(self) -> int:
        """Bytes in all but the active one."""
        return sum(segment.size for segment in self.all[:-1])

    def dirty_bytes(self, clean_offset: int, durable_offset: int) -> int:
        """Bytes in those of them that are durable and begin at the clean offset or later."""
        return sum(
            segment.size
            for segment, following in pairwise(self.all)
            if segment.base_offset >= clean_offset and following.base_offset <= durable_offset
        )

    def begin_reading(self) -> list[Segment]:
        """Those of this moment, which stay open until `end_reading`."""
        with self._lock:
            self._readers += 1
            return self.all

    def end_reading(self) -> None:
        """Let go of them; may close files, so it blocks."""
        with self._lock:
            self._readers -= 1
        self._close_replaced()

    def _close_replaced(self) -> None:
        """Close files outside of the lock, for which the event loop may wait."""
        with self._lock:
            if self._readers:
                return
            replaced, self._replaced = self._replaced, []
        for segment in replaced:
            segment.file.close()

    def close(self) -> None:
        """Close their files, whoever reads them, and forget what was not written."""
        for segment in [*self.all, *self._replaced]:
            segment.discard_buffered()
            with suppress(OSError):
                segment.file.close()
