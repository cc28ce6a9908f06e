from collections.abc import Callable

import pytest

from coordinator_server.group.rebalance_events import (
    Culprit,
    MemberRemoved,
    Outcome,
    RebalanceEvent,
    RebalanceReason,
    RebalanceStarted,
    RemovalReason,
)
from coordinator_server.observe.counters import Counters, Histogram


def test_a_value_on_a_bound_belongs_to_that_bucket() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2.0), ("2.0", 4.0), ("+Inf", 5.0)]
    assert histogram.total == 7.5


def test_one_observation_can_stand_for_many() -> None:
    histogram = Histogram((1.0,))
    histogram.observe(0.5, times=16)
    assert histogram.buckets() == [("1.0", 16.0), ("+Inf", 16.0)]
    assert histogram.total == 8.0


def test_finished_rebalances_are_counted_by_reason_and_outcome(
    make_event: Callable[..., RebalanceEvent],
) -> None:
    counters = Counters()
    counters.observe(make_event())
    counters.observe(make_event(outcome=Outcome.ABORTED))
    assert counters.rebalances[RebalanceReason.MEMBER_JOINED] == 2
    assert counters.rebalances_ended == {
        Outcome.COMPLETED: 1,
        Outcome.EMPTIED: 0,
        Outcome.ABORTED: 1,
    }
    assert counters.rebalance_seconds["total"].total == pytest.approx(0.12)


def test_a_rebalance_under_way_is_not_counted(started: RebalanceStarted) -> None:
    counters = Counters()
    counters.observe(started)
    assert sum(counters.rebalances.values()) == 0


def test_removed_members_are_counted_by_reason() -> None:
    counters = Counters()
    member = Culprit("a-1", None, "a", "/127.0.0.1")
    counters.observe(MemberRemoved("orders", RemovalReason.SESSION_EXPIRED, member))
    assert counters.removals[RemovalReason.SESSION_EXPIRED] == 1
    assert sum(counters.removals.values()) == 1
