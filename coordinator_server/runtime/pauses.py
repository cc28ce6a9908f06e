"""Looks at the clock regularly, and reports pauses of the process that show in it."""

import asyncio
from typing import Final

from coordinator_server.clock import LOOK_MS, PauseAwareClock
from coordinator_server.observe.counters import Counters
from coordinator_server.runtime.partition import Report

_INTERVAL_SECONDS: Final = LOOK_MS / 1000


class PauseWatch:
    """Looks from `start` to `stop`, on the running loop."""

    def __init__(self, clock: PauseAwareClock, counters: Counters, report: Report) -> None:
        self._clock = clock
        self._counters = counters
        self._report = report
        self._told = 0
        """How many milliseconds of pauses have been reported."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look from now on."""
        self._clock.begin()
        self._arm()

    def stop(self) -> None:
        """Look no more."""
        self._clock.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_INTERVAL_SECONDS, self._ring)

    def _ring(self) -> None:
        try:
            self.look()
        finally:
            self._arm()

    def look(self) -> None:
        """Report what has been left out since the last look."""
        self._clock.monotonic_ms()
        paused_ms = self._clock.paused_ms
        if paused_ms > self._told:
            new, self._told = paused_ms - self._told, paused_ms
            self._counters.paused_ms += new
            self._report("process_pause_found", paused_ms=new, pauses=self._clock.pauses)
