"""An armed timer of `LoopTimers`; by itself, since a class made from float cannot be compiled."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.runtime.timers import LoopTimers


class Alarm(float):
    """A callback that rings once, unless it is cancelled before.

    It is its deadline as well, so that alarms can be in a heap as they are: every group has one,
    and a tuple of deadline, number and alarm would take a hundred bytes more.
    """

    __slots__ = ("callback", "timers")
    callback: Callable[[], None] | None
    timers: "LoopTimers"

    def cancel(self) -> None:
        """Never ring; harmless once it has rung."""
        if self.callback is not None:
            self.callback = None
            self.timers.forget_one()
