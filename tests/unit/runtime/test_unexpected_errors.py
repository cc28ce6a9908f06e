"""Whatever raises inside the runtime: others are served, everybody is answered, the log decides."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.broadcast_replies import JoinedAll
from coordinator_server.group.effects import Described, Fetched
from coordinator_server.group.events import (
    CommitOffsets,
    Describe,
    FetchOffsets,
    Heartbeat,
    Tick,
)
from coordinator_server.group.group import Group
from coordinator_server.group.rebalance_events import Refused
from coordinator_server.loop.batching import SoonInLoop
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.runtime.ticket import CallbackTicket
from tests.support.classic import classic_of
from tests.support.group_harness import Request, offset
from tests.support.offsets import topics_of
from tests.unit.runtime.conftest import Office, settle
from tests.unit.runtime.test_holding import stable
from tests.unit.runtime.test_tenures import everybody_waits

pytestmark = pytest.mark.interpreted

ERRORS = [
    RuntimeError("bug"),
    MemoryError(),
    RecursionError(),
    OSError(5, "I/O"),
    asyncio.CancelledError(),
]


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_args: object, **_named: object) -> Any:
        raise error

    return fail


def once(error: BaseException, then: Callable[..., Any]) -> Callable[..., Any]:
    left = [error]

    def fail(*args: Any, **named: Any) -> Any:
        if left:
            raise left.pop()
        return then(*args, **named)

    return fail


def ask(office: Office, group_id: str, make: Callable[[CallbackTicket], Any]) -> Request:
    request = Request("?")
    office.coordinator.submit(group_id, make(CallbackTicket(request.answered)))
    return request


async def serves(office: Office, group_id: str = "other") -> bool:
    """Whether a group of the partition is served, now or when it has been loaded anew."""
    for _ in range(10):
        request = ask(office, group_id, lambda token: FetchOffsets(token, None, False))
        await settle()
        if isinstance(request.result, Fetched):
            return True
        await office.timers.advance(200)
    return False


@pytest.mark.parametrize("error", ERRORS)
async def test_a_refusal_that_cannot_be_reported_is_answered_and_the_next_one_too(
    office: Office, error: BaseException
) -> None:
    member = await stable(office, "group")
    dependencies = replace(office.dependencies, observe=raising(error), fold_refusal=raising(error))
    tenure = office.tenure
    tenure._dependencies = tenure._sender._dependencies = dependencies
    old = ask(office, "group", lambda token: Heartbeat(token, member.member_id, None, 0))
    assert old.error is ErrorCode.ILLEGAL_GENERATION
    assert office.dependencies.counters.observer_failures == 1
    assert isinstance(ask(office, "group", Describe).result, Described)


async def test_a_date_behind_the_year_9999_is_reported_as_the_last_one(office: Office) -> None:
    member = await stable(office, "group")
    classic = classic_of(office.tenure.actors["group"].group)
    assert classic is not None
    for since, year in ((10**18, "9999-12-30"), (-(10**18), "0001-01-02")):
        classic.generation_since = since
        before = len(office.observed)
        ask(office, "group", lambda token: Heartbeat(token, member.member_id, None, 0))
        (told,) = [o for o in office.observed[before:] if isinstance(o, Refused)]
        assert since == -(10**18) or year in told.detail


@pytest.mark.parametrize("error", ERRORS)
async def test_an_answer_that_cannot_be_delivered_keeps_nobody_from_theirs(
    office: Office, error: BaseException
) -> None:
    office.hold()
    broken = CallbackTicket(raising(error), raising(error))
    first = CommitOffsets(broken, "", None, -1, topics_of([offset(1)]), -1, True)
    office.coordinator.submit("group", first)
    second = office.group().commit()
    await office.release()
    assert second.error is ErrorCode.NONE
    assert not broken.is_pending
    assert office.state() is PartitionState.ACTIVE


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("where", ["handle", "carry_out", "context", "next_deadline"])
async def test_a_turn_that_raises_while_the_mailbox_drains_answers_all_and_loads_anew(
    office: Office, monkeypatch: Any, where: str, error: BaseException
) -> None:
    await stable(office, "group")
    tenure, actor = office.tenure, office.tenure.actors["group"]
    actor._busy = True
    waiting = [ask(office, "group", Describe) for _ in range(3)]
    actor._busy = False
    target = {
        "handle": Group,
        "next_deadline": Group,
        "carry_out": type(tenure),
        "context": type(tenure),
    }[where]
    monkeypatch.setattr(target, where, once(error, getattr(target, where)))
    await settle()
    assert tenure.ended
    assert [request.is_parked for request in waiting] == [False] * 3
    assert office.bugs[0][0] == "group"
    assert await serves(office, "group")
    assert await serves(office)


@pytest.mark.parametrize("error", ERRORS)
async def test_a_mailbox_task_that_ends_too_early_ends_the_tenure(
    office: Office, monkeypatch: Any, error: BaseException
) -> None:
    await stable(office, "group")
    actor = office.tenure.actors["group"]
    real = asyncio.sleep

    async def sleep(delay: float, *rest: Any) -> Any:
        if asyncio.current_task() is actor._task:
            raise error
        return await real(delay, *rest)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    actor._busy = True
    first = ask(office, "group", Describe)
    actor._busy = False
    for _ in range(5):
        await real(0)
    late = ask(office, "group", Describe)
    for _ in range(20):
        await real(0)
    assert not first.is_parked
    assert not late.is_parked
    monkeypatch.undo()
    assert await serves(office, "group")


@pytest.mark.parametrize("error", ERRORS)
async def test_heartbeats_commits_and_fetches_that_raise_on_the_quick_way_end_the_tenure(
    office: Office, monkeypatch: Any, error: BaseException
) -> None:
    member = await stable(office, "group")
    for name, call in (
        ("renew", lambda: office.coordinator.renew("group", member.member_id, None, 1, 1)),
        (
            "fetched",
            lambda: office.coordinator.fetched("group", FetchOffsets(None, None, False)),
        ),
    ):
        tenure = office.tenure
        with monkeypatch.context() as patched:
            patched.setattr(Group, name, raising(error))
            assert not call()
        assert tenure.ended
        assert await serves(office, "group")


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    "step", ["on_end", "generations", "abort", "report_parked", "stop", "log_bug", "observe"]
)
async def test_an_end_of_which_one_step_raises_answers_everybody_once(
    office: Office, monkeypatch: Any, step: str, error: BaseException
) -> None:
    waiting = await everybody_waits(office)
    tenure = office.tenure
    fail = raising(error)
    match step:
        case "on_end":
            monkeypatch.setattr(tenure, "_on_end", fail)
        case "generations":
            monkeypatch.setattr(tenure._generations, "ended", fail)
        case "abort":
            monkeypatch.setattr(Group, "abort", fail)
        case "report_parked":
            monkeypatch.setattr("coordinator_server.runtime.tenure.report_parked", fail)
        case "stop":
            monkeypatch.setattr(GroupActor, "stop", fail)
        case "log_bug":
            tenure._dependencies = replace(office.dependencies, log_bug=fail)
        case "observe":
            tenure._dependencies = replace(office.dependencies, observe=fail)
    tenure.turn_failed("syncing", Tick(), None, RuntimeError("bug"))
    assert tenure.ended
    assert [name for name, request in waiting.items() if request.is_parked] == []
    assert office.dependencies.counters.observer_failures > 0


@pytest.mark.parametrize("error", ERRORS)
async def test_replies_to_all_that_cannot_be_made_are_refused(
    office: Office, monkeypatch: Any, error: BaseException
) -> None:
    requests = [office.group().member(f"m{n}").join() for n in range(20)]
    monkeypatch.setattr(JoinedAll, "reply", once(error, JoinedAll.reply))
    await settle()
    await office.timers.advance(400_000)
    assert not any(request.is_parked for request in requests)
    assert await serves(office)


@pytest.mark.parametrize("error", ERRORS)
async def test_an_append_whose_time_cannot_be_measured_ends_the_tenure(
    office: Office, monkeypatch: Any, error: BaseException
) -> None:
    office.hold()
    held = office.group().commit()
    await settle()
    histogram = office.dependencies.counters.log_append_seconds
    monkeypatch.setattr(type(histogram), "observe", once(error, type(histogram).observe))
    await office.release()
    assert not held.is_parked
    assert await serves(office)


@pytest.mark.parametrize("error", ERRORS)
async def test_a_load_that_raises_anything_is_tried_again(
    office: Office, error: BaseException
) -> None:
    office.storage.claim_errors.append(error)  # type: ignore[arg-type]
    office.tenure.turn_failed("group", Tick(), None, RuntimeError("bug"))
    await office.timers.advance(1_000)
    assert await serves(office)
    assert office.partition.failure == ""


async def test_a_partition_whose_report_fails_comes_back(monkeypatch: Any) -> None:
    office = await Office().open()
    monkeypatch.setattr(office.partition, "_report", raising(OSError("disk full")))
    office.storage.claim_errors.append(OSError("gone"))
    office.tenure.turn_failed("group", Tick(), None, RuntimeError("bug"))
    await office.timers.advance(2_000)
    assert await serves(office)


async def test_a_stop_of_one_partition_that_fails_does_not_keep_the_storage_open(
    monkeypatch: Any,
) -> None:
    office = await Office(partitions=2).open()
    stopped: list[bool] = []

    async def stop() -> None:
        stopped.append(True)

    monkeypatch.setattr(office.storage, "stop", stop)
    monkeypatch.setattr(office.coordinator.partitions[0], "stop", raising_later(OSError("x")))
    await office.coordinator.stop()
    assert stopped == [True]
    assert office.coordinator.partitions[1].state is PartitionState.CLOSED


def raising_later(error: BaseException) -> Callable[[], Any]:
    async def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", ERRORS)
async def test_a_loop_that_takes_no_call_once_is_asked_again(
    monkeypatch: Any, error: BaseException
) -> None:
    soon, called = SoonInLoop(), list[str]()
    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_soon", raising(error))
        with pytest.raises(type(error)):
            soon(lambda: called.append("lost"))
    soon(lambda: called.append("next"))
    await settle()
    assert called == ["next"]


@pytest.mark.parametrize("error", ERRORS)
async def test_a_deferred_call_that_raises_keeps_no_other_from_its_turn(
    error: BaseException,
) -> None:
    soon, called = SoonInLoop(), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    soon(raising(error))
    soon(lambda: called.append("second"))
    await settle()
    soon(lambda: called.append("third"))
    await settle()
    assert called == ["second", "third"]
