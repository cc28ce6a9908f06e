"""How long a coroutine goes over many things before others have their turn."""

import asyncio
from typing import Final

from coordinator_server.clock import Clock

LONGEST_MS: Final = 3


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
        await asyncio.sleep(0)
        self._until_ms = self._clock.monotonic_ms() + LONGEST_MS
