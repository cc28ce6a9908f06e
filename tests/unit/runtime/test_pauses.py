"""Pauses of the process: deadlines stand still, and what is in the sockets is read first."""

from collections.abc import Callable
from typing import Any

import pytest

from coordinator_server.clock import LONGEST_GAP_MS, LOOK_MS, ManualClock, PauseAwareClock
from coordinator_server.observe.counters import Counters
from coordinator_server.runtime.pauses import PauseWatch
from coordinator_server.runtime.timers import LATE_MS, LONGEST_GRACE_MS, LoopTimers
from tests.unit.runtime.test_timers import Handle, Loop

SESSION_MS = 6_000


@pytest.fixture
def base() -> ManualClock:
    return ManualClock()


@pytest.fixture
def clock(base: ManualClock) -> PauseAwareClock:
    clock = PauseAwareClock(base)
    clock.begin()
    return clock


def test_time_goes_on_while_somebody_looks(base: ManualClock, clock: PauseAwareClock) -> None:
    before = clock.monotonic_ms()
    for _ in range(100):
        base.advance(LONGEST_GAP_MS)
        clock.monotonic_ms()
    assert clock.monotonic_ms() - before == 100 * LONGEST_GAP_MS
    assert clock.wall_ms() == base.wall_ms()
    assert clock.pauses == 0


@pytest.mark.parametrize("pause_ms", [LONGEST_GAP_MS + 1, 60_000, 24 * 3_600_000])
def test_a_pause_is_left_out_at_the_first_look(
    base: ManualClock, clock: PauseAwareClock, pause_ms: int
) -> None:
    deadline = clock.monotonic_ms() + SESSION_MS
    base.advance(pause_ms)
    assert deadline - clock.monotonic_ms() == SESSION_MS - LOOK_MS
    assert deadline - clock.monotonic_ms() == SESSION_MS - LOOK_MS
    assert (clock.pauses, clock.paused_ms) == (1, pause_ms - LOOK_MS)


def test_a_clock_nobody_looks_at_regularly_leaves_nothing_out(base: ManualClock) -> None:
    clock = PauseAwareClock(base)
    before = clock.monotonic_ms()
    base.advance(60_000)
    assert clock.monotonic_ms() - before == 60_000
    clock.begin()
    clock.end()
    base.advance(60_000)
    assert clock.monotonic_ms() - before == 120_000


def test_sessions_that_ended_in_a_pause_have_their_time_behind_it(
    base: ManualClock, clock: PauseAwareClock
) -> None:
    """The deadline lies in the pause, so the timer of the loop rings at once behind it."""
    loop, ended = Loop(), list[int]()
    timers = LoopTimers(loop, clock)  # type: ignore[arg-type]
    timers.call_at(clock.monotonic_ms() + SESSION_MS, lambda: ended.append(1))
    base.advance(10 * SESSION_MS)
    loop.advance(0)
    assert ended == []
    (armed,) = loop.armed()
    assert armed == (SESSION_MS - LOOK_MS) / 1000
    while not ended:
        base.advance(LOOK_MS)
        clock.monotonic_ms()
        loop.advance(0)
        assert base.monotonic_ms() < clock.monotonic_ms() + 11 * SESSION_MS
    assert clock.pauses == 1


def test_a_timer_that_a_blocked_loop_made_late_is_put_off_once(base: ManualClock) -> None:
    loop, rung = Loop(), list[int]()
    timers = LoopTimers(loop, base)  # type: ignore[arg-type]
    timers.call_at(base.monotonic_ms() + 100, lambda: rung.append(1))
    for late_ms, grace_ms in ((LATE_MS + 1, LATE_MS + 1), (60_000, LONGEST_GRACE_MS)):
        rung.clear()
        base.advance(100 + late_ms)
        loop.advance(0)
        assert (rung, loop.armed()) == ([], [grace_ms / 1000])
        base.advance(60_000)
        loop.advance(0)
        assert rung == [1]
        timers.call_at(base.monotonic_ms() + 100, lambda: rung.append(1))


def test_a_timer_in_time_is_not_put_off(base: ManualClock) -> None:
    loop, rung = Loop(), list[int]()
    timers = LoopTimers(loop, base)  # type: ignore[arg-type]
    timers.call_at(base.monotonic_ms() + 100, lambda: rung.append(1))
    base.advance(100 + LATE_MS)
    loop.advance(0)
    assert rung == [1]


async def test_the_watch_looks_and_reports_each_pause_once(
    base: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    clock, armed = PauseAwareClock(base), list[Handle]()
    counters = Counters()

    class Running:
        def call_later(self, delay: float, callback: Callable[[], None]) -> Handle:
            armed.append(Handle(delay, callback))
            return armed[-1]

    monkeypatch.setattr("coordinator_server.runtime.pauses.asyncio.get_running_loop", Running)
    watch = PauseWatch(clock, counters, lambda event, **f: told.append({"event": event, **f}))
    watch.start()
    for late_ms in (0, 9_000, 0, 5_000):
        base.advance(LOOK_MS + late_ms)
        assert armed[-1].delay == LOOK_MS / 1000
        armed[-1].callback()
    assert [(each["event"], each["paused_ms"], each["pauses"]) for each in told] == [
        ("process_pause_found", 9_000, 1),
        ("process_pause_found", 5_000, 2),
    ]
    assert counters.paused_ms == 14_000
    watch.stop()
    assert armed[-1].cancelled
    before = clock.monotonic_ms()
    base.advance(60_000)
    assert clock.monotonic_ms() - before == 60_000
