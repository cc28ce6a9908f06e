"""A time limit shared by several steps, each of which runs whatever happens to the others."""

import asyncio
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import Final

from coordinator_server.loop.task_keeper import is_cancelled

LEAST_SECONDS: Final = 0.1
"""Minimum for each step; most steps need nearly no time."""


class Deadline:
    """A point in time `seconds` after its creation."""

    def __init__(
        self,
        seconds: float,
        report: Callable[..., None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report(event, **fields)` logs steps that failed or exceeded the time."""
        self._seconds = seconds
        self._report = report
        self._monotonic = monotonic
        self._at = monotonic() + seconds

    def left(self, reserved: float = 0.0) -> float:
        """The remaining seconds minus those reserved for later steps."""
        return max(self._at - reserved - self._monotonic(), LEAST_SECONDS)

    async def keep(self, what: str, step: Awaitable[object], reserved: float = 0.0) -> bool:
        """Wait for a step as long as time remains; return whether it finished."""
        seconds = self.left(reserved)
        try:
            await asyncio.wait_for(step, seconds)
        except TimeoutError:
            self._report("stop_took_too_long", step=what, seconds=round(seconds, 1))
            return False
        except (Exception, CancelledError) as error:
            if asyncio.iscoroutine(step):
                step.close()  # avoids a warning if it never started
            # The other steps still run, unless this task itself is cancelled.
            if is_cancelled():
                raise
            self._report("stop_failed", step=what, error=f"{type(error).__name__}: {error}")
            return False
        return True
