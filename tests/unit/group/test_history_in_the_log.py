"""What the log tells of a finished rebalance, and for how long: headers and history records."""

from dataclasses import replace
from typing import Any

from coordinator_protocol.batch_builder import NewBatch
from coordinator_protocol.history import (
    MAX_HISTORY_BYTES,
    RebalanceHistoryKey,
    decode_history,
)
from coordinator_protocol.history_writer import encode_history
from coordinator_protocol.record_headers import NO_HEADERS
from coordinator_protocol.records import GroupMetadataKey
from coordinator_server.group.classic.history_record import MAX_HEADER_BYTES
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Write
from coordinator_server.group.events import ExpireOffsets
from coordinator_server.group.rebalance_events import (
    Culprit,
    GroupRemoved,
    Outcome,
    RebalanceEvent,
    RebalanceReason,
    Round,
    Waited,
)
from coordinator_server.group.rebalance_log import (
    PastEvents,
    dropped,
    kept,
    next_sequence,
    pack,
    unpack,
)
from coordinator_server.observe.forms import rebalance_form
from tests.support.group_harness import DELAY_MS, GroupHarness
from tests.support.offsets import one_by_one

DAY_MS = 24 * 60 * 60 * 1000


def past_of(story: GroupHarness) -> list[RebalanceEvent]:
    return list(PastEvents(story.group_id, story.group.past))


def group_writes(story: GroupHarness) -> list[Write]:
    return [write for write in story.writes if isinstance(write.key, GroupMetadataKey)]


def history_writes(story: GroupHarness) -> list[Write]:
    return [write for write in story.writes if isinstance(write.key, RebalanceHistoryKey)]


def headers_of(write: Write) -> dict[str, str]:
    batch = NewBatch(0)
    batch.add(b"", b"", write.headers)
    (record,) = batch.decoded()
    return {name: value.decode() for name, value in record.headers}


def rebalanced(story: GroupHarness, times: int) -> Any:
    """A group of one member that has rebalanced so often."""
    (a,) = story.stable("a")
    for _ in range(times - 1):
        story.force_rebalance()
        a.join()
        a.sync({a: b""})
    return a


def test_a_history_record_follows_the_record_that_closes_the_rebalance() -> None:
    story = GroupHarness()
    story.stable("a")
    *_, group, history = story.writes
    assert isinstance(group.key, GroupMetadataKey)
    assert history.key == RebalanceHistoryKey("group", 1, 0)
    assert past_of(story) == [story.rebalances[-1]]


def test_a_rebalance_takes_as_long_as_both_of_its_phases() -> None:
    story = GroupHarness()
    a = story.member("a")
    a.enter()
    story.advance(DELAY_MS)
    story.advance(40)
    a.sync({a: b""})
    (event,) = past_of(story)
    assert (event.join_phase_ms, event.sync_phase_ms) == (DELAY_MS, 40)
    assert event.duration_ms == DELAY_MS + 40


def test_a_group_that_emptied_is_told_as_well() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave("bye")
    assert past_of(story) == story.rebalances
    assert [event.outcome.value for event in past_of(story)] == ["completed", "emptied"]
    assert headers_of(group_writes(story)[-1])["rb.outcome"] == "emptied"


def test_the_record_that_closes_a_rebalance_says_why_in_its_headers() -> None:
    story = GroupHarness()
    a = story.member("a", "one")
    began = story.wall
    a.enter("rolling upgrade")
    story.advance(6_000)
    story.advance(40)
    a.sync({a: b""})
    (closed,) = group_writes(story)
    assert headers_of(closed) == {
        "rb.reason": "member_joined",
        "rb.outcome": "completed",
        "rb.member": a.member_id,
        "rb.client": "a",
        "rb.host": "/a",
        "rb.start": str(began),
        "rb.join_end": str(began + 3_000),
        "rb.end": str(began + 6_040),
        "rb.prev_gen": "0",
        "rb.prev_state": "Empty",
        "rb.sequence": "0",
        "rb.members_before": "0",
        "rb.instance": "one",
        "rb.client_reason": "rolling upgrade",
        "rb.joined": "1",
    }


def test_headers_count_who_left_and_who_was_evicted_and_leave_out_what_there_is_none_of() -> None:
    story = GroupHarness()
    a, b, c, d = story.stable("a", "b", "c", "d")
    c.leave()
    d.leave()
    a.join()
    for _ in range(12):
        story.advance(5_000)
        b.heartbeat()
    a.sync({a: b""})
    told = headers_of(group_writes(story)[-1])
    counts = {name: told.get(name) for name in ("rb.joined", "rb.left", "rb.evicted")}
    assert counts == {"rb.joined": None, "rb.left": "2", "rb.evicted": "1"}


def test_headers_are_bounded_whatever_clients_are_called() -> None:
    story = GroupHarness()
    a = story.member("\N{GRINNING FACE}" * 2_000, "\u00e9" * 3_000)
    a.enter("why " * 5_000)
    story.advance(6_000)
    a.sync({a: b""})
    (closed,) = [write for write in group_writes(story) if write.headers != NO_HEADERS]
    size = sum(len(name) + len(value.encode()) for name, value in headers_of(closed).items())
    assert size <= MAX_HEADER_BYTES
    assert headers_of(closed)["rb.client"] == "\N{GRINNING FACE}" * 25
    history = history_writes(story)[-1].value
    assert isinstance(history, bytes)
    assert len(history) <= MAX_HISTORY_BYTES


def test_every_text_of_the_headers_has_a_length_of_its_own() -> None:
    story = GroupHarness()
    a = story.member("a" * 2_000, "i" * 2_000, known=False)
    a.join("why" * 2_000, client_host="h" * 2_000)
    story.advance(6_000)
    a.sync({a: b""})
    told = headers_of(group_writes(story)[-1])
    assert told["rb.member"] == a.member_id[:255]
    assert told["rb.client"] == "a" * 100
    assert told["rb.host"] == "h" * 64
    assert told["rb.instance"] == "i" * 100
    assert told["rb.client_reason"] == ("why" * 54)[:160]


def test_records_that_close_no_rebalance_have_no_headers() -> None:
    story = GroupHarness()
    a = story.member("a", "one")
    story.settle(a)
    before = len(group_writes(story))
    a.restarted().join()
    assert [write.headers for write in group_writes(story)[before:]] == [NO_HEADERS]


def test_an_assignment_never_fails_for_its_story() -> None:
    story = GroupHarness(limits=Limits(max_append_bytes=2_000))
    (a,) = story.stable("a")
    assert a.heartbeat().error == 0
    assert group_writes(story)[-1].headers == NO_HEADERS
    assert history_writes(story) == []
    assert story.rebalances[-1].sequence == -1


def test_the_past_and_its_numbers_survive_a_restart() -> None:
    story = GroupHarness()
    a = rebalanced(story, 2)
    before = past_of(story)
    story.restart()
    assert past_of(story) == before
    story.force_rebalance()
    a.join()
    a.sync({a: b""})
    assert [event.sequence for event in past_of(story)] == [0, 1, 2]


def test_no_group_keeps_more_than_it_may() -> None:
    story = GroupHarness(limits=Limits(history_max_rebalances=3))
    rebalanced(story, 5)
    assert [event.sequence for event in past_of(story)] == [2, 3, 4]
    gone = [write.key for write in history_writes(story) if write.value is None]
    assert gone == [RebalanceHistoryKey("group", 1, 0), RebalanceHistoryKey("group", 2, 1)]


def test_nothing_is_forgotten_before_there_is_one_too_many() -> None:
    story = GroupHarness(limits=Limits(history_max_rebalances=6))
    a = rebalanced(story, 6)
    assert [event.sequence for event in past_of(story)] == [0, 1, 2, 3, 4, 5]
    story.force_rebalance()
    a.join()
    a.sync({a: b""})
    assert [event.sequence for event in past_of(story)] == [1, 2, 3, 4, 5, 6]


def test_a_group_that_goes_with_as_many_as_it_may_have_forgets_each_once() -> None:
    story = GroupHarness(limits=Limits(history_max_rebalances=3))
    rebalanced(story, 3).leave()
    keys = [
        RebalanceHistoryKey("group", event.generation_after, event.sequence)
        for event in past_of(story)
    ]
    story.writes.clear()
    story.delete()
    assert [write.key for write in history_writes(story)] == keys
    assert len(keys) == 3


def test_a_smaller_limit_holds_from_the_next_rebalance_that_ends() -> None:
    story = GroupHarness()
    a = rebalanced(story, 5)
    story.limits = Limits(history_max_rebalances=3)
    story.force_rebalance()
    assert len(past_of(story)) == 5
    a.join()
    a.sync({a: b""})
    assert [event.sequence for event in past_of(story)] == [3, 4, 5]


def test_a_group_keeps_a_thousand_rebalances_where_nothing_else_is_configured() -> None:
    story = GroupHarness()
    a = rebalanced(story, 1)
    (first,) = past_of(story)
    for sequence in range(1, 1_000):
        later = replace(first, sequence=sequence)
        story.record(RebalanceHistoryKey("group", 1, sequence), pack(later))
    story.restart()
    assert len(past_of(story)) == 1_000
    story.force_rebalance()
    a.join()
    a.sync({a: b""})
    assert [past_of(story)[place].sequence for place in (0, -1)] == [1, 1_000]
    assert len(past_of(story)) == 1_000


def test_a_rebalance_is_kept_for_its_retention() -> None:
    story = GroupHarness()
    a = rebalanced(story, 1)
    story.wall += 3 * DAY_MS
    story.force_rebalance()
    a.join()
    a.sync({a: b""})
    story.wall += 4 * DAY_MS
    story.handle(ExpireOffsets())
    assert len(past_of(story)) == 2
    story.wall += 1
    story.handle(ExpireOffsets())
    assert [event.sequence for event in past_of(story)] == [1]


def test_the_history_goes_with_its_group_and_observers_are_told() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    story.delete()
    assert story.group.past == ()
    *_, last = story.writes
    assert (last.key, last.value) == (GroupMetadataKey("group"), None)
    (removed,) = [seen for seen in story.observed if isinstance(seen, GroupRemoved)]
    assert list(removed.past) == story.rebalances
    assert repr(removed.past) == "<2 rebalances of 'group'>"
    assert list(removed.past[1:]) == story.rebalances[1:]
    assert removed.past[-1] == story.rebalances[-1]


def test_a_group_that_expires_with_an_old_history_forgets_each_rebalance_once() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    story.wall += 8 * DAY_MS
    effects = story.handle(ExpireOffsets())
    assert [write.key for write in one_by_one(effects.writes)] == [
        RebalanceHistoryKey("group", 1, 0),
        RebalanceHistoryKey("group", 2, 1),
        GroupMetadataKey("group"),
    ]
    assert story.group.is_vacant


def test_the_history_of_a_group_that_a_broker_has_deleted_goes_with_the_load() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    assert len(story.group.past) == 2
    # What Kafka's DeleteGroups and expiry leave: they know nothing of a history.
    story.record(GroupMetadataKey("group"), None)
    story.restart()
    assert [write.key for write in story.writes[-2:]] == [
        RebalanceHistoryKey("group", 1, 0),
        RebalanceHistoryKey("group", 2, 1),
    ]
    assert story.group.is_vacant
    story.stable("b")
    story.restart()
    assert [event.sequence for event in PastEvents("group", story.group.past)] == [0]


def test_a_rebalance_told_twice_by_the_log_is_one() -> None:
    story = GroupHarness()
    rebalanced(story, 3)
    first, second, third = story.group.past
    assert kept(story.group.past, second) == (first, third, second)
    assert kept(story.group.past, third) == (first, second, third)
    assert dropped(story.group.past, RebalanceHistoryKey("group", 2, 1)) == (first, third)
    assert dropped((), RebalanceHistoryKey("group", 2, 1)) == ()
    assert (next_sequence(()), next_sequence(story.group.past)) == (0, 3)


def test_lists_are_cut_until_they_fit_and_counts_are_kept() -> None:
    story = GroupHarness()
    story.stable("a")
    (event,) = story.rebalances
    many = tuple(
        Culprit(f"member-{n}" * 20, f"instance-{n}" * 20, "c" * 300, "h") for n in range(90)
    )
    large = replace(
        event,
        joined=many,
        left=many,
        evicted=many,
        waited_for=tuple(Waited(who, 5) for who in many),
        rounds=tuple(Round(event.reason, who, "why") for who in many[:20]),
        counts=event.counts._replace(joined=1_000),
    )
    packed = pack(large)
    assert len(packed) <= MAX_HISTORY_BYTES
    (read,) = PastEvents("group", (packed,))
    assert 0 < len(read.joined) < 90
    assert read.counts.joined == 1_000
    assert len(read.joined[0].client_id) == 255


def test_words_that_are_known_are_reasons_and_outcomes_themselves() -> None:
    story = GroupHarness()
    rebalanced(story, 1)
    (event,) = past_of(story)
    assert event.reason is RebalanceReason.MEMBER_JOINED
    assert event.outcome is Outcome.COMPLETED


def test_words_of_a_later_version_are_shown_as_they_are() -> None:
    story = GroupHarness()
    rebalanced(story, 1)
    (raw,) = story.group.past
    value = decode_history(raw)
    rounds = [entry._replace(reason="moon_phase") for entry in value.rounds]
    later = replace(value, reason="moon_phase", outcome="postponed", rounds=rounds)
    event = unpack("group", encode_history(later))
    form = rebalance_form(event)
    assert (event.reason.value, str(event.outcome)) == ("moon_phase", "postponed")
    assert (form["reason"], form["outcome"]) == ("moon_phase", "postponed")
    assert form["rounds"][0]["reason"] == "moon_phase"


def test_a_retention_of_a_millisecond_is_one() -> None:
    story = GroupHarness(limits=Limits(history_retention_ms=1))
    story.stable("a")
    assert past_of(story) == story.rebalances
    assert story.rebalances[-1].sequence == 0
