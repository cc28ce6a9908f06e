"""Deadlines behind one timer of the event loop."""

from collections.abc import Callable
from typing import Any

import pytest

from coordinator_server.clock import ManualClock
from coordinator_server.runtime.timers import LoopTimers

LONGEST_SECONDS = 24 * 60 * 60


class Handle:
    def __init__(self, delay: float, callback: Callable[[], None]) -> None:
        self.delay = delay
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """Remembers what it is asked for, and rings when the test says so."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.asked: list[Handle] = []
        self.failures: list[dict[str, Any]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> Handle:
        self.asked.append(Handle(delay, callback))
        return self.asked[-1]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def armed(self) -> list[float]:
        return [handle.delay for handle in self.asked if not handle.cancelled]

    def advance(self, ms: int) -> None:
        """Let time pass; whatever the loop's timer was armed for rings, once each."""
        self.clock.advance(ms)
        due, self.asked = [handle for handle in self.asked if not handle.cancelled], []
        for handle in due:
            handle.callback()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def timers(loop: Loop) -> LoopTimers:
    return LoopTimers(loop, loop.clock)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("in_ms", "delay"),
    [(1_500, 1.5), (0, 0), (-5_000, 0), (2**31 - 1, LONGEST_SECONDS), (2**62, LONGEST_SECONDS)],
)
def test_a_deadline_is_a_delay_the_loop_can_count(
    loop: Loop, timers: LoopTimers, in_ms: int, delay: float
) -> None:
    timers.call_at(loop.clock.monotonic_ms() + in_ms, print)
    assert loop.armed() == [delay]


def test_alarms_ring_in_the_order_of_their_deadlines(loop: Loop, timers: LoopTimers) -> None:
    now, rung = loop.clock.monotonic_ms(), []
    for after in (30, 10, 20, 10):
        timers.call_at(now + after, lambda after=after: rung.append(after))  # type: ignore[misc]
    assert loop.armed() == [0.010]
    loop.advance(15)
    assert rung == [10, 10]
    assert loop.armed() == [0.005]
    loop.advance(15)
    assert rung == [10, 10, 20, 30]
    assert loop.armed() == []


def test_a_loop_that_rings_early_is_asked_again(loop: Loop, timers: LoopTimers) -> None:
    rung: list[int] = []
    timers.call_at(loop.clock.monotonic_ms() + 10, lambda: rung.append(1))
    loop.advance(9)
    assert (rung, loop.armed()) == ([], [0.001])


def test_a_cancelled_alarm_never_rings_and_others_do(loop: Loop, timers: LoopTimers) -> None:
    now, rung = loop.clock.monotonic_ms(), []
    first = timers.call_at(now + 10, lambda: rung.append("first"))
    timers.call_at(now + 20, lambda: rung.append("second"))
    first.cancel()
    first.cancel()
    loop.advance(10)
    loop.advance(10)
    assert rung == ["second"]
    first.cancel()


def test_an_alarm_that_has_rung_can_be_cancelled_without_harm(
    loop: Loop, timers: LoopTimers
) -> None:
    alarm = timers.call_at(loop.clock.monotonic_ms(), lambda: None)
    loop.advance(0)
    alarm.cancel()
    assert timers._cancelled == 0


def test_many_cancelled_alarms_take_no_room(loop: Loop, timers: LoopTimers) -> None:
    later, rung = loop.clock.monotonic_ms() + 60_000, []
    timers.call_at(later, lambda: rung.append(1))
    for _ in range(10_000):
        timers.call_at(later, lambda: rung.append(2)).cancel()
    assert len(timers._alarms) < 2_100
    for _ in range(40):
        loop.advance(60_000)
    assert rung == [1]
    assert timers._alarms == []


def test_thousands_of_alarms_let_others_have_their_turns(loop: Loop, timers: LoopTimers) -> None:
    now, rung = loop.clock.monotonic_ms(), []
    for number in range(150):
        timers.call_at(now, lambda number=number: rung.append(number))  # type: ignore[misc]
    loop.advance(0)
    assert len(rung) == 64
    loop.advance(0)
    loop.advance(0)
    assert sorted(rung) == list(range(150))


def test_what_is_armed_while_others_ring_rings_later(loop: Loop, timers: LoopTimers) -> None:
    now = loop.clock.monotonic_ms()
    rung: list[int] = []

    def again() -> None:
        rung.append(len(rung))
        timers.call_at(now, again)

    timers.call_at(now, again)
    loop.advance(0)
    assert rung == [0]
    loop.advance(0)
    assert rung == [0, 1]


def test_an_alarm_that_fails_keeps_no_other_from_ringing(loop: Loop, timers: LoopTimers) -> None:
    now, rung = loop.clock.monotonic_ms(), []

    def broken() -> None:
        raise ZeroDivisionError

    timers.call_at(now, broken)
    timers.call_at(now, lambda: rung.append(1))
    loop.advance(0)
    assert rung == [1]
    assert [type(failure["exception"]) for failure in loop.failures] == [ZeroDivisionError]
