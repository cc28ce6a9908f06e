import base64

import pytest

from coordinator_server.clock import ManualClock, SystemClock
from coordinator_server.ids import CountingIds, SystemIds


def test_a_manual_clock_stands_until_it_is_moved() -> None:
    clock = ManualClock(monotonic_ms=5, wall_ms=7)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (5, 7)
    clock.advance(10)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (15, 17)


def test_a_manual_clock_on_a_base_runs_ahead_of_it() -> None:
    base = ManualClock(monotonic_ms=5, wall_ms=7)
    clock = ManualClock(base=base)
    clock.advance(10)
    base.advance(1)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (16, 18)


def test_a_clock_never_goes_back() -> None:
    with pytest.raises(ValueError, match="ms=-1"):
        ManualClock().advance(-1)


def test_the_system_clock_counts_milliseconds() -> None:
    clock = SystemClock()
    assert clock.monotonic_ms() <= clock.monotonic_ms()
    assert 1_700_000_000_000 < clock.wall_ms() < 10_000_000_000_000


def test_system_ids_are_kafkas() -> None:
    ids = SystemIds()
    assert len({ids.member_suffix() for _ in range(100)}) == 100
    assert len(ids.member_suffix()) == 36
    for _ in range(1000):
        assert not base64.urlsafe_b64encode(ids.topic_id().bytes).startswith(b"-")


def test_counting_ids_are_the_same_in_every_run() -> None:
    ids = CountingIds()
    assert ids.member_suffix() == "00000000-0000-0000-0000-000000000001"
    assert ids.member_suffix() == "00000000-0000-0000-0000-000000000002"
    assert ids.topic_id().int == 2
