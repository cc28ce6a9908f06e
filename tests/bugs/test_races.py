"""The log answers late, or not at all, while other things happen."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import GroupMetadataKey, decode_key
from coordinator_server.group.effects import Refuse
from coordinator_server.group.events import LeavingMember
from coordinator_server.group.rebalance_events import Outcome, RebalanceEvent
from coordinator_server.storage.base import Fenced, OutcomeUnknown
from coordinator_server.storage.memory import MemoryStorage
from tests.support.desk import Desk, Seat, opened, settle
from tests.support.story import SESSION_MS, Request, offset


def hold(desk: Desk) -> None:
    desk.memory.hold(desk.partition("group").index)


async def release(desk: Desk) -> None:
    desk.memory.release(desk.partition("group").index)
    await settle()


def group_records(desk: Desk) -> list[bytes | None]:
    return [
        entry.value
        for entry in desk.memory.records(desk.partition("group").index)
        if isinstance(decode_key(entry.key or b""), GroupMetadataKey)
    ]


async def test_a_group_made_anew_while_it_is_deleted_comes_after_its_tombstone(desk: Desk) -> None:
    """B41, KAFKA-4399. Neither request is lost, and the log agrees with memory."""
    seat = desk.seat()
    seat.commit(offset(1))
    await settle()
    hold(desk)
    deleted = seat.delete()
    seat.delete()
    a = seat.member("a")
    joined = a.join()
    committed = seat.commit(offset(9, topic="new"))
    await settle()
    assert [r.is_parked for r in (deleted, joined, committed)] == [True] * 3
    await release(desk)
    assert (deleted.error, joined.error) == (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
    assert committed.error is ErrorCode.NONE
    assert {topic for topic, _ in await seat.fetched()} == {"new"}
    assert desk.live_state_is_what_the_log_says()
    assert group_records(desk) == [None]
    await seat.settled(a)
    assert group_records(desk)[-1] is not None


async def test_a_group_that_expires_and_is_joined_meanwhile_lives(desk: Desk) -> None:
    """B41, KAFKA-4399. The sweep's tombstones and the newcomer's record keep their order."""
    seat = desk.seat()
    seat.commit(offset(1))
    await settle()
    desk.clock.advance(8 * 24 * 3_600_000)
    desk.sweeper.start()
    hold(desk)
    desk.sweeper.sweep()
    await settle()
    assert seat.state == "Dead"
    a = seat.member("a")
    request = a.join()
    await settle()
    await release(desk)
    assert request.error is ErrorCode.MEMBER_ID_REQUIRED
    await seat.settled(a)
    assert await seat.fetched() == {}
    assert desk.live_state_is_what_the_log_says()


async def test_a_join_while_the_assignment_is_written_starts_the_next_rebalance(
    desk: Desk,
) -> None:
    """B42, kafka #388, kafka #451. The assignment still arrives, and then the news."""
    seat = desk.seat()
    a = seat.member("a")
    await seat.all_join(a)
    hold(desk)
    synced = a.sync({a: b"a"})
    b = seat.member("b", known=False)
    joining = b.join()
    await settle()
    assert synced.is_parked
    await release(desk)
    assert synced.assignment == b"a"
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    await settle()
    assert joining.joined.generation == a.generation == 2
    seat.sync_all(a, b)
    await settle()
    assert seat.state == "Stable"


async def test_sessions_begin_anew_when_the_assignment_arrives(desk: Desk) -> None:
    """B42, kafka #388, kafka #451. Nobody expires for having waited for the log."""
    seat = desk.seat()
    members = a, b = seat.member("a"), seat.member("b")
    await seat.all_join(*members)
    hold(desk)
    requests = [b.sync(), a.sync({a: b"a", b: b"b"})]
    await settle()
    desk.timers.advance(4_900)
    await release(desk)
    assert [r.assignment for r in requests] == [b"b", b"a"]
    desk.timers.advance(SESSION_MS - 1)
    assert {m.heartbeat().error for m in members} == {ErrorCode.NONE}


APPEND_ERRORS = [
    (OSError(28, "No space left on device"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (OutcomeUnknown("it may be there"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (Fenced("somebody else owns it"), ErrorCode.NOT_COORDINATOR),
]


@pytest.mark.parametrize(("failure", "error"), APPEND_ERRORS)
async def test_a_failed_append_is_told_as_an_error_clients_retry(
    desk: Desk, failure: Exception, error: ErrorCode
) -> None:
    """B43, KAFKA-3590. Of every request that waits, once."""
    seat = desk.seat()
    a, b = seat.member("a"), seat.member("b")
    await seat.all_join(a, b)
    partition = desk.partition("group")
    desk.memory.fail_next(partition.index, failure)
    requests = [b.sync(), a.sync({a: b"a", b: b"b"}), seat.describe_later()]
    await settle()
    assert [r.error for r in requests] == [error] * 3
    told = [o for o in desk.observed if isinstance(o, RebalanceEvent)]
    assert [event.outcome for event in told] == [Outcome.ABORTED]
    await opened(partition)
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        assert seat.state == "Dead"
        assert desk.live_state_is_what_the_log_says()


async def test_a_log_that_does_not_answer_in_time_is_told_as_an_error_clients_retry(
    desk: Desk,
) -> None:
    """B43, KAFKA-3590; B55, KAFKA-17267. OffsetFetch says NOT_COORDINATOR, never a timeout."""
    seat = desk.seat()
    hold(desk)
    committed = seat.commit(offset(1))
    fetched = seat.fetch_later()
    await settle()
    desk.timers.advance(4_999)
    assert committed.is_parked
    assert fetched.is_parked
    desk.timers.advance(1)
    assert committed.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert fetched.error is ErrorCode.NOT_COORDINATOR
    desk.memory.release(desk.partition("group").index)
    await opened(desk.partition("group"))
    assert desk.live_state_is_what_the_log_says()


async def test_an_assignment_too_large_for_the_log_is_refused_with_size_and_limit() -> None:
    """B43, librdkafka #3866. The partition and its other groups are not disturbed."""
    desk = await Desk(MemoryStorage(2, max_append_bytes=20_000)).start()
    seat, other = desk.seat(), desk.seat("tosti")
    assert desk.partition("tosti") is desk.partition("group")
    a, b = seat.member("a"), other.member("b")
    await other.settled(b)
    await seat.all_join(a)
    tenure = desk.partition("group").tenure
    request = a.sync({a: bytes(20_000)})
    await settle()
    assert request.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert isinstance(request.result, Refuse)
    assert "20000" in request.result.detail
    assert desk.partition("group").tenure is tenure
    assert b.heartbeat().error is ErrorCode.NONE
    await seat.settled(a)
    assert seat.state == "Stable"
    (event,) = [o for o in desk.observed if isinstance(o, RebalanceEvent) and o.group_id == "group"]
    assert "assignment_append_failed" in {r.reason for r in event.rounds}
    await desk.stop()


async def test_a_static_member_cannot_make_its_group_too_large_for_the_log() -> None:
    """B43, librdkafka #3866. Returning with more metadata than fits hurts nobody else."""
    desk = await Desk(MemoryStorage(2, max_append_bytes=20_000)).start()
    seat, other = desk.seat(), desk.seat("tosti")
    a, b = seat.member("a", "i-a"), other.member("b")
    await other.settled(b)
    await seat.settled(a)
    tenure = desk.partition("group").tenure
    large = a.restarted()
    large.protocols = (("range", bytes(20_000)),)
    request = large.join()
    await settle()
    assert desk.partition("group").tenure is tenure
    assert not request.is_parked
    assert b.heartbeat().error is ErrorCode.NONE
    assert desk.live_state_is_what_the_log_says()
    again = a.restarted()
    rejoined = again.join()
    await settle()
    assert rejoined.error is ErrorCode.NONE
    seat.sync_all(again)
    await settle()
    assert seat.state == "Stable"
    await desk.stop()


async def test_an_append_under_an_old_epoch_changes_nothing(desk: Desk) -> None:
    """B53, KafScale #121, KAFKA-4362. The old owner is told, and tells its clients."""
    seat = desk.seat()
    a = seat.member("a")
    await seat.settled(a)
    successor = await Desk(desk.memory).start()
    before = len(desk.memory.records(desk.partition("group").index))
    for request in (seat.commit(offset(1)), a.heartbeat(), a.leave(), seat.fetch_later()):
        await settle()
        assert request.error is ErrorCode.NOT_COORDINATOR
    assert len(desk.memory.records(desk.partition("group").index)) == before
    assert set(successor.seat().classic.members) == {a.member_id}
    await successor.stop()


async def test_an_append_in_flight_at_a_takeover_is_refused(desk: Desk) -> None:
    """B53, KafScale #121. Its client is told and asks the new owner."""
    seat = desk.seat()
    hold(desk)
    request = seat.commit(offset(1))
    await settle()
    tenure = desk.partition("group").tenure
    assert tenure is not None
    await desk.memory.claim(desk.partition("group").index)
    tenure.log.complete()  # type: ignore[attr-defined]
    await settle()
    assert request.error is ErrorCode.NOT_COORDINATOR
    assert desk.memory.records(desk.partition("group").index) == []


async def test_while_a_partition_loads_everybody_but_heartbeats_is_told_so(desk: Desk) -> None:
    """B54, kafka #4788, redpanda #12995; B14, Kafka's own source."""
    partition = desk.partition("group")
    seat = desk.seat()
    desk.memory.hold(partition.index)
    desk.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    seat.commit(offset(1))
    await settle()
    desk.memory.release(partition.index)
    await settle()
    desk.memory.hold(partition.index)
    while partition.state.value != "loading":
        await _look(seat)
    member = seat.member("a", member_id="a", generation=1)
    assert member.heartbeat().error is ErrorCode.NONE
    for request in (
        member.join(),
        member.sync(),
        seat.commit(),
        seat.leave(LeavingMember("a", None)),
        seat.describe_later(),
        seat.fetch_later(),
        seat.delete(),
    ):
        assert request.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, request.what
    assert desk.coordinator.list_groups().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    desk.memory.release(partition.index)
    await opened(partition)
    groups, error = desk.coordinator.list_groups()
    assert (list(groups), error) == ([], ErrorCode.NONE)


async def _look(seat: Seat) -> None:
    """While it backs off its answer is another one that clients retry."""
    request: Request = seat.describe_later()
    assert request.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await settle()
