"""The open segments of a log: one thread appends to the last one, others read and compact."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from threading import Lock

from coordinator_server.storage.segments.segment import Segment


class OpenSegments:
    """In the order of their offsets; there is at least one."""

    def __init__(self, segments: list[Segment]) -> None:
        self.all = segments
        """Not changed in place, so whoever has taken it may go through it."""
        self.active = segments[-1]
        """The last one."""
        self._lock = Lock()
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

    @contextmanager
    def reading(self) -> Iterator[list[Segment]]:
        """Those of this moment, which stay open meanwhile."""
        with self._lock:
            self._readers += 1
            segments = self.all
        try:
            yield segments
        finally:
            with self._lock:
                self._readers -= 1
                self._close_replaced()

    def _close_replaced(self) -> None:
        if self._readers == 0:
            for segment in self._replaced:
                segment.file.close()
            self._replaced.clear()

    def close(self) -> None:
        """Close their files, whoever reads them."""
        for segment in [*self.all, *self._replaced]:
            with suppress(OSError):
                segment.file.close()
