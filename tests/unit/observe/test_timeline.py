from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from coordinator_server.group.rebalance_events import (
    NOT_WRITTEN,
    GroupRemoved,
    Outcome,
    RebalanceEvent,
    RebalanceStarted,
)
from coordinator_server.observe.timeline import Timeline

MakeEvent = Callable[..., RebalanceEvent]


def test_the_latest_rebalance_comes_first(make_event: MakeEvent) -> None:
    timeline = Timeline()
    for generation in (1, 2, 3):
        timeline.observe(make_event(generation_after=generation))
    assert [event.generation_after for event in timeline.of("orders")] == [3, 2, 1]
    latest = timeline.latest("orders")
    assert latest is not None
    assert latest.generation_after == 3


def test_only_the_last_events_of_a_group_are_kept(make_event: MakeEvent) -> None:
    timeline = Timeline(max_events=2)
    for generation in (1, 2, 3):
        timeline.observe(make_event(generation_after=generation))
    assert [event.generation_after for event in timeline.of("orders")] == [3, 2]


def test_the_group_that_was_quiet_longest_is_forgotten_first(make_event: MakeEvent) -> None:
    timeline = Timeline(max_groups=2)
    for group_id in ("a", "b", "a", "c"):
        timeline.observe(make_event(group_id=group_id))
    assert timeline.of("b") == []
    assert len(timeline.of("a")) == 2
    assert len(timeline.of("c")) == 1


def end_of(started: RebalanceStarted, make_event: MakeEvent) -> RebalanceEvent:
    return make_event(generation_before=started.generation, started_ms=started.started_ms)


def test_a_rebalance_is_under_way_until_it_ends(
    make_event: MakeEvent, started: RebalanceStarted
) -> None:
    timeline = Timeline()
    timeline.observe(started)
    assert timeline.current("orders") is started
    assert list(timeline.in_progress()) == [started]
    timeline.observe(end_of(started, make_event))
    assert timeline.current("orders") is None
    assert not timeline.in_progress()


def outlives_the_end_of(
    started: RebalanceStarted, following: RebalanceStarted, make_event: MakeEvent
) -> None:
    timeline = Timeline()
    timeline.observe(started)
    timeline.observe(following)
    timeline.observe(end_of(started, make_event))
    assert list(timeline.in_progress()) == [following]
    timeline.observe(end_of(following, make_event))
    assert not timeline.in_progress()


def test_a_rebalance_that_began_before_the_end_of_the_last_was_told_is_under_way(
    make_event: MakeEvent, started: RebalanceStarted
) -> None:
    """The end of a rebalance is told when it is durable, the start of the next at once."""
    following = replace(started, generation=started.generation + 1)
    outlives_the_end_of(started, following, make_event)


def test_the_first_rebalance_of_a_group_made_anew_outlives_the_end_of_the_one_before(
    make_event: MakeEvent, started: RebalanceStarted
) -> None:
    """Both begin at the same generation."""
    anew = replace(started, started_ms=started.started_ms + 1)
    outlives_the_end_of(started, anew, make_event)


def test_a_group_without_rebalances_has_none() -> None:
    timeline = Timeline()
    assert timeline.of("orders") == []
    assert timeline.latest("orders") is None


def test_what_the_log_has_is_read_from_there(make_event: Callable[..., RebalanceEvent]) -> None:
    written = [make_event(sequence=number, ended_ms=1_000 * number) for number in range(3)]
    timeline = Timeline(lambda group_id: written if group_id == "orders" else ())
    aborted = make_event(outcome=Outcome.ABORTED, sequence=NOT_WRITTEN, ended_ms=1_500)
    for event in (*written, aborted):
        timeline.observe(event)
    assert timeline.of("orders") == [written[2], aborted, written[1], written[0]]
    assert timeline.of("orders", 1) == [written[2]]
    assert timeline.latest("orders") == written[2]
    assert timeline.count_since("orders", 1_500) == 2
    assert timeline.count_since("other", 0) == 0


def test_the_history_of_a_group_that_is_gone_is_remembered(
    make_event: Callable[..., RebalanceEvent],
) -> None:
    timeline = Timeline(lambda _group_id: ())
    timeline.observe(GroupRemoved("orders", [make_event(sequence=0)]))
    timeline.observe(GroupRemoved("empty", []))
    assert timeline.of("orders") == [make_event(sequence=0)]
    assert timeline.of("empty") == []


def test_a_rebalance_that_the_log_took_after_all_is_shown_once(make_event: MakeEvent) -> None:
    event = make_event(sequence=3)
    timeline = Timeline(lambda _group_id: [event])
    timeline.observe(replace(event, outcome=Outcome.ABORTED))
    assert timeline.of("orders") == [event]


class Counted(Sequence[RebalanceEvent]):
    """Counts how many are looked at."""

    def __init__(self, events: Sequence[RebalanceEvent]) -> None:
        self._events = events
        self.looks = 0

    def __len__(self) -> int:
        return len(self._events)

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return self._events[index]


def test_rebalances_of_the_last_hour_are_counted_without_a_look_at_each(
    make_event: MakeEvent,
) -> None:
    past = Counted([make_event(ended_ms=1_000 + number) for number in range(1_000)])
    timeline = Timeline(lambda _group: past)
    for since_ms, count in ((0, 1_000), (1_000, 1_000), (1_001, 999), (1_999, 1), (2_000, 0)):
        assert timeline.count_since("orders", since_ms) == count
    assert past.looks <= 5 * 11


def test_rebalances_that_the_log_has_not_are_counted_too(make_event: MakeEvent) -> None:
    past = [make_event(ended_ms=1_000), make_event(ended_ms=3_000, sequence=2)]
    timeline = Timeline(lambda _group: past)
    timeline.observe(make_event(ended_ms=2_000, sequence=NOT_WRITTEN))
    assert [timeline.count_since("orders", since) for since in (0, 1_500, 2_500)] == [3, 2, 1]
