"""Committed offsets: what other coordinators got wrong."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import GroupMetadataKey
from coordinator_protocol.subscription import Subscription, encode_subscription
from coordinator_server.config import load
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Committed
from coordinator_server.group.events import ExpireOffsets, TopicsDeleted
from coordinator_server.server.component_settings import limits
from tests.support.group_harness import DELAY_MS, SESSION_MS, GroupHarness, Member, Request, offset

MINUTE_MS = 60_000
RETENTION_MS = Limits().offsets_retention_ms
ORDERS = (("range", encode_subscription(Subscription(["orders"]))),)


def sweep(harness: GroupHarness) -> None:
    """The expiry sweep comes by."""
    harness.handle(ExpireOffsets())


def kept(harness: GroupHarness) -> set[str]:
    """Topics with a committed offset."""
    return {topic for topic, _ in harness.fetch()} if harness.state != "Dead" else set()


def later(harness: GroupHarness, ms: int, *members: Member) -> None:
    """Let time pass in which members heartbeat."""
    harness.wall += ms
    for member in members:
        member.heartbeat()


def test_a_retention_of_more_milliseconds_than_31_bits_is_kept() -> None:
    """B21, KAFKA-4472. `offsets.retention.minutes` times 60,000."""
    for minutes in (35_792, 2_147_483_647):  # the first does not fit, and the most there is
        flags = {"offsets.retention.minutes": str(minutes)}
        configured = limits(load(environ={}, flags=flags).config, 1_000_000)
        assert configured.offsets_retention_ms == minutes * MINUTE_MS > 2**31
        harness = GroupHarness(limits=configured)
        harness.commit()
        harness.wall += minutes * MINUTE_MS - 1
        sweep(harness)
        assert kept(harness) == {"orders"}
        harness.wall += 1
        sweep(harness)
        assert harness.state == "Dead"


def commit_of(who: str, harness: GroupHarness, a: Member) -> Request:
    """A commit into the Stable group of `a`, after something has happened to it."""
    match who:
        case "a simple consumer, the group is empty":
            a.leave()
            return harness.commit()
        case "a simple consumer, the group has members":
            return harness.commit()
        case "a stranger":
            return a.commit(member_id="stranger")
        case "a member of an old generation":
            return a.commit(generation=a.generation - 1)
        case "a member that awaits its assignment":
            a.join()
            return a.commit()
        case _:
            harness.member("b").enter()
            return a.commit()


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ("a simple consumer, the group is empty", ErrorCode.NONE),
        ("a simple consumer, the group has members", ErrorCode.UNKNOWN_MEMBER_ID),
        ("a stranger", ErrorCode.UNKNOWN_MEMBER_ID),
        ("a member of an old generation", ErrorCode.ILLEGAL_GENERATION),
        ("a member that awaits its assignment", ErrorCode.REBALANCE_IN_PROGRESS),
        ("a member that is to join again", ErrorCode.NONE),
    ],
)
def test_a_commit_is_judged_by_who_commits_and_when(who: str, error: ErrorCode) -> None:
    """B44, redpanda #5554, confluent-kafka-dotnet #2119."""
    harness = GroupHarness()
    (a,) = harness.stable("a")
    assert commit_of(who, harness, a).error is error
    assert bool(harness.group.offsets) is (error is ErrorCode.NONE)


def test_metadata_too_long_keeps_only_its_own_partition_from_being_committed() -> None:
    """B44, redpanda #5554. The limit is 4,096."""
    harness = GroupHarness()
    request = harness.commit(offset(1, 0, metadata="m" * 4_096), offset(2, 1, metadata="m" * 4_097))
    assert request.result == Committed([ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE])
    assert set(harness.fetch()) == {("orders", 0)}


def test_a_stable_consumer_group_loses_offsets_of_topics_it_does_not_subscribe_to() -> None:
    """B45, KAFKA-8338. And of no others."""
    harness = GroupHarness()
    (a,) = harness.stable("a", protocols=ORDERS)
    a.commit(offset(1, topic="orders"), offset(1, topic="left"))
    later(harness, RETENTION_MS - 1, a)
    sweep(harness)
    assert kept(harness) == {"orders", "left"}
    later(harness, 1, a)
    sweep(harness)
    assert kept(harness) == {"orders"}
    later(harness, 100 * RETENTION_MS, a)
    sweep(harness)
    assert kept(harness) == {"orders"}


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_while_a_group_rebalances_nothing_expires(state: str) -> None:
    """B45, KAFKA-13636."""
    harness = GroupHarness()
    (a,) = harness.stable("a", protocols=ORDERS)
    a.commit(offset(1, topic="orders"), offset(1, topic="left"))
    if state == "PreparingRebalance":
        harness.member("b", protocols=ORDERS).enter()
    else:
        a.join()
    assert harness.state == state
    harness.wall += 10 * RETENTION_MS
    sweep(harness)
    assert kept(harness) == {"orders", "left"}


def test_the_time_of_an_empty_group_runs_from_when_it_became_empty() -> None:
    """B45, KAFKA-8338. A batch group that idles over a weekend keeps its place (Dekaf #2259)."""
    harness = GroupHarness()
    (a,) = harness.stable("a", protocols=ORDERS)
    a.commit()
    later(harness, 3 * RETENTION_MS, a)
    a.leave()
    assert harness.state == "Empty"
    later(harness, RETENTION_MS - 1)
    sweep(harness)
    harness.restart()
    sweep(harness)
    assert kept(harness) == {"orders"}
    later(harness, 1)
    sweep(harness)
    assert harness.state == "Dead"
    assert harness.writes[-1].key == GroupMetadataKey("group")
    assert harness.writes[-1].value is None


def test_a_commit_to_an_empty_group_does_not_prolong_what_it_has() -> None:
    """B45, Kafka's own source. The time of all its offsets runs from when it became Empty."""
    harness = GroupHarness()
    (a,) = harness.stable("a", protocols=ORDERS)
    a.commit(offset(1, topic="old"))
    a.leave()
    later(harness, RETENTION_MS - 1)
    harness.commit(offset(1, topic="new"))
    later(harness, 1)
    sweep(harness)
    assert harness.state == "Dead"


def test_offsets_of_a_simple_group_expire_each_by_its_own_commit() -> None:
    """B45, Kafka's own source."""
    harness = GroupHarness()
    harness.commit(offset(1, topic="old"))
    later(harness, RETENTION_MS - 1)
    harness.commit(offset(1, topic="new"))
    later(harness, 1)
    sweep(harness)
    assert kept(harness) == {"new"}
    later(harness, RETENTION_MS - 1)
    sweep(harness)
    assert harness.state == "Dead"
    assert harness.fetch() == {}


@pytest.mark.parametrize("blob", [b"", b"\0", b"\0\0\0\0\0\1", b"garbage of some length"])
def test_what_a_group_with_an_unreadable_subscription_needs_stays(blob: bytes) -> None:
    """B45, KAFKA-8338. Nobody knows its topics, so all of them count as subscribed."""
    harness = GroupHarness()
    (a,) = harness.stable("a", protocols=(("range", blob),))
    a.commit()
    later(harness, 10 * RETENTION_MS, a)
    sweep(harness)
    assert kept(harness) == {"orders"}


def test_nothing_expires_of_a_group_that_is_not_one_of_consumers() -> None:
    """B45, Kafka's own source. What Connect's workers subscribe to is not known."""
    harness = GroupHarness()
    (a,) = harness.stable("a", protocol_type="connect")
    a.commit()
    later(harness, 10 * RETENTION_MS, a)
    sweep(harness)
    assert kept(harness) == {"orders"}
    a.leave()
    later(harness, RETENTION_MS)
    sweep(harness)
    assert harness.state == "Dead"


def test_a_retention_of_minus_one_is_the_configured_one() -> None:
    """B46, kop #303. It does not mean that the offset has expired already."""
    harness = GroupHarness()
    harness.commit(retention_ms=-1)
    later(harness, RETENTION_MS - 1)
    sweep(harness)
    assert kept(harness) == {"orders"}


@pytest.mark.parametrize(
    ("retention_ms", "expires_after"),
    [(0, 0), (5_000, 5_000), (3 * RETENTION_MS, 3 * RETENTION_MS), (2**63 - 1, None)],
)
def test_a_retention_of_the_requests_own_counts_alone(
    retention_ms: int, expires_after: int | None
) -> None:
    """B46, kop #303. Shorter or longer than the configured one, and without overflow."""
    harness = GroupHarness()
    harness.commit(retention_ms=retention_ms)
    if expires_after is None:
        harness.wall += 1_000 * RETENTION_MS
        sweep(harness)
        assert kept(harness) == {"orders"}
        return
    harness.wall += expires_after - 1
    sweep(harness)
    assert kept(harness) == {"orders"}
    harness.wall += 1
    sweep(harness)
    assert harness.state == "Dead"


def test_a_group_that_has_handed_out_member_ids_is_not_forgotten() -> None:
    """B45, Kafka's own source. It is Empty and has no offsets, but somebody is coming."""
    harness = GroupHarness()
    member = harness.member("a")
    member.join()
    sweep(harness)
    assert member.join().is_parked
    sweep(harness)
    harness.advance(DELAY_MS)
    assert member.generation == 1


# --- deleted topics ---


def test_the_offsets_of_a_deleted_topic_are_gone_for_its_successor_too() -> None:
    """B52, franz-go #1411, redpanda #30624. Also after a restart, and for members that go on."""
    harness = GroupHarness()
    (a,) = harness.stable("a", protocols=ORDERS)
    a.commit(offset(7, topic="orders"), offset(7, 3, topic="orders"), offset(7, topic="other"))
    harness.handle(TopicsDeleted(frozenset({"orders", "never seen"})))
    for _ in range(2):
        assert kept(harness) == {"other"}
        assert harness.fetch([("orders", [0])])["orders", 0].offset == -1
        assert harness.state == "Stable"
        harness.restart()
    assert a.commit(offset(1, topic="orders")).error is ErrorCode.NONE


def test_the_first_refused_commit_after_a_restart_leaves_the_group_alone() -> None:
    """B49, franz-go TestPersistLoadedGroupNotKilledByOffsetCommit."""
    harness = GroupHarness()
    (a,) = harness.stable("a")
    a.commit(offset(5))
    harness.restart()
    assert a.commit(generation=a.generation + 1).error is ErrorCode.ILLEGAL_GENERATION
    assert harness.commit().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.heartbeat().error is ErrorCode.NONE
    assert harness.fetch()["orders", 0].offset == 5
    harness.advance(SESSION_MS - 1)
    assert a.commit(offset(6)).error is ErrorCode.NONE


def test_a_zombies_commit_in_a_generation_that_was_issued_twice_is_refused() -> None:
    """B60, Kafka's own source. A generation is durable only with the leader's SyncGroup."""
    harness = GroupHarness()
    (a,) = harness.stable("a")
    zombie = harness.member("zombie")
    zombie.enter()
    a.join()
    assert (zombie.generation, a.generation) == (2, 2)
    harness.restart()
    assert harness.generation == 1
    assert a.heartbeat().error is ErrorCode.ILLEGAL_GENERATION
    a.join()
    harness.sync_all(a)
    assert harness.generation == 2
    assert zombie.commit(offset(9)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.commit(offset(1)).error is ErrorCode.NONE
    assert harness.fetch()["orders", 0].offset == 1
