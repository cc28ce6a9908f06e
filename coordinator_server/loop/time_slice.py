"""How long a coroutine goes over many things before others have their turn.

All long work of an event loop waits in one queue, and each turn of the loop goes on with one piece
of it: twenty large requests at once delay a heartbeat no longer than one does.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from coordinator_server.clock import Clock

LONGEST_MS: Final = 3


class LongWork:
    """The pieces of long work that wait for a turn of one event loop, first come, first served."""

    __slots__ = ("_is_due", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_due = False

    def add(self, piece: Callable[[], object]) -> None:
        """Call `piece` in a turn of its own; it takes some milliseconds at most."""
        self._waiting.append(piece)
        if not self._is_due:
            self.loop.call_soon(self._next)
            self._is_due = True

    def _next(self) -> None:
        self._is_due = False
        try:
            piece = self._waiting.popleft()
        finally:
            # Before the piece is called: it may raise, and it may add another.
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


class Pace:
    """To be asked at every step: `if pace.is_over(): await pace.rest()`."""

    __slots__ = ("_clock", "_until_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = clock.monotonic_ms() + LONGEST_MS

    def is_over(self) -> bool:
        """Whether it is somebody else's turn."""
        return self._clock.monotonic_ms() >= self._until_ms

    async def rest(self) -> None:
        """Let everybody else have a turn."""
        turn = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            try:
                # The request may have been cancelled meanwhile.
                if not turn.done():
                    turn.set_result(None)
            finally:
                # Without effect, unless that has failed: nobody must wait for ever.
                turn.cancel()

        long_work().add(go_on)
        await turn
        self._until_ms = self._clock.monotonic_ms() + LONGEST_MS
