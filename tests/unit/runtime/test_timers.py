"""Timers of the event loop; what they are asked for is what they pass on."""

from collections.abc import Callable

import pytest

from coordinator_server.clock import ManualClock
from coordinator_server.runtime.timers import LoopTimers

LONGEST_SECONDS = 24 * 60 * 60


class Loop:
    """Remembers what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.asked.append((delay, callback))


@pytest.mark.parametrize(
    ("in_ms", "delay"),
    [(1_500, 1.5), (0, 0), (-5_000, 0), (2**31 - 1, LONGEST_SECONDS), (2**63, LONGEST_SECONDS)],
)
def test_a_deadline_is_a_delay_the_loop_can_count(in_ms: int, delay: float) -> None:
    loop, clock = Loop(), ManualClock()
    timers = LoopTimers(loop, clock)  # type: ignore[arg-type]
    timers.call_at(clock.monotonic_ms() + in_ms, print)
    assert loop.asked == [(delay, print)]
