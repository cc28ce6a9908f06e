"""A time limit for several steps together, none of which may keep the others from being done."""

import asyncio
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import Final

from coordinator_server.loop.task_keeper import is_cancelled

LEAST_SECONDS: Final = 0.1
"""What every step gets, however little is left: most need nearly nothing."""


class Deadline:
    """So many seconds from now."""

    def __init__(
        self,
        seconds: float,
        report: Callable[..., None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report(event, **fields)` is told of steps that did not come to their end."""
        self._seconds = seconds
        self._report = report
        self._monotonic = monotonic
        self._at = monotonic() + seconds

    def left(self, reserved: float = 0.0) -> float:
        """The seconds that are left, without some that are reserved for later steps."""
        return max(self._at - reserved - self._monotonic(), LEAST_SECONDS)

    async def keep(self, what: str, step: Awaitable[object], reserved: float = 0.0) -> bool:
        """Wait for a step as long as there is time; whether it came to its end."""
        seconds = self.left(reserved)
        try:
            await asyncio.wait_for(step, seconds)
        except TimeoutError:
            self._report("stop_took_too_long", step=what, seconds=round(seconds, 1))
            return False
        except (Exception, CancelledError) as error:
            if asyncio.iscoroutine(step):
                step.close()  # if it never began: Python warns of such ones
            # The other steps are to be done all the same, unless it is this task that is to end.
            if is_cancelled():
                raise
            self._report("stop_failed", step=what, error=f"{type(error).__name__}: {error}")
            return False
        return True
