"""The log is the group: what records make of it, at run time and after a load."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
)
from coordinator_server.group.effects import Fetched
from coordinator_server.group.events import FetchOffsets, Loaded
from coordinator_server.group.group import Group
from coordinator_server.group.replay import apply, end_transaction
from tests.support.classic import classic_of
from tests.support.group_harness import SESSION_MS, GroupHarness, Request, offset
from tests.support.offsets import fetched_offsets

KEY = OffsetCommitKey("group", "orders", 0)
VALUE = OffsetCommitValue(7, -1, "", 1_700_000_000_000, -1)
GROUP = GroupMetadataKey("group")


def committed(number: int) -> OffsetCommitValue:
    return OffsetCommitValue(number, -1, "", 1_700_000_000_000)


def group_of(*members: str, generation: int = 5, leader: str | None = None) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer" if members else "",
        generation=generation,
        protocol="range" if members else None,
        leader=leader,
        current_state_timestamp=-1,
        members=[
            MemberMetadata(m, None, m, f"/{m}", 60_000, SESSION_MS, b"r", m.encode())
            for m in members
        ],
    )


# --- loading a group ---


def test_a_stable_group_goes_on_without_a_rebalance() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    before = story.describe()
    story.restart()
    assert story.describe() == before
    assert a.heartbeat().error is b.heartbeat().error is ErrorCode.NONE
    assert (a.sync().assignment, b.sync().assignment) == (b"a", b"b")
    assert b.commit().error is ErrorCode.NONE
    assert b.join().joined.generation == 1
    assert len(story.started) == 1


def test_loaded_members_have_one_full_session_and_no_more() -> None:
    story = GroupHarness()
    a, _ = story.stable("a", "b")
    story.advance(9_000)
    story.restart()
    story.advance(SESSION_MS - 1)
    assert story.removed == []
    a.heartbeat()
    story.advance(1)
    assert story.removed == [("b", "session_expired")]


def test_a_generation_that_was_not_synced_did_not_happen() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join(), b.join()
    assert a.generation == 2
    story.restart()
    assert (story.state, story.generation) == ("Stable", 1)
    assert a.heartbeat().error is ErrorCode.ILLEGAL_GENERATION
    assert a.join().is_parked


def test_a_leader_that_heard_of_a_rebalance_before_the_load_begins_it_again() -> None:
    """The log does not know of it; the others hear of it by their heartbeats, as ever."""
    story = GroupHarness()
    a, b = story.stable("a", "b")
    assert story.member("c").enter().is_parked
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    story.restart()
    assert b.heartbeat().error is ErrorCode.NONE
    of_leader = a.join()
    assert of_leader.is_parked
    assert b.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    of_follower = b.join()
    assert of_leader.joined.generation == of_follower.joined.generation == 2


def test_an_emptied_group_stays_empty_and_counts_on() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    story.restart()
    assert (story.state, story.generation) == ("Empty", 2)
    assert story.describe().protocol_type == "consumer"
    (b,) = story.stable("b")
    assert b.generation == 3


def test_a_group_nobody_has_joined_yet_is_forgotten() -> None:
    story = GroupHarness()
    pending = story.member("a")
    pending.join()
    story.restart()
    assert story.group.is_vacant
    assert pending.join().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_that_kafka_has_written_down_stays_a_group() -> None:
    story = GroupHarness()
    story.record(GROUP, GroupMetadataValue("", 0, None, None, story.wall, ()))
    story.restart()
    assert story.describe().state == "Empty"


def test_a_group_is_told_by_its_members_alone_once_it_is_made() -> None:
    story = GroupHarness()
    story.stable("a")
    assert story.group.durable is None
    story.restart()
    assert story.group.durable is None


def test_static_members_are_still_themselves() -> None:
    story = GroupHarness()
    a = story.member("a", "one")
    story.settle(a)
    story.restart()
    new = a.restarted()
    assert new.join().joined.generation == 1
    assert a.heartbeat().error is ErrorCode.FENCED_INSTANCE_ID


def test_a_loaded_leader_may_lead_on() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.leave()
    b.join()
    b.sync()
    story.restart()
    assert b.join().joined.leader == b.member_id


def test_the_last_of_several_records_counts() -> None:
    story = GroupHarness()
    for generation in (3, 4, 5):
        story.record(GROUP, group_of(f"m{generation}", generation=generation))
    story.restart()
    assert list(story.classic.members) == ["m5"]
    assert story.generation == 5


def test_records_too_old_to_have_a_rebalance_timeout_use_the_session_timeout() -> None:
    story = GroupHarness()
    value = group_of("m")
    value.members[0].rebalance_timeout = -1
    story.record(GROUP, value)
    story.restart()
    assert story.classic.rebalance_timeout_ms == SESSION_MS


def test_members_of_a_record_without_a_protocol_are_loaded_and_expire() -> None:
    story = GroupHarness()
    value = group_of("m")
    value.protocol = None
    story.record(GROUP, value)
    story.restart()
    assert story.state == "Stable"
    m = story.member("m", member_id="m", generation=5)
    assert m.heartbeat().error is ErrorCode.NONE
    assert m.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    story.advance(SESSION_MS)
    assert story.state == "Empty"


@pytest.mark.parametrize("leader", [None, "gone"])
def test_a_record_without_a_valid_leader_is_led_by_its_first_member(leader: str | None) -> None:
    story = GroupHarness()
    story.record(GROUP, group_of("m1", "m2", leader=leader))
    story.restart()
    assert story.classic.leader == "m1"


def test_of_the_protocols_only_the_selected_one_is_known_after_a_load() -> None:
    story = GroupHarness()
    a = story.member("a", protocols=(("range", b""), ("roundrobin", b"")))
    story.settle(a)
    story.restart()
    assert story.classic.supported_protocols == {"range": 1}


# --- tombstones ---


def test_tombstones_of_what_is_not_there_are_nothing() -> None:
    group = Group("group")
    apply(group, KEY, None)
    apply(group, GROUP, None)
    assert group.is_vacant
    assert group.offsets.pending == {}


def test_a_tombstone_takes_the_group_and_later_offsets_make_a_simple_one() -> None:
    story = GroupHarness()
    story.record(GROUP, group_of("m"))
    story.record(GROUP, None)
    story.record(KEY, committed(7))
    story.restart()
    assert (story.state, story.classic.protocol_type) == ("Empty", None)
    assert story.group.offsets.get("orders", 0) == committed(7)


def test_a_tombstone_that_left_offsets_behind_left_a_simple_group() -> None:
    story = GroupHarness()
    story.record(KEY, committed(7))
    story.record(GROUP, None)
    story.restart()
    assert story.describe().state == "Empty"
    assert story.classic.state_since == -1, "the log does not say"


def test_a_group_is_to_be_remembered_while_its_record_or_an_offset_is_there() -> None:
    group = Group("group")
    apply(group, GROUP, group_of("m"))
    assert not group.is_vacant
    apply(group, KEY, committed(7))
    apply(group, GROUP, None)
    assert not group.is_vacant
    apply(group, KEY, None)
    assert group.is_vacant


def test_a_tombstone_that_left_an_open_transaction_behind_left_a_simple_group() -> None:
    story = GroupHarness()
    apply(story.group, KEY, committed(2), 7, 10)
    apply(story.group, GROUP, None)
    assert not story.group.is_vacant
    story.group.handle(Loaded(), story.context())
    assert story.state == "Empty"
    assert ask(story, [0], stable=True) == {0: (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)}


def test_a_tombstone_takes_one_offset() -> None:
    group = Group("group")
    other = OffsetCommitKey("group", "orders", 1)
    apply(group, KEY, committed(1))
    apply(group, other, committed(2))
    apply(group, KEY, None)
    apply(group, KEY, None)
    assert list(group.offsets.partitions()) == [("orders", 1)]
    assert len(group.offsets) == 1


def test_loading_nothing_makes_nothing() -> None:
    story = GroupHarness()
    story.restart()
    assert story.group.is_vacant


# --- transactions ---


def test_offsets_of_a_transaction_count_when_it_is_committed() -> None:
    group = Group("group")
    apply(group, KEY, committed(1))
    apply(group, KEY, committed(2), 7, 10)
    assert group.offsets.get("orders", 0) == committed(1)
    assert group.offsets.is_pending("orders", 0)
    assert list(group.offsets.partitions()) == [("orders", 0)]
    end_transaction(group, 7, commit=True)
    assert group.offsets.get("orders", 0) == committed(2)
    assert not group.offsets.is_pending("orders", 0)


def test_offsets_of_a_transaction_are_dropped_when_it_is_aborted() -> None:
    group = Group("group")
    apply(group, KEY, committed(2), 7, 10)
    end_transaction(group, 7, commit=False)
    assert not group.offsets


def test_a_marker_without_offsets_is_nothing() -> None:
    group = Group("group")
    end_transaction(group, 7, commit=True)
    assert group.is_vacant


def test_the_last_offset_of_a_transaction_counts() -> None:
    group = Group("group")
    apply(group, KEY, committed(2), 7, 10)
    apply(group, KEY, committed(3), 7, 11)
    end_transaction(group, 7, commit=True)
    assert group.offsets.get("orders", 0) == committed(3)


def test_a_plain_commit_made_later_wins_over_a_transaction_that_ends_later() -> None:
    group = Group("group")
    apply(group, KEY, committed(2), 7, 10)
    apply(group, KEY, committed(9), order=11)
    end_transaction(group, 7, commit=True)
    assert group.offsets.get("orders", 0) == committed(9)


def test_of_two_transactions_the_later_offset_wins_whichever_ends_first() -> None:
    for first, second in ((7, 8), (8, 7)):
        group = Group("group")
        apply(group, KEY, committed(70), 7, 10)
        apply(group, KEY, committed(80), 8, 11)
        end_transaction(group, first, commit=True)
        end_transaction(group, second, commit=True)
        assert group.offsets.get("orders", 0) == committed(80)


def test_transactions_of_several_producers_are_open_side_by_side() -> None:
    group = Group("group")
    apply(group, KEY, committed(70), 7, 10)
    apply(group, OffsetCommitKey("group", "orders", 1), committed(80), 8, 11)
    for producer_id in (7, 8):
        end_transaction(group, producer_id, commit=True)
    assert group.offsets.of_topic("orders") == {0: committed(70), 1: committed(80)}


def test_a_tombstone_takes_the_pending_offsets_too() -> None:
    group = Group("group")
    other = OffsetCommitKey("group", "orders", 1)
    apply(group, KEY, committed(70), 7, 10)
    apply(group, KEY, committed(80), 8, 11)
    apply(group, other, committed(81), 8, 12)
    apply(group, KEY, None)
    assert list(group.offsets.pending) == [8]
    end_transaction(group, 8, commit=True)
    assert list(group.offsets.partitions()) == [("orders", 1)]


def with_open_transaction() -> GroupHarness:
    story = GroupHarness()
    story.commit(offset(1, epoch=3), offset(5, partition=1, epoch=3))
    apply(story.group, KEY, committed(2), 7, 10)
    return story


def ask(story: GroupHarness, partitions: list[int] | None, *, stable: bool) -> dict[int, object]:
    """OffsetFetch past the story's own check, which knows no transactions."""
    request = Request("OffsetFetch")
    topics = None if partitions is None else [("orders", partitions)]
    effects = story.group.handle(FetchOffsets(request, topics, stable), story.context())
    (reply,) = effects.replies
    assert isinstance(reply.result, Fetched)
    found = [place for _, place in fetched_offsets(reply.result)]
    for place in found:
        assert (place.leader_epoch == -1) is (place.offset == -1), "both or neither are told"
    return {place.partition: (place.offset, place.error) for place in found}


@pytest.mark.parametrize("partitions", [[0, 1, 2], None])
def test_offsets_of_an_open_transaction_are_refused_to_those_who_want_stable_ones(
    partitions: list[int] | None,
) -> None:
    found = ask(with_open_transaction(), partitions, stable=True)
    assert found.pop(0) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert found.pop(1) == (5, ErrorCode.NONE)
    assert found in ({}, {2: (-1, ErrorCode.NONE)})


def test_others_are_told_the_last_stable_offset() -> None:
    found = ask(with_open_transaction(), [0], stable=False)
    assert found == {0: (1, ErrorCode.NONE)}


def test_a_group_with_nothing_but_an_open_transaction_is_there() -> None:
    story = GroupHarness()
    apply(story.group, KEY, committed(2), 7, 10)
    story.group.handle(Loaded(), story.context())
    assert not story.group.is_vacant
    assert list(story.group.offsets.partitions()) == [("orders", 0)]
    assert ask(story, [0], stable=True) == {0: (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)}


def test_deleting_a_group_with_an_open_transaction_takes_its_offsets() -> None:
    story = GroupHarness()
    apply(story.group, KEY, committed(2), 7, 10)
    story.group.handle(Loaded(), story.context())
    assert story.delete().error is ErrorCode.NONE
    assert story.group.is_vacant
    assert len(story.writes) == 2


def test_a_commit_of_no_producer_counts_at_once() -> None:
    group = Group("group")
    apply(group, KEY, VALUE, producer_id=-1)
    assert group.offsets.get("orders", 0) == VALUE
    assert not group.offsets.pending


def test_a_simple_group_from_the_log_does_not_say_since_when_it_is_empty() -> None:
    group = Group("group")
    apply(group, KEY, VALUE)
    assert classic_of(group).state_since == -1
