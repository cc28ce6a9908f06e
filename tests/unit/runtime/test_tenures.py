"""The one final step of a tenure: nobody is left waiting, nobody is answered twice."""

import asyncio
from typing import Any

import pytest

from coordinator_protocol.batch_builder import NewBatch
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.history import RebalanceHistoryKey
from coordinator_protocol.records import GroupMetadataKey, decode_key, encode_key
from coordinator_server.group import group as machine
from coordinator_server.group.effects import DONE, Rule
from coordinator_server.group.events import CommitOffsets, Heartbeat, Tick
from coordinator_server.group.rebalance_events import Outcome, RebalanceEvent
from coordinator_server.runtime.failures import Failure
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.runtime.ticket import CallbackTicket
from coordinator_server.storage.base import Fenced, OutcomeUnknown
from tests.support.group_harness import Request, offset
from tests.support.offsets import topics_of
from tests.unit.runtime.conftest import WRITE_TIMEOUT_MS, Office, settle
from tests.unit.runtime.test_holding import stable


async def everybody_waits(office: Office) -> dict[str, Request]:
    """A parked Join, a parked Sync, and answers held behind an append in flight."""
    a, b = (office.group("syncing").member(name, session=60_000) for name in "ab")
    await stable(office, "joining", session=60_000)
    for member in (a, b, a, b):
        member.join()
        await settle()
    await office.timers.advance(0)
    office.group("joining").member("d", "four").join()
    waiting = {"sync": b.sync()}
    waiting["join"] = office.group("joining").member("e", "five").join()
    office.hold()
    waiting["commit"] = office.group("committing").commit()
    waiting["fetch"] = office.group("committing").ask_offsets()
    await settle()
    assert all(request.is_parked for request in waiting.values())
    return waiting


@pytest.mark.parametrize("error", [OutcomeUnknown("?"), OSError("disk"), ValueError("bug")])
async def test_a_failed_append_ends_the_tenure_and_answers_everybody(
    office: Office, error: Exception
) -> None:
    waiting = await everybody_waits(office)
    tenure = office.tenure
    await office.fail(error)
    assert tenure.ended
    assert office.state() is PartitionState.FAILED
    assert {name: request.error for name, request in waiting.items()} == {
        "sync": ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "join": ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "commit": ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "fetch": ErrorCode.NOT_COORDINATOR,
    }
    assert {request.rule for request in waiting.values()} == {Rule.TENURE_ENDED}


async def test_a_fenced_append_sends_everybody_to_the_new_owner(office: Office) -> None:
    waiting = await everybody_waits(office)
    await office.fail(Fenced("epoch 2"))
    assert office.state() is PartitionState.CLOSED
    assert {request.error for request in waiting.values()} == {ErrorCode.NOT_COORDINATOR}
    assert office.group().commit().error is ErrorCode.NOT_COORDINATOR
    assert office.storage.closed == [1]


async def test_an_append_refused_at_once_counts_as_failed(office: Office, monkeypatch: Any) -> None:
    def refuse(_batch: object, _then: object) -> None:
        raise OSError("closed")

    monkeypatch.setattr(office.storage._logs[0], "append", refuse)
    first = office.group().commit()
    second = office.group("other").commit()
    await settle()
    assert first.error is second.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_an_append_refused_in_the_middle_of_a_turn_answers_that_turn_too(
    monkeypatch: Any,
) -> None:
    office = await Office(max_append_bytes=1_000).open()

    def refuse(_batch: object, _then: object) -> None:
        raise OSError("closed")

    monkeypatch.setattr(office.storage._logs[0], "append", refuse)
    six = [offset(1, partition=i) for i in range(6)]
    commits = [office.group(group).commit(*six) for group in "abcd"]
    assert {commit.error for commit in commits} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    await office.coordinator.stop()


async def test_a_log_that_does_not_answer_in_time_ends_the_tenure(office: Office) -> None:
    waiting = await everybody_waits(office)
    await office.timers.advance(WRITE_TIMEOUT_MS - 1)
    assert waiting["commit"].is_parked
    await office.timers.advance(1)
    assert waiting["commit"].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting["commit"].rule is waiting["fetch"].rule is Rule.TIMED_OUT
    assert waiting["fetch"].error is ErrorCode.NOT_COORDINATOR
    assert office.state() is PartitionState.FAILED
    assert "the log does not answer" in office.reports[-1][1]["error"]


async def test_each_append_has_its_own_time(office: Office) -> None:
    office.hold()
    first = office.group().commit()
    await settle()
    await office.timers.advance(3_000)
    await office.release()
    office.hold()
    second = office.group().commit()
    await settle()
    await office.timers.advance(WRITE_TIMEOUT_MS - 1)
    assert (first.error, second.is_parked) == (ErrorCode.NONE, True)
    await office.timers.advance(1)
    assert second.rule is Rule.TIMED_OUT


async def test_an_append_of_the_turn_in_which_the_log_is_looked_at_has_its_time_too(
    office: Office,
) -> None:
    office.group("a").commit()
    await settle()
    await office.timers.advance(WRITE_TIMEOUT_MS - 1)
    office.hold()
    # It is still in the open batch when the timer of the first one rings.
    second = office.group("b").commit()
    await office.timers.advance(1)
    assert second.is_parked
    await office.timers.advance(WRITE_TIMEOUT_MS)
    assert second.rule is Rule.TIMED_OUT


async def test_an_idle_log_times_nobody_out(office: Office) -> None:
    office.group().commit()
    await settle()
    await office.timers.advance(3 * WRITE_TIMEOUT_MS)
    assert office.state() is PartitionState.ACTIVE
    assert office.timers.armed == []


async def test_what_comes_durable_after_all_is_there_after_the_next_load(office: Office) -> None:
    office.hold()
    request = office.group().commit(offset(7))
    await settle()
    await office.timers.advance(WRITE_TIMEOUT_MS)
    assert request.rule is Rule.TIMED_OUT
    await office.release()
    await office.timers.advance(200)
    assert office.state() is PartitionState.ACTIVE
    assert len(office.storage.records(0)) == 1
    assert office.coordinator.group("group") is not None


async def test_what_a_broker_left_of_a_group_it_deleted_is_gone_after_the_load(
    office: Office,
) -> None:
    member = office.group().member("a", "one")
    member.join()
    await settle()
    await office.timers.advance(0)
    member.sync({})
    await settle()
    deleted = NewBatch(office.clock.wall_ms())
    deleted.add(encode_key(GroupMetadataKey("group")), None)
    office.storage.store(0, deleted.decoded())
    office.storage.fail_next(0, OSError("disk"))
    office.group("other").commit()
    await settle()
    await office.timers.advance(5_000)
    assert office.state() is PartitionState.ACTIVE
    assert "group" not in office.tenure.actors
    keys = [(decode_key(r.key or b""), r.value is None) for r in office.storage.records(0)]
    history = [is_gone for key, is_gone in keys if isinstance(key, RebalanceHistoryKey)]
    assert history == [False, True]


async def test_a_rebalance_whose_end_did_not_become_durable_is_told_as_aborted(
    office: Office,
) -> None:
    member = office.group().member("a", "one")
    member.join()
    await settle()
    await office.timers.advance(0)
    office.hold()
    member.sync({})
    office.group("other").member("b", "two").join()
    await settle()
    await office.fail(OSError("disk"))
    ends = [o for o in office.observed if isinstance(o, RebalanceEvent)]
    assert [(o.group_id, o.outcome) for o in ends] == [
        ("group", Outcome.ABORTED),
        ("other", Outcome.ABORTED),
    ]


# --- bugs ---


async def test_a_static_member_that_returned_in_a_rebalance_that_is_lost_is_fenced_by_its_past(
    office: Office,
) -> None:
    """A limitation: docs/limitations.md. Started once more it is let in."""
    member = await stable(office)
    office.group().member("b", "two").enter()
    await settle()
    returned = member.restarted()
    returned.join()
    await settle()
    assert returned.generation == 2
    office.group("other").commit()
    await office.fail(OSError("disk"))
    await office.timers.advance(200)
    assert returned.heartbeat().error is ErrorCode.FENCED_INSTANCE_ID
    once_more = member.restarted().join()
    await settle()
    assert once_more.joined.generation == 1


async def test_a_bug_in_a_turn_ends_the_tenure_and_the_log_decides(
    office: Office, monkeypatch: Any
) -> None:
    waiting = await everybody_waits(office)

    def fail(*_: object) -> None:
        raise AttributeError("a bug")

    monkeypatch.setitem(machine._HANDLERS, Heartbeat, fail)
    waiting["heartbeat"] = office.group("joining").member("a", member_id="x").heartbeat()
    assert {r.error for name, r in waiting.items() if name != "fetch"} == {
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    }
    assert waiting["fetch"].error is ErrorCode.NOT_COORDINATOR
    ((group_id, bug),) = office.bugs
    assert (group_id, type(bug.__cause__)) == ("joining", AttributeError)


async def test_a_bug_in_a_backlog_answers_what_is_left_of_it(
    office: Office, monkeypatch: Any
) -> None:
    def fail(*_: object) -> None:
        raise AttributeError("a bug")

    group = office.group()
    await stable(office)
    actor = office.tenure.actors["group"]
    actor._busy = True  # as during a turn
    member = group.member("a", member_id="x")
    before, bad, after = group.ask_offsets(), member.heartbeat(), group.ask_offsets()
    actor._busy = False
    monkeypatch.setitem(machine._HANDLERS, Heartbeat, fail)
    await settle()
    assert before.error is ErrorCode.NONE
    assert bad.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert after.error is ErrorCode.NOT_COORDINATOR


async def test_records_that_cannot_be_written_end_the_tenure(office: Office) -> None:
    member = await stable(office)
    bad = offset(2**63)
    request = member.commit(bad)
    assert request.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(office.bugs) == 1
    await settle()
    await office.timers.advance(200)
    assert office.state() is PartitionState.ACTIVE
    assert member.heartbeat().error is ErrorCode.NONE


class Undeliverable(Request):
    """A request whose client cannot be told anything."""

    def answered(self, result: Any) -> None:
        raise ZeroDivisionError


async def test_an_answer_that_cannot_be_delivered_costs_nobody_elses(office: Office) -> None:
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: said.append(context))
    office.hold()
    first = office.group().commit()
    topics = topics_of([offset(1)])
    commit = CommitOffsets(None, "", None, -1, topics, -1, knows_group_id_not_found=True)
    office.group().send(commit, Undeliverable("commit"))
    last = office.group().commit()
    await office.release()
    assert first.error is last.error is ErrorCode.NONE
    assert [type(context["exception"]) for context in said] == [ZeroDivisionError]


def test_a_request_answered_twice_is_a_bug() -> None:
    results: list[object] = []
    ticket = CallbackTicket(results.append)
    pending = [ticket.is_pending]
    ticket.resolve(DONE)
    assert [*pending, ticket.is_pending] == [True, False]
    with pytest.raises(RuntimeError, match="answered twice"):
        ticket.resolve(DONE)
    assert results == [DONE]


# --- planned ends ---


async def test_a_stop_answers_the_parked_and_flushes_the_rest(office: Office) -> None:
    waiting = await everybody_waits(office)
    stopping = asyncio.ensure_future(office.coordinator.stop())
    await settle()
    assert waiting["join"].error is waiting["sync"].error is ErrorCode.NOT_COORDINATOR
    assert waiting["join"].rule is Rule.SHUTTING_DOWN
    assert waiting["commit"].is_parked
    assert office.group("late").commit().error is ErrorCode.NOT_COORDINATOR
    await office.release()
    await stopping
    assert waiting["commit"].error is ErrorCode.NONE
    assert office.state() is PartitionState.CLOSED
    assert office.storage.closed == [1]
    assert office.timers.armed == []


async def test_a_stop_keeps_the_members(office: Office) -> None:
    member = await stable(office)
    await office.coordinator.stop()
    await office.partition.lost()
    again = Office()
    again.storage._records = office.storage._records
    await again.open()
    member.requests = again.group()
    assert member.heartbeat().error is ErrorCode.NONE
    await again.coordinator.stop()


async def test_a_stop_does_not_wait_for_a_log_that_never_answers(office: Office) -> None:
    waiting = await everybody_waits(office)
    stopping = asyncio.ensure_future(office.coordinator.stop())
    await settle()
    await office.timers.advance(WRITE_TIMEOUT_MS)
    assert waiting["commit"].rule is Rule.TIMED_OUT
    await stopping


async def test_events_that_wait_behind_others_are_answered_too(office: Office) -> None:
    group = office.group()
    held = group.commit()
    actor = office.tenure.actors["group"]
    actor._busy = True  # as during a turn
    waiting = [group.ask_offsets() for _ in range(3)]
    actor.post(Tick())
    actor._busy = False
    office.tenure.end(Failure.SHUTTING_DOWN)
    assert held.error is ErrorCode.NOT_COORDINATOR
    assert {request.error for request in waiting} == {ErrorCode.NOT_COORDINATOR}


async def test_a_tenure_ends_once(office: Office) -> None:
    waiting = await everybody_waits(office)
    tenure = office.tenure
    tenure.end(Failure.SHUTTING_DOWN)
    tenure.end(Failure.SHUTTING_DOWN)
    assert {request.error for request in waiting.values()} == {ErrorCode.NOT_COORDINATOR}
