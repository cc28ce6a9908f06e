"""What a request needs that is too long for one turn of the event loop."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from coordinator_server.clock import Clock

AT_ONCE: Final = 128
"""Steps before others have their turn."""

LONGEST_MS: Final = 3
"""After which they have it, too."""

_END: Final = object()


class InTurns:
    """Goes on with a request in steps: some now, some in every further turn of the loop.

    What a step adds comes before the steps that are left.
    """

    __slots__ = ("_clock", "_failed", "_is_due", "_steps")

    def __init__(self, clock: Clock, failed: Callable[[Exception], None]) -> None:
        """`failed` is told of an exception, after which nothing more is done."""
        self._clock = clock
        self._failed = failed
        self._steps: list[Iterator[object]] = []
        self._is_due = False

    def add(self, steps: Iterator[object]) -> None:
        """Take steps one by one; each is done when the iterator has it."""
        self._steps.append(steps)
        if not self._is_due:
            self._is_due = True
            self._go_on()

    def stop(self) -> None:
        """Do nothing more."""
        self._steps.clear()

    def _go_on(self) -> None:
        until_ms, left = self._clock.monotonic_ms() + LONGEST_MS, AT_ONCE
        try:
            while self._steps and left and self._clock.monotonic_ms() < until_ms:
                left -= 1
                self._step(self._steps[-1])
        except Exception as bug:  # noqa: BLE001 - whoever waits for the answer is to have one
            self.stop()
            self._failed(bug)
        self._is_due = bool(self._steps)
        if self._is_due:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _step(self, steps: Iterator[object]) -> None:
        if next(steps, _END) is _END and steps in self._steps:
            self._steps.remove(steps)
