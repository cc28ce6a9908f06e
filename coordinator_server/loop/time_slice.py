"""Splits long work of coroutines into time slices.

All long work of an event loop waits in one queue, and each turn of the loop runs one slice of it:
twenty large requests delay a heartbeat no longer than one does.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from coordinator_server.clock import Clock

LONGEST_MS: Final = 3
"""Duration of a slice."""


class LongWork:
    """Queue of the pieces of long work on one event loop, in order of arrival."""

    __slots__ = ("_is_due", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_due = False

    def add(self, piece: Callable[[], object]) -> None:
        """Call `piece`, which takes some milliseconds at most, in a turn of its own."""
        self._waiting.append(piece)
        if not self._is_due:
            self.loop.call_soon(self._next)
            self._is_due = True

    def _next(self) -> None:
        self._is_due = False
        try:
            piece = self._waiting.popleft()
        finally:
            # Scheduled before the call: the piece may raise or add another one.
            if self._waiting:
                self.loop.call_soon(self._next)
                self._is_due = True
        piece()


_of_thread: Final = threading.local()


def long_work() -> LongWork:
    """The queue of the running loop."""
    loop = asyncio.get_running_loop()
    known: LongWork | None = getattr(_of_thread, "long_work", None)
    if known is None or known.loop is not loop:
        known = _of_thread.long_work = LongWork(loop)
    return known


class TimeSlice:
    """Bounds a coroutine's work per turn: `if pace.is_over(): await pace.rest()` in its loop."""

    __slots__ = ("_clock", "_until_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = clock.monotonic_ms() + LONGEST_MS

    def is_over(self) -> bool:
        """Whether the slice is used up."""
        return self._clock.monotonic_ms() >= self._until_ms

    async def rest(self) -> None:
        """Wait until the queue reaches this coroutine again, then start a new slice."""
        turn = asyncio.get_running_loop().create_future()

        def resume() -> None:
            try:
                # The request may have been cancelled meanwhile.
                if not turn.done():
                    turn.set_result(None)
            finally:
                # No effect unless set_result failed; the coroutine must not wait for ever.
                turn.cancel()

        long_work().add(resume)
        await turn
        self._until_ms = self._clock.monotonic_ms() + LONGEST_MS
