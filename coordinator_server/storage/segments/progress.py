"""Tracks and logs the progress of partition loads."""

from collections.abc import Callable, Mapping
from typing import Final

from coordinator_server.storage.segments.reporting import Report

REPORT_SECONDS: Final = 1.0


class LoadProgress:
    """Counts the bytes read of loading partitions, and logs at most one event per second each."""

    def __init__(self, report: Report, monotonic: Callable[[], float]) -> None:
        """`monotonic` returns seconds."""
        self._report = report
        self._monotonic = monotonic
        self._loads: dict[int, tuple[int, int]] = {}
        self._reported: dict[int, float] = {}

    def loads(self) -> Mapping[int, tuple[int, int]]:
        """Bytes read and total bytes, by partition."""
        return self._loads

    def begin(self, partition: int, total: int) -> None:
        """Begin a load of `total` bytes."""
        self._loads[partition] = (0, total)
        self._reported[partition] = self._monotonic()

    def advance(self, partition: int, done: int) -> None:
        """Set the bytes read so far."""
        total = self._loads[partition][1]
        self._loads[partition] = (done, total)
        now = self._monotonic()
        if now - self._reported[partition] >= REPORT_SECONDS:
            self._reported[partition] = now
            self._report("partition_loading", partition=partition, bytes=done, of=total)

    def end(self, partition: int) -> None:
        """End a load that has finished or failed."""
        self._loads.pop(partition, None)
        self._reported.pop(partition, None)
