"""Work of a request that is too long for one turn of the event loop."""

from asyncio import CancelledError
from collections.abc import Callable, Iterator
from typing import Final

from coordinator_server.api.memory import GROWTH, MayGrow
from coordinator_server.clock import Clock
from coordinator_server.loop.time_slice import long_work

AT_ONCE: Final = 128
"""Steps before others have their turn."""

LONGEST_MS: Final = 3
"""After which they have it, too."""

_END: Final = object()


class ChunkedWork:
    """Goes on with a request in steps: some now, some in further turns of the loop.

    What a step adds comes before the steps that are left.
    """

    __slots__ = ("_asked_at", "_clock", "_failed", "_is_due", "_may_grow", "_steps", "size")

    def __init__(
        self, clock: Clock, failed: Callable[[BaseException], None], may_grow: MayGrow | None = None
    ) -> None:
        """`failed` is told of an exception, after which nothing more is done.

        `may_grow` is that of the call whose response is made, if that may be large.
        """
        self._clock = clock
        self._failed = failed
        self._may_grow = may_grow
        self.size = 0
        """Bytes of the response that the steps have made so far; they add to it."""
        self._asked_at = -GROWTH
        """Size at which it was asked last whether it may grow."""
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
        try:
            until_ms, left = self._clock.monotonic_ms() + LONGEST_MS, AT_ONCE
            while self._steps and left and self._clock.monotonic_ms() < until_ms:
                if self.size >= self._asked_at + GROWTH and not self._has_memory():
                    return
                left -= 1
                self._step(self._steps[-1])
            if self._steps:
                long_work().add(self._go_on)
        except (Exception, CancelledError) as bug:  # noqa: BLE001 - the request is to be answered
            self.stop()
            self._failed(bug)
        finally:
            self._is_due = bool(self._steps)

    def _has_memory(self) -> bool:
        """Whether the response may grow; if not, its memory calls `_go_on_later`."""
        self._asked_at = self.size
        return self._may_grow is None or self._may_grow(self.size, self._go_on_later)

    def _go_on_later(self) -> None:
        long_work().add(self._go_on)

    def _step(self, steps: Iterator[object]) -> None:
        if next(steps, _END) is _END and steps in self._steps:
            self._steps.remove(steps)
