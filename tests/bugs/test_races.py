"""The log answers late, or not at all, while other things happen."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import GroupMetadataKey, decode_key
from coordinator_server.group.effects import Refuse
from coordinator_server.group.events import LeavingMember
from coordinator_server.group.rebalance_events import Outcome, RebalanceEvent
from coordinator_server.storage.base import Fenced, OutcomeUnknown
from coordinator_server.storage.memory import MemoryStorage
from tests.support.coordinator_harness import CoordinatorHarness, GroupClient, opened, settle
from tests.support.group_harness import SESSION_MS, Request, offset


def hold(harness: CoordinatorHarness) -> None:
    harness.memory.hold(harness.partition("group").index)


async def release(harness: CoordinatorHarness) -> None:
    harness.memory.release(harness.partition("group").index)
    await settle()


def group_records(harness: CoordinatorHarness) -> list[bytes | None]:
    return [
        entry.value
        for entry in harness.memory.records(harness.partition("group").index)
        if isinstance(decode_key(entry.key or b""), GroupMetadataKey)
    ]


async def test_a_group_made_anew_while_it_is_deleted_comes_after_its_tombstone(
    harness: CoordinatorHarness,
) -> None:
    """B41, KAFKA-4399. Neither request is lost, and the log agrees with memory."""
    group_client = harness.group_client()
    group_client.commit(offset(1))
    await settle()
    hold(harness)
    deleted = group_client.delete()
    group_client.delete()
    a = group_client.member("a")
    joined = a.join()
    committed = group_client.commit(offset(9, topic="new"))
    await settle()
    assert [r.is_parked for r in (deleted, joined, committed)] == [True] * 3
    await release(harness)
    assert (deleted.error, joined.error) == (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
    assert committed.error is ErrorCode.NONE
    assert {topic for topic, _ in await group_client.fetched()} == {"new"}
    assert harness.live_state_is_what_the_log_says()
    assert group_records(harness) == [None]
    await group_client.settled(a)
    assert group_records(harness)[-1] is not None


async def test_a_group_that_expires_and_is_joined_meanwhile_lives(
    harness: CoordinatorHarness,
) -> None:
    """B41, KAFKA-4399. The sweep's tombstones and the newcomer's record keep their order."""
    group_client = harness.group_client()
    group_client.commit(offset(1))
    await settle()
    harness.clock.advance(8 * 24 * 3_600_000)
    harness.sweeper.start()
    hold(harness)
    harness.sweeper.sweep()
    await settle()
    assert group_client.state == "Dead"
    a = group_client.member("a")
    request = a.join()
    await settle()
    await release(harness)
    assert request.error is ErrorCode.MEMBER_ID_REQUIRED
    await group_client.settled(a)
    assert await group_client.fetched() == {}
    assert harness.live_state_is_what_the_log_says()


async def test_a_join_while_the_assignment_is_written_starts_the_next_rebalance(
    harness: CoordinatorHarness,
) -> None:
    """B42, kafka #388, kafka #451. The assignment still arrives, and then the news."""
    group_client = harness.group_client()
    a = group_client.member("a")
    await group_client.all_join(a)
    hold(harness)
    synced = a.sync({a: b"a"})
    b = group_client.member("b", known=False)
    joining = b.join()
    await settle()
    assert synced.is_parked
    await release(harness)
    assert synced.assignment == b"a"
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    await settle()
    assert joining.joined.generation == a.generation == 2
    group_client.sync_all(a, b)
    await settle()
    assert group_client.state == "Stable"


async def test_sessions_begin_anew_when_the_assignment_arrives(harness: CoordinatorHarness) -> None:
    """B42, kafka #388, kafka #451. Nobody expires for having waited for the log."""
    group_client = harness.group_client()
    members = a, b = group_client.member("a"), group_client.member("b")
    await group_client.all_join(*members)
    hold(harness)
    requests = [b.sync(), a.sync({a: b"a", b: b"b"})]
    await settle()
    harness.timers.advance(4_900)
    await release(harness)
    assert [r.assignment for r in requests] == [b"b", b"a"]
    harness.timers.advance(SESSION_MS - 1)
    assert {m.heartbeat().error for m in members} == {ErrorCode.NONE}


APPEND_ERRORS = [
    (OSError(28, "No space left on device"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (OutcomeUnknown("it may be there"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (Fenced("somebody else owns it"), ErrorCode.NOT_COORDINATOR),
]


@pytest.mark.parametrize(("failure", "error"), APPEND_ERRORS)
async def test_a_failed_append_is_told_as_an_error_clients_retry(
    harness: CoordinatorHarness, failure: Exception, error: ErrorCode
) -> None:
    """B43, KAFKA-3590. Of every request that waits, once."""
    group_client = harness.group_client()
    a, b = group_client.member("a"), group_client.member("b")
    await group_client.all_join(a, b)
    partition = harness.partition("group")
    harness.memory.fail_next(partition.index, failure)
    requests = [b.sync(), a.sync({a: b"a", b: b"b"}), group_client.describe_later()]
    await settle()
    assert [r.error for r in requests] == [error] * 3
    told = [o for o in harness.observed if isinstance(o, RebalanceEvent)]
    assert [event.outcome for event in told] == [Outcome.ABORTED]
    await opened(partition)
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        assert group_client.state == "Dead"
        assert harness.live_state_is_what_the_log_says()


async def test_a_log_that_does_not_answer_in_time_is_told_as_an_error_clients_retry(
    harness: CoordinatorHarness,
) -> None:
    """B43, KAFKA-3590; B55, KAFKA-17267. OffsetFetch says NOT_COORDINATOR, never a timeout."""
    group_client = harness.group_client()
    hold(harness)
    committed = group_client.commit(offset(1))
    fetched = group_client.fetch_later()
    await settle()
    harness.timers.advance(4_999)
    assert committed.is_parked
    assert fetched.is_parked
    harness.timers.advance(1)
    assert committed.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fetched.error is ErrorCode.NOT_COORDINATOR
    harness.memory.release(harness.partition("group").index)
    await opened(harness.partition("group"))
    assert harness.live_state_is_what_the_log_says()


async def test_an_assignment_too_large_for_the_log_is_refused_with_size_and_limit() -> None:
    """B43, librdkafka #3866. The partition and its other groups are not disturbed."""
    harness = await CoordinatorHarness(MemoryStorage(2, max_append_bytes=20_000)).start()
    group_client, other = harness.group_client(), harness.group_client("tosti")
    assert harness.partition("tosti") is harness.partition("group")
    a, b = group_client.member("a"), other.member("b")
    await other.settled(b)
    await group_client.all_join(a)
    tenure = harness.partition("group").tenure
    request = a.sync({a: bytes(20_000)})
    await settle()
    assert request.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert isinstance(request.result, Refuse)
    assert "20000" in request.result.detail
    assert harness.partition("group").tenure is tenure
    assert b.heartbeat().error is ErrorCode.NONE
    await group_client.settled(a)
    assert group_client.state == "Stable"
    (event,) = [
        o for o in harness.observed if isinstance(o, RebalanceEvent) and o.group_id == "group"
    ]
    assert "assignment_append_failed" in {r.reason for r in event.rounds}
    await harness.stop()


async def test_a_static_member_cannot_make_its_group_too_large_for_the_log() -> None:
    """B43, librdkafka #3866. Returning with more metadata than fits hurts nobody else."""
    harness = await CoordinatorHarness(MemoryStorage(2, max_append_bytes=20_000)).start()
    group_client, other = harness.group_client(), harness.group_client("tosti")
    a, b = group_client.member("a", "i-a"), other.member("b")
    await other.settled(b)
    await group_client.settled(a)
    tenure = harness.partition("group").tenure
    large = a.restarted()
    large.protocols = (("range", bytes(20_000)),)
    request = large.join()
    await settle()
    assert harness.partition("group").tenure is tenure
    assert not request.is_parked
    assert b.heartbeat().error is ErrorCode.NONE
    assert harness.live_state_is_what_the_log_says()
    again = a.restarted()
    rejoined = again.join()
    await settle()
    assert rejoined.error is ErrorCode.NONE
    group_client.sync_all(again)
    await settle()
    assert group_client.state == "Stable"
    await harness.stop()


async def test_an_append_under_an_old_epoch_changes_nothing(harness: CoordinatorHarness) -> None:
    """B53, KafScale #121, KAFKA-4362. The old owner is told, and tells its clients."""
    group_client = harness.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    successor = await CoordinatorHarness(harness.memory).start()
    before = len(harness.memory.records(harness.partition("group").index))
    for request in (
        group_client.commit(offset(1)),
        a.heartbeat(),
        a.leave(),
        group_client.fetch_later(),
    ):
        await settle()
        assert request.error is ErrorCode.NOT_COORDINATOR
    assert len(harness.memory.records(harness.partition("group").index)) == before
    assert set(successor.group_client().classic.members) == {a.member_id}
    await successor.stop()


async def test_an_append_in_flight_at_a_takeover_is_refused(harness: CoordinatorHarness) -> None:
    """B53, KafScale #121. Its client is told and asks the new owner."""
    group_client = harness.group_client()
    hold(harness)
    request = group_client.commit(offset(1))
    await settle()
    tenure = harness.partition("group").tenure
    assert tenure is not None
    await harness.memory.claim(harness.partition("group").index)
    tenure.log.complete()  # type: ignore[attr-defined]
    await settle()
    assert request.error is ErrorCode.NOT_COORDINATOR
    assert harness.memory.records(harness.partition("group").index) == []


async def test_while_a_partition_loads_everybody_but_heartbeats_is_told_so(
    harness: CoordinatorHarness,
) -> None:
    """B54, kafka #4788, redpanda #12995; B14, Kafka's own source."""
    partition = harness.partition("group")
    group_client = harness.group_client()
    harness.memory.hold(partition.index)
    harness.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    group_client.commit(offset(1))
    await settle()
    harness.memory.release(partition.index)
    await settle()
    harness.memory.hold(partition.index)
    while partition.state.value != "loading":
        await _look(group_client)
    member = group_client.member("a", member_id="a", generation=1)
    assert member.heartbeat().error is ErrorCode.NONE
    for request in (
        member.join(),
        member.sync(),
        group_client.commit(),
        group_client.leave(LeavingMember("a", None)),
        group_client.describe_later(),
        group_client.fetch_later(),
        group_client.delete(),
    ):
        assert request.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, request.what
    assert harness.coordinator.list_groups().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    harness.memory.release(partition.index)
    await opened(partition)
    groups, error = harness.coordinator.list_groups()
    assert (list(groups), error) == ([], ErrorCode.NONE)


async def _look(group_client: GroupClient) -> None:
    """While it backs off its answer is another one that clients retry."""
    request: Request = group_client.describe_later()
    assert request.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await settle()
