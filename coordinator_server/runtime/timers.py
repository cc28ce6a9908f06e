"""How the runtime is woken: real timers of the event loop, or whatever a test moves."""

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

from coordinator_server.clock import Clock
from coordinator_server.group.purgatory import NEVER
from coordinator_server.runtime.alarm import Alarm


class Cancellable(Protocol):
    """An armed timer."""

    def cancel(self) -> None:
        """Never ring; harmless once it has rung."""
        ...


class Timers(Protocol):
    """Rings at a time of the monotonic clock, never inside the call that arms it."""

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Cancellable:
        """Ring once at `deadline_ms` or soon after; at once if that has passed."""
        ...


class LoopTimers:
    """All deadlines in one heap, behind a single timer of the running event loop.

    Every group has one, and a timer of the loop for each would cost more memory and time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._alarms: list[Alarm] = []
        """A heap, by deadline."""
        self._cancelled = 0
        """How many of them are."""
        self._handle: asyncio.TimerHandle | None = None
        self._awaited = NEVER
        """The deadline the loop's timer was armed for."""

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Alarm:
        """See Timers."""
        alarm = Alarm(deadline_ms)
        alarm.callback = callback
        alarm.timers = self
        heappush(self._alarms, alarm)
        if deadline_ms < self._awaited:
            self._await(deadline_ms)
        return alarm

    def forget_one(self) -> None:
        """An alarm was cancelled: it goes when its time comes, or with many others."""
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 4 > len(self._alarms):
            self._alarms = [alarm for alarm in self._alarms if alarm.callback is not None]
            heapify(self._alarms)
            self._cancelled = 0

    def _await(self, deadline_ms: int) -> None:
        """Have the loop ring; a deadline of centuries is taken in steps it can count."""
        if self._handle is not None:
            self._handle.cancel()
        self._awaited = deadline_ms
        delay = max(deadline_ms - self._clock.monotonic_ms(), 0)
        self._handle = self._loop.call_later(min(delay, _LONGEST_MS) / 1000, self._ring)

    def _ring(self) -> None:
        """Ring what is due; who arms another one meanwhile is rung in a later turn."""
        self._handle = None
        self._awaited = NEVER
        now = self._clock.monotonic_ms()
        due: list[Alarm] = []
        while self._alarms and self._alarms[0] <= now and len(due) < _MOST_AT_ONCE:
            due.append(heappop(self._alarms))
        if self._alarms:
            self._await(int(self._alarms[0]))
        for alarm in due:
            callback, alarm.callback = alarm.callback, None
            if callback is None:
                self._cancelled -= 1
            else:
                try:
                    callback()
                except Exception as error:  # noqa: BLE001 - the others must ring too
                    self._loop.call_exception_handler(
                        {"message": f"an alarm failed: {callback}", "exception": error}
                    )


_FEW: Final = 1_000
_MOST_AT_ONCE: Final = 64
"""How many ring before other work gets a chance."""
_LONGEST_MS: Final = 24 * 60 * 60 * 1000
"""An actor that is woken early looks, finds nothing due and arms its timer again."""
