"""One mailbox per group: turns in order, inline or not, and timers no more than needed."""

import asyncio
from typing import Any

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.events import Event, Heartbeat
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.ticket import CallbackTicket, Ticket
from tests.support.group_harness import SESSION_MS, GroupRequests, Request, offset
from tests.unit.runtime.conftest import WRITE_TIMEOUT_MS, Office, settle
from tests.unit.runtime.test_holding import stable


class Chain(Request):
    """A request whose answer makes its client send the next one at once."""

    follow: Any = None

    def answered(self, result: Any) -> None:
        super().answered(result)
        if self.follow is not None:
            self.follow()


def ask(group: GroupRequests, request: Request) -> None:
    group.send(Heartbeat(request, "x", None, 1), request)


async def test_what_arrives_during_a_turn_has_its_own_turn_later(office: Office) -> None:
    group = office.group()
    first, second = Chain("first"), Request("second")
    first.follow = lambda: ask(group, second)
    ask(group, first)
    assert first.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert second.is_parked
    await settle()
    assert second.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert office.tenure.actors == {}


async def test_a_client_that_never_waits_does_not_make_the_stack_grow(office: Office) -> None:
    group = office.group()
    answers = 0

    def again() -> None:
        nonlocal answers
        answers += 1
        if answers < 3_000:
            request = Chain("next")
            request.follow = again
            ask(group, request)

    again()
    while answers < 3_000:
        await settle()


async def test_a_backlog_lets_others_have_their_turns(office: Office) -> None:
    group = office.group()
    first = Chain("first")
    backlog = [Request(f"{i}") for i in range(200)]

    def follow() -> None:
        for request in backlog:
            ask(group, request)

    first.follow = follow
    ask(group, first)
    await asyncio.sleep(0)
    assert any(request.is_parked for request in backlog)
    await settle()
    assert not any(request.is_parked for request in backlog)


async def script(office: Office) -> list[Any]:
    """The same requests, and everything they led to."""
    results: list[Any] = []

    def note(name: str) -> Ticket:
        return CallbackTicket(lambda result: results.append((name, result)))

    group = office.group()
    members = [group.member(name, name) for name in "abc"]
    for member in members:
        member.join()
    await settle()
    await office.timers.advance(0)
    for member in members:
        actor_event = Heartbeat(note(member.name), member.member_id, member.instance, 1)
        office.coordinator.submit("group", actor_event)
    requests = [members[1].sync(), members[0].sync({m: m.name.encode() for m in members})]
    requests += [members[1].commit(offset(3)), members[2].leave(), group.ask_offsets()]
    await settle()
    await office.timers.advance(SESSION_MS)
    return [*results, *(request.result for request in requests), *office.observed]


async def test_inline_turns_and_the_mailbox_lead_to_the_same(monkeypatch: Any) -> None:
    inline = await Office().open()
    expected = await script(inline)

    def always_enqueue(self: GroupActor, event: Event) -> None:
        self._enqueue(event)

    monkeypatch.setattr(GroupActor, "post", always_enqueue)
    queued = await Office().open()
    assert await script(queued) == expected
    assert queued.storage.records(0) == inline.storage.records(0)
    for office in (inline, queued):
        await office.coordinator.stop()


async def test_a_group_that_does_not_exist_is_not_remembered(office: Office) -> None:
    for i in range(10):
        office.group(f"g{i}").member("a", member_id="x").heartbeat()
    assert office.tenure.actors == {}


async def test_a_deleted_group_is_forgotten_when_that_is_durable(office: Office) -> None:
    office.group().commit()
    await settle()
    office.hold()
    request = office.group().delete()
    await settle()
    assert list(office.tenure.actors) == ["group"]
    await office.release()
    assert request.error is ErrorCode.NONE
    assert office.tenure.actors == {}


async def test_heartbeats_arm_no_timers(office: Office) -> None:
    member = await stable(office)
    armed = office.timers.armed
    for _ in range(3):
        await office.timers.advance(1_000)
        member.heartbeat()
    assert office.timers.armed == armed


async def test_an_earlier_deadline_arms_the_timer_anew(office: Office) -> None:
    await stable(office, session=60_000)
    pending = office.group().member("b", session=6_000)
    pending.join()
    assert office.clock.monotonic_ms() + 6_000 in office.timers.armed
    await office.timers.advance(6_000)
    assert pending.join().error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_silent_member_expires_by_its_groups_timer(office: Office) -> None:
    member = await stable(office)
    await office.timers.advance(SESSION_MS)
    assert member.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
    await office.timers.advance(WRITE_TIMEOUT_MS)
    assert office.timers.armed == []
