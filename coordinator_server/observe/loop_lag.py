"""How late the event loop is: a timer that measures how long after its time it rings.

Whatever holds the loop up holds heartbeats up too; this is where it shows.
"""

import asyncio
from time import perf_counter
from typing import Final

from coordinator_server.observe.counters import Histogram

INTERVAL_SECONDS: Final = 0.02
"""How often it rings: what holds the loop up for longer is seen, at least in part."""

LAG_SECONDS: Final = (
    *(0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Bucket bounds; the timers of the loop count whole milliseconds."""


class LoopLag:
    """Measures from `start` to `stop`, on the running loop."""

    def __init__(self) -> None:
        self.seconds = Histogram(LAG_SECONDS)
        self._max = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Ring for the first time after an interval."""
        self._due = perf_counter() + INTERVAL_SECONDS
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._ring)

    def stop(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        try:
            self.took(perf_counter() - self._due)
        finally:
            self.start()

    def took(self, late: float) -> None:
        """Count a ring that was `late` seconds late; the loop's clock may be a little early."""
        late = max(0.0, late)
        self.seconds.observe(late)
        self._max = max(self._max, late)

    def take_max(self) -> float:
        """The longest since the last call, in seconds."""
        longest, self._max = self._max, 0.0
        return longest
