"""Offsets and groups that are over: retention (KIP-211) and deleted topics."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from coordinator_protocol.subscription import Subscription, encode_subscription
from coordinator_server.group.context import Limits
from coordinator_server.group.deletion import Expiry
from coordinator_server.group.effects import DONE
from coordinator_server.group.events import ExpireOffsets, Loaded, TopicsDeleted
from coordinator_server.group.offsets import OffsetStore
from coordinator_server.group.rebalance_events import OffsetsRemoved, OffsetsRemovedReason
from coordinator_server.group.replay import apply
from tests.support.group_harness import GroupHarness, offset

RETENTION_MS = 1_000_000
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
"""The retention where nothing else is configured."""
KEY = OffsetCommitKey("group", "orders", 0)
VALUE = OffsetCommitValue(7, -1, "", 1_700_000_000_000, -1)
ORDERS = (("range", encode_subscription(Subscription(["orders"]))),)


def short_lived() -> GroupHarness:
    return GroupHarness(limits=Limits(offsets_retention_ms=RETENTION_MS))


def sweep(story: GroupHarness) -> list[Any]:
    """What a sweep removed."""
    observed = story.handle(ExpireOffsets()).observed
    return [seen for seen in observed if isinstance(seen, OffsetsRemoved)]


def removed(story: GroupHarness, offsets: int) -> list[OffsetsRemoved]:
    return [OffsetsRemoved(story.group_id, OffsetsRemovedReason.EXPIRED, offsets)]


def test_offsets_of_a_simple_group_expire_after_their_commit() -> None:
    story = short_lived()
    story.commit(offset(1))
    story.advance(500_000)
    story.commit(offset(2, partition=1))
    story.advance(499_999)
    assert sweep(story) == []
    story.advance(1)
    assert sweep(story) == removed(story, 1)
    assert list(story.fetch()) == [("orders", 1)]


def test_a_group_goes_with_its_last_offset() -> None:
    story = short_lived()
    story.commit()
    story.advance(RETENTION_MS)
    sweep(story)
    assert story.group.is_vacant
    assert [write.value for write in story.writes[-2:]] == [None, None]


def test_the_time_of_an_empty_group_runs_from_when_it_became_empty() -> None:
    story = short_lived()
    (a,) = story.stable("a", session=1_800_000)
    a.commit()
    story.advance(900_000)
    a.leave()
    story.advance(999_999)
    assert sweep(story) == []
    story.restart()
    story.advance(1)
    assert sweep(story) == removed(story, 1)
    assert story.group.is_vacant


def test_the_time_of_an_old_record_without_a_time_runs_from_the_commit() -> None:
    story = short_lived()
    story.record(GroupMetadataKey("group"), GroupMetadataValue("consumer", 1, None, None, -1, []))
    story.record(OffsetCommitKey("group", "orders", 0), OffsetCommitValue(1, -1, "", story.wall))
    story.restart()
    story.advance(RETENTION_MS)
    assert sweep(story) == removed(story, 1)


def test_a_retention_of_the_offsets_own_counts_alone() -> None:
    story = short_lived()
    story.commit(offset(1), retention_ms=10_000)
    story.commit(offset(2, partition=1), retention_ms=2 * RETENTION_MS)
    story.advance(9_999)
    assert sweep(story) == []
    story.advance(1)
    assert sweep(story) == removed(story, 1)
    story.advance(RETENTION_MS)
    assert sweep(story) == []


def test_a_stable_group_keeps_what_its_members_subscribe_to() -> None:
    story = short_lived()
    (a,) = story.stable("a", session=1_800_000, protocols=ORDERS)
    a.commit(offset(1), offset(2, topic="other"))
    story.advance(RETENTION_MS)
    assert sweep(story) == removed(story, 1)
    assert list(story.fetch()) == [("orders", 0)]
    assert story.state == "Stable"


@pytest.mark.parametrize(
    "how", [{"protocols": (("range", b"?"),)}, {"protocol_type": "connect"}], ids=["blob", "type"]
)
def test_a_group_whose_topics_are_not_known_keeps_everything(how: dict[str, Any]) -> None:
    story = short_lived()
    (a,) = story.stable("a", session=1_800_000, **how)
    a.commit()
    story.advance(RETENTION_MS)
    assert sweep(story) == []


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_nothing_expires_during_a_rebalance(state: str) -> None:
    story = short_lived()
    a, b = story.stable("a", "b", session=1_800_000, rebalance=1_800_000, protocols=ORDERS)
    a.commit(offset(1, topic="other"))
    story.advance(RETENTION_MS)
    a.join()
    if state == "CompletingRebalance":
        b.join()
    assert story.state == state
    assert sweep(story) == []


def test_an_empty_group_without_offsets_goes_unless_somebody_is_about_to_join() -> None:
    story = short_lived()
    pending = story.member("a", session=60_000)
    pending.join()
    sweep(story)
    assert story.state == "Empty"
    pending.leave()
    assert sweep(story) == []
    assert story.group.is_vacant


def test_a_group_that_does_not_exist_has_nothing_to_expire() -> None:
    assert sweep(short_lived()) == []


def test_an_open_transaction_keeps_its_offsets_and_the_group() -> None:
    story = short_lived()
    for producer_id, value in ((-1, 1), (7, 2)):
        key = OffsetCommitKey("group", "orders", 0)
        apply(story.group, key, OffsetCommitValue(value, -1, "", story.wall), producer_id, value)
    story.group.handle(Loaded(), story.context())
    story.now, story.wall = story.now + RETENTION_MS, story.wall + RETENTION_MS
    effects = story.group.handle(ExpireOffsets(), story.context())
    assert (effects.writes, effects.observed) == ([], [])


def test_offsets_of_deleted_topics_are_forgotten() -> None:
    story = GroupHarness()
    story.commit(offset(1), offset(2, partition=1), offset(3, topic="other"))
    effects = story.handle(TopicsDeleted(frozenset({"orders", "unheard of"})))
    assert effects.observed == [OffsetsRemoved("group", OffsetsRemovedReason.TOPIC_DELETED, 2)]
    assert list(story.fetch()) == [("other", 0)]


def test_a_group_outlives_its_topics() -> None:
    story = GroupHarness()
    story.commit(offset(1))
    story.handle(TopicsDeleted(frozenset({"orders"})))
    assert story.state == "Empty"
    assert story.handle(TopicsDeleted(frozenset({"orders"}))).observed == []


def test_the_time_of_a_group_nobody_has_joined_yet_runs_from_the_commit() -> None:
    story = short_lived()
    since = story.wall
    story.record(GroupMetadataKey("group"), GroupMetadataValue("", 0, None, None, since, ()))
    story.restart()
    story.advance(RETENTION_MS - 1)
    story.commit()
    story.restart()
    assert story.classic.state_since == since
    story.advance(RETENTION_MS - 1)
    assert sweep(story) == []
    story.advance(1)
    assert sweep(story) == removed(story, 1)


def test_deletions_are_told() -> None:
    story = GroupHarness()
    story.commit(offset(1), offset(2, partition=1))
    story.delete_offsets(("orders", [0, 5]))
    story.delete()
    told = [o for o in story.observed if isinstance(o, OffsetsRemoved)]
    assert [(o.reason, o.offsets) for o in told] == [
        (OffsetsRemovedReason.DELETED, 1),
        (OffsetsRemovedReason.DELETED, 1),
    ]


def test_whoever_tells_of_a_deleted_topic_hears_when_it_is_forgotten() -> None:
    story = short_lived()
    story.commit(offset(1))
    asked = object()
    effects = story.group.handle(TopicsDeleted(frozenset({"orders"}), asked), story.context())
    assert [(reply.token, reply.result) for reply in effects.replies] == [(asked, DONE)]


def test_offsets_are_known_by_their_topics_be_they_committed_or_pending() -> None:
    offsets = OffsetStore()
    value = OffsetCommitValue(1, -1, "", 0)
    offsets.put("orders", 0, value)
    offsets.put_pending(7, 0, "payments", 0, value)
    assert offsets.has_any_of(frozenset({"orders", "others"}))
    assert offsets.has_any_of(frozenset({"payments"}))
    assert not offsets.has_any_of(frozenset({"others"}))
    offsets.put_pending(7, 1, "refunds", 0, value)
    assert offsets.has_any_of(frozenset({"payments"}))


def test_a_stable_group_without_offsets_does_not_expire() -> None:
    story = GroupHarness()
    story.stable("a")
    written = len(story.writes)
    story.handle(ExpireOffsets())
    assert (story.state, len(story.writes)) == ("Stable", written)


def test_an_offset_committed_lately_stays_however_long_the_group_is_stable() -> None:
    story = GroupHarness()
    (a,) = story.stable("a", protocols=ORDERS)
    story.wall += WEEK_MS
    a.commit(offset(7, topic="other"))
    story.handle(ExpireOffsets())
    assert story.fetch()["other", 0].offset == 7
    story.wall += WEEK_MS
    story.handle(ExpireOffsets())
    assert story.fetch() == {}


def test_the_time_of_a_group_that_does_not_say_since_when_it_is_empty_runs_from_the_commit() -> (
    None
):
    story = GroupHarness()
    empty = GroupMetadataValue("consumer", 3, None, None, -1, [])
    story.record(GroupMetadataKey("group"), empty)
    story.record(KEY, replace(VALUE, commit_timestamp=story.wall - HOUR_MS))
    story.restart()
    story.wall += WEEK_MS - HOUR_MS - 1
    story.handle(ExpireOffsets())
    assert story.fetch()["orders", 0].offset == 7
    story.wall += 1
    story.handle(ExpireOffsets())
    assert story.state == "Dead"


def test_an_empty_group_with_nothing_but_an_open_transaction_does_not_expire() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    apply(story.group, KEY, VALUE, producer_id=7, order=1)
    story.handle(ExpireOffsets())
    assert story.state == "Empty"


def test_whoever_asks_is_told_when_an_offset_would_expire() -> None:
    story = short_lived()
    nothing = Expiry(story.group, story.limits)
    assert nothing.of("orders", VALUE) is None
    assert nothing.spares("orders")
    a, b = (story.member(name, protocols=ORDERS, session=1_800_000) for name in "ab")
    story.settle(a, b)
    a.commit(offset(1), offset(1, topic="other"))
    value = story.group.offsets.committed["orders"][0]
    expiry = Expiry(story.group, story.limits)
    assert expiry.of("orders", value) is None
    assert expiry.of("other", value) == story.wall + RETENTION_MS
    a.leave()
    assert Expiry(story.group, story.limits).of("other", value) is None
    b.leave()
    assert Expiry(story.group, story.limits).of("orders", value) == story.wall + RETENTION_MS
