"""No answer leaves before the records it could have seen are durable."""

import asyncio
from itertools import pairwise
from typing import Any, ClassVar

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Fetched
from coordinator_server.group.events import Heartbeat
from coordinator_server.group.rebalance_events import RebalanceEvent, RebalanceStarted
from coordinator_server.runtime.failures import Failure
from tests.support.group_harness import SESSION_MS, Member, Request, offset
from tests.support.offsets import fetched_offsets
from tests.unit.runtime.conftest import Office, settle


async def stable(office: Office, group: str = "group", **how: object) -> Member:
    """The only member of a Stable group."""
    member = office.group(group).member("a", "one", **how)
    member.join()
    await settle()
    await office.timers.advance(0)
    member.sync({member: b"all"})
    await settle()
    assert member.heartbeat().error is ErrorCode.NONE
    return member


async def test_an_answer_waits_until_its_record_is_durable(office: Office) -> None:
    office.hold()
    request = office.group().commit()
    await settle()
    assert request.is_parked
    await office.release()
    assert request.error is ErrorCode.NONE


async def test_a_read_waits_for_the_groups_own_records(office: Office) -> None:
    office.hold()
    office.group().commit(offset(7))
    request = office.group().ask_offsets()
    await settle()
    assert request.is_parked
    await office.release()
    assert isinstance(request.result, Fetched)
    ((_, found),) = fetched_offsets(request.result)
    assert found.offset == 7


async def test_other_groups_are_not_held_up(office: Office) -> None:
    member = await stable(office)
    office.hold()
    held = office.group("other").commit()
    await settle()
    assert member.heartbeat().error is ErrorCode.NONE
    assert office.group("third").ask_offsets().error is ErrorCode.NONE
    assert held.is_parked


async def test_a_group_with_nothing_in_flight_answers_at_once(office: Office) -> None:
    office.group().commit()
    await settle()
    assert isinstance(office.group().ask_offsets().result, Fetched)


async def test_a_refusal_waits_too_for_it_may_rest_on_what_is_not_durable(office: Office) -> None:
    office.hold()
    office.group().commit()
    request = office.group().commit(generation=3, member_id="x")
    assert request.is_parked
    await office.release()
    assert request.error is ErrorCode.UNKNOWN_MEMBER_ID


class Noted(Request):
    """A request that says when it is answered."""

    order: ClassVar[list[str]] = []

    def answered(self, result: Any) -> None:
        super().answered(result)
        self.order.append(self.what)


async def test_answers_leave_in_the_order_of_their_requests(office: Office) -> None:
    office.hold()
    office.group().commit()
    Noted.order.clear()
    for name in ("first", "second", "third"):
        request = Noted(name)
        office.group().send(Heartbeat(request, "x", None, 1), request)
    assert Noted.order == []
    await office.release()
    assert Noted.order == ["first", "second", "third"]


async def test_a_later_append_holds_back_only_what_came_after_it(office: Office) -> None:
    office.hold()
    first = office.group().commit(offset(1))
    await settle()
    log = office.storage._logs[0]
    second = office.group().commit(offset(2))
    await settle()
    assert len(office.storage.appends) == 2
    records, then = log._in_flight.popleft()
    then(office.storage.store(0, records))
    await settle()
    assert (first.error, second.is_parked) == (ErrorCode.NONE, True)
    await office.release()
    assert second.error is ErrorCode.NONE


async def test_records_of_one_turn_of_the_loop_are_one_append(office: Office) -> None:
    requests = [office.group(f"g{i}").commit(offset(1), offset(2, partition=1)) for i in range(5)]
    await settle()
    assert {request.error for request in requests} == {ErrorCode.NONE}
    assert [len(records) for records in office.storage.appends] == [10]
    await settle()
    office.group().commit()
    await settle()
    assert [len(records) for records in office.storage.appends] == [10, 1]


async def test_a_session_starts_anew_when_a_held_answer_leaves(office: Office) -> None:
    member = await stable(office, session=4 * SESSION_MS)
    member.session = SESSION_MS
    office.hold()
    member.join()
    request = member.sync({member: b"all"})
    await settle()
    assert request.is_parked
    await office.timers.advance(4_000)
    await office.release()
    assert request.assignment == b"all"
    await office.timers.advance(SESSION_MS - 1)
    assert member.heartbeat().error is ErrorCode.NONE


async def test_a_rebalances_start_is_told_at_once_and_its_end_when_it_is_durable(
    office: Office,
) -> None:
    office.hold()
    member = office.group().member("a", "one")
    member.join()
    assert [type(o) for o in office.observed] == [RebalanceStarted]
    await office.release()
    await office.timers.advance(0)
    office.hold()
    member.sync({})
    await settle()
    assert [type(o) for o in office.observed] == [RebalanceStarted]
    await office.release()
    assert [type(o) for o in office.observed] == [RebalanceStarted, RebalanceEvent]


async def test_commits_and_refusals_are_counted_when_they_are_answered(office: Office) -> None:
    counters = office.dependencies.counters
    office.hold()
    office.group().commit(offset(1), offset(2, partition=1), offset(3, metadata="m" * 5_000))
    assert counters.offset_commits == 0
    await office.release()
    assert counters.offset_commits == 2
    office.group().member("a", member_id="x").heartbeat()
    assert counters.refusals["member_unknown"] == 1


async def test_a_turns_records_stay_together() -> None:
    office = await Office(max_append_bytes=1_000).open()
    for group in "abcd":
        office.group(group).commit(*(offset(1, partition=i) for i in range(6)))
    await settle()
    assert [len(records) for records in office.storage.appends] == [18, 6]
    await office.coordinator.stop()


async def test_tombstones_too_many_for_one_append_go_in_several() -> None:
    office = await Office(max_append_bytes=1_000).open()
    for i in range(40):
        office.group().commit(offset(1, partition=i))
        await settle()
    before = len(office.storage.appends)
    request = office.group().delete()
    await settle()
    assert request.error is ErrorCode.NONE
    assert len(office.storage.appends) > before + 1
    assert office.coordinator.group("group") is None
    assert sum(map(len, office.storage.appends[before:])) == 41
    await office.coordinator.stop()


async def large_rebalance(office: Office) -> list[Request]:
    """JoinGroups of 601 members, which the last one completes."""
    first = await stable(office)
    others = [office.group("group").member(f"m{number}") for number in range(600)]
    for member in others:
        member.join()
    return [*(member.join() for member in others), first.join()]


async def test_hundreds_of_answers_leave_in_several_turns_of_the_loop(office: Office) -> None:
    joins = await large_rebalance(office)
    left = [sum(not join.is_parked for join in joins)]
    assert left == [0], "the turn that made them was long enough"
    while left[-1] < len(joins):
        await asyncio.sleep(0)
        left.append(sum(not join.is_parked for join in joins))
        assert len(left) < 20, left
    assert max(after - before for before, after in pairwise([0, *left])) <= 256, left
    assert {join.joined.generation for join in joins} == {2}


async def test_hundreds_of_held_answers_leave_in_several_turns_of_the_loop(office: Office) -> None:
    joins = await large_rebalance(office)
    await settle()
    members = [join.member for join in joins if join.member is not None]
    office.hold()
    leader = next(m for m in members if m.member_id == joins[0].joined.leader)
    syncs = [leader.sync(dict.fromkeys(members, b"some"))]
    await settle()
    syncs += [member.sync() for member in members if member is not leader]
    office.storage.release(0)
    left = [0, sum(not sync.is_parked for sync in syncs)]
    while left[-1] < len(syncs):
        await asyncio.sleep(0)
        left.append(sum(not sync.is_parked for sync in syncs))
        assert len(left) < 20, left
    assert max(after - before for before, after in pairwise(left)) <= 257, left
    assert {sync.assignment for sync in syncs} == {b"some"}


async def test_answers_on_their_way_arrive_when_the_tenure_ends(office: Office) -> None:
    joins = await large_rebalance(office)
    assert any(join.is_parked for join in joins)
    office.tenure.end(Failure.TENURE_ENDED)
    assert {join.joined.generation for join in joins} == {2}
