"""How the runtime is woken: real timers of the event loop, or whatever a test moves."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from coordinator_server.ports import Clock


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
    """Timers of the running event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Cancellable:
        """See Timers; a deadline of centuries is taken in steps the loop can count."""
        delay = max(deadline_ms - self._clock.monotonic_ms(), 0)
        return self._loop.call_later(min(delay, _LONGEST_MS) / 1000, callback)


_LONGEST_MS = 24 * 60 * 60 * 1000
"""An actor that is woken early looks, finds nothing due and arms its timer again."""
