"""Details of replaying, expiring and counting offsets that no other test would miss."""

from dataclasses import replace

from coordinator_server.group.classic.subscription import subscribed_topics
from coordinator_server.group.events import ExpireOffsets
from coordinator_server.group.machine import Group
from coordinator_server.group.replay import apply
from protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.subscription import Subscription, encode_subscription
from tests.support.story import Story, offset

RETENTION_MS = 604_800_000
HOUR_MS = 3_600_000
PROTOCOLS = [("range", encode_subscription(Subscription(["orders"])))]
KEY = OffsetCommitKey("group", "orders", 0)
VALUE = OffsetCommitValue(7, -1, "", 1_700_000_000_000, -1)


def test_a_commit_of_no_producer_counts_at_once() -> None:
    group = Group("group")
    apply(group, KEY, VALUE, producer_id=-1)
    assert group.offsets.get("orders", 0) == VALUE
    assert not group.offsets.pending


def test_a_simple_group_from_the_log_does_not_say_since_when_it_is_empty() -> None:
    group = Group("group")
    apply(group, KEY, VALUE)
    assert group.classic is not None
    assert group.classic.state_since == -1


def test_a_stable_group_without_offsets_does_not_expire() -> None:
    story = Story()
    story.stable("a")
    written = len(story.writes)
    story.handle(ExpireOffsets())
    assert (story.state, len(story.writes)) == ("Stable", written)


def test_an_offset_committed_lately_stays_however_long_the_group_is_stable() -> None:
    story = Story()
    (a,) = story.stable("a", protocols=PROTOCOLS)
    story.wall += RETENTION_MS
    a.commit(offset(7, topic="other"))
    story.handle(ExpireOffsets())
    assert story.fetch()["other", 0].offset == 7
    story.wall += RETENTION_MS
    story.handle(ExpireOffsets())
    assert story.fetch() == {}


def test_the_time_of_a_group_that_does_not_say_since_when_it_is_empty_runs_from_the_commit() -> (
    None
):
    story = Story()
    empty = GroupMetadataValue("consumer", 3, None, None, -1, [])
    story.record(GroupMetadataKey("group"), empty)
    story.record(KEY, replace(VALUE, commit_timestamp=story.wall - HOUR_MS))
    story.restart()
    story.wall += RETENTION_MS - HOUR_MS - 1
    story.handle(ExpireOffsets())
    assert story.fetch()["orders", 0].offset == 7
    story.wall += 1
    story.handle(ExpireOffsets())
    assert story.state == "Dead"


def test_members_that_are_no_consumers_subscribe_to_nothing_that_is_known() -> None:
    story = Story()
    story.stable("a", protocols=PROTOCOLS, protocol_type="connect")
    assert subscribed_topics(story.classic) is None


def test_an_empty_group_with_nothing_but_an_open_transaction_does_not_expire() -> None:
    story = Story()
    (a,) = story.stable("a")
    a.leave()
    apply(story.group, KEY, VALUE, producer_id=7, order=1)
    story.handle(ExpireOffsets())
    assert story.state == "Empty"
