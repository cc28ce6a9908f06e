"""How far the loads of partitions are, for who waits for them."""

from collections.abc import Callable, Mapping
from typing import Final

REPORT_SECONDS: Final = 1.0

Report = Callable[..., None]
"""Called as `report(event, **fields)` for the log."""


class LoadProgress:
    """Bytes read of every partition that is being loaded; a line per partition and second."""

    def __init__(self, report: Report, monotonic: Callable[[], float]) -> None:
        """`monotonic` tells seconds."""
        self._report = report
        self._monotonic = monotonic
        self._loads: dict[int, tuple[int, int]] = {}
        self._reported: dict[int, float] = {}

    def loads(self) -> Mapping[int, tuple[int, int]]:
        """Bytes done and bytes in all, by partition."""
        return self._loads

    def begin(self, partition: int, total: int) -> None:
        """A load begins."""
        self._loads[partition] = (0, total)
        self._reported[partition] = self._monotonic()

    def advance(self, partition: int, done: int) -> None:
        """So many bytes of it are done in all."""
        total = self._loads[partition][1]
        self._loads[partition] = (done, total)
        now = self._monotonic()
        if now - self._reported[partition] >= REPORT_SECONDS:
            self._reported[partition] = now
            self._report("partition_loading", partition=partition, bytes=done, of=total)

    def end(self, partition: int) -> None:
        """It is loaded, or has failed."""
        self._loads.pop(partition, None)
        self._reported.pop(partition, None)
