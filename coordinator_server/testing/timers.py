"""Timers of a clock that a test moves; while it does not, they run in real time."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

from coordinator_server.clock import ManualClock


class _Timer:
    """An armed timer, in real time too."""

    __slots__ = ("callback", "cancelled", "handle")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False
        self.handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        self.cancelled = True
        if self.handle is not None:
            self.handle.cancel()

    def ring(self) -> None:
        if not self.cancelled:
            self.cancel()
            self.callback()


class MovableTimers:
    """Implements runtime.timers.Timers on an event loop and a ManualClock with a base."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: ManualClock) -> None:
        self._loop = loop
        self._clock = clock
        self._armed: list[tuple[int, int, _Timer]] = []
        self._number = count()

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> _Timer:
        """Ring at a time of the clock, whether that is reached by waiting or by `advance`."""
        timer = _Timer(callback)
        delay = max(deadline_ms - self._clock.monotonic_ms(), 0)
        timer.handle = self._loop.call_later(min(delay, _LONGEST_MS) / 1000, timer.ring)
        heapq.heappush(self._armed, (deadline_ms, next(self._number), timer))
        return timer

    def advance(self, ms: int) -> None:
        """Move the clock, from one deadline to the next, so that each rings at its time."""
        target = self._clock.monotonic_ms() + ms
        while (deadline := self._next()) is not None and deadline <= target:
            self._move_to(deadline)
            while (due := self._next()) is not None and due <= self._clock.monotonic_ms():
                heapq.heappop(self._armed)[2].ring()
        self._move_to(target)

    def _move_to(self, time: int) -> None:
        self._clock.advance(max(time - self._clock.monotonic_ms(), 0))

    def _next(self) -> int | None:
        while self._armed and self._armed[0][2].cancelled:
            heapq.heappop(self._armed)
        return self._armed[0][0] if self._armed else None


_LONGEST_MS = 24 * 60 * 60 * 1000
