"""A partition between its tenures: loading, failing, trying again, changing hands."""

import asyncio
import gc
from typing import Any

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group import group as machine
from coordinator_server.group.effects import DONE, Fetched, Result, Rule
from coordinator_server.group.events import FetchOffsets, Heartbeat, Loaded
from coordinator_server.runtime.failures import Failure, answer_to
from coordinator_server.runtime.partition import (
    FIRST_BACKOFF_MS,
    LONGEST_BACKOFF_MS,
    Partition,
    PartitionState,
)
from coordinator_server.storage.base import CorruptLog, Fenced, LogRecord
from tests.support.group_harness import Request
from tests.unit.runtime.conftest import Office, close, settle
from tests.unit.runtime.test_holding import stable

_P = PartitionState


def ask_all(office: Office) -> dict[str, Request]:
    """One request of each kind that has an answer of its own."""
    group = office.group()
    member = group.member("a", member_id="x")
    return {
        "join": member.join(),
        "sync": member.sync(),
        "heartbeat": member.heartbeat(),
        "leave": member.leave(),
        "commit": group.commit(),
        "fetch": group.ask_offsets(),
        "delete": group.delete(),
    }


async def test_a_partition_that_is_not_ours_says_so() -> None:
    office = Office()
    assert {r.error for r in ask_all(office).values()} == {ErrorCode.NOT_COORDINATOR}
    assert office.group().commit().rule is Rule.NOT_OWNED


async def test_while_loading_members_may_go_on_and_everybody_else_waits() -> None:
    office = Office()
    office.hold()
    await office.coordinator.start()
    await settle()
    assert office.state() is _P.LOADING
    answers = {name: request.error for name, request in ask_all(office).items()}
    assert answers.pop("heartbeat") is ErrorCode.NONE
    assert set(answers.values()) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert office.coordinator.list_groups().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ready = [office.coordinator.is_ready]
    await office.release()
    assert office.state() is _P.ACTIVE
    assert [*ready, office.coordinator.is_ready] == [False, True]
    await close(office)


async def test_a_partition_serves_only_after_the_log_has_taken_an_append() -> None:
    office = Office()
    office.storage.fail_next(0, OSError("read-only"))
    await office.open()
    assert office.state() is _P.FAILED
    (report,) = office.reports
    assert report[0] == "partition_load_failed"
    assert report[1]["error"] == "OSError: read-only"
    await office.timers.advance(2 * FIRST_BACKOFF_MS)
    assert office.state() is _P.ACTIVE
    await close(office)


async def test_a_failed_partition_says_so_and_tries_again() -> None:
    office = Office()
    office.storage.claim_errors = [OSError("disk")] * 3
    await office.open()
    assert office.state() is _P.FAILED
    answers = {name: request.error for name, request in ask_all(office).items()}
    assert answers.pop("fetch") is ErrorCode.NOT_COORDINATOR
    assert set(answers.values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    await office.timers.advance(1_000)
    assert office.state() is _P.ACTIVE
    assert [fields["retry_ms"] for _, fields in office.reports] == [100, 200, 400]
    await close(office)


async def test_the_time_between_tries_is_stretched_by_chance() -> None:
    office = Office(jitter=lambda: 1.2)
    office.storage.claim_errors = [OSError("disk")]
    await office.open()
    await office.timers.advance(FIRST_BACKOFF_MS * 12 // 10 - 1)
    assert office.state() is _P.FAILED
    await office.timers.advance(1)
    assert office.state() is _P.ACTIVE
    await close(office)


async def test_the_time_between_tries_grows_to_a_bound_and_shrinks_with_success() -> None:
    office = Office()
    office.storage.claim_errors = [OSError("disk")] * 12
    await office.open()
    await office.timers.advance(600_000)
    waits = [fields["retry_ms"] for _, fields in office.reports]
    assert waits[-1] == LONGEST_BACKOFF_MS
    assert waits == sorted(waits)
    assert office.state() is _P.ACTIVE
    office.hold()
    office.group().commit()
    await settle()
    await office.fail(OSError("disk"))
    assert len(office.timers.armed) == 1
    assert office.timers.armed[0] - office.clock.monotonic_ms() <= 1.2 * FIRST_BACKOFF_MS
    await close(office)


async def test_a_corrupt_log_is_not_served_and_named(monkeypatch: Any) -> None:
    office = Office()
    office.storage.store(0, [LogRecord(b"\0\1\0\5gr", b"", 0)])
    await office.open()
    assert office.state() is _P.FAILED
    assert "offset 0" in office.reports[0][1]["error"]
    assert office.reports[0][1]["error"].startswith(CorruptLog.__name__)
    assert office.reports[0][1]["repair"].endswith("--data <log.dirs> --partition 0")
    await close(office)


async def test_after_a_failure_the_group_goes_on_from_its_log(office: Office) -> None:
    member = await stable(office)
    office.hold()
    lost = member.commit()
    await settle()
    await office.fail(OSError("disk"))
    assert lost.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await office.timers.advance(2 * FIRST_BACKOFF_MS)
    assert member.heartbeat().error is ErrorCode.NONE
    fetched = office.group().ask_offsets()
    assert fetched.result == Fetched([])
    assert office.storage.closed == [1]


async def test_a_tenure_that_ends_when_its_groups_go_on_is_followed_by_another(
    office: Office, monkeypatch: Any
) -> None:
    member = await stable(office)
    unheard: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, problem: unheard.append(problem))

    def loaded(*_turn: object) -> None:
        monkeypatch.undo()
        raise ZeroDivisionError

    monkeypatch.setitem(machine._HANDLERS, Loaded, loaded)
    office.group("unlucky").commit()
    await office.fail(OSError("disk"))
    await office.timers.advance(FIRST_BACKOFF_MS)
    assert office.state() is _P.FAILED
    await office.timers.advance(FIRST_BACKOFF_MS)
    assert office.state() is _P.ACTIVE
    assert member.heartbeat().error is ErrorCode.NONE
    gc.collect()
    assert unheard == []


async def test_a_partition_fenced_while_it_opens_is_closed() -> None:
    office = Office()
    office.storage.claim_errors = [Fenced("epoch 7")]
    await office.open()
    assert office.state() is _P.CLOSED
    assert office.group().commit().error is ErrorCode.NOT_COORDINATOR


async def test_a_partition_fenced_by_its_first_append_closes_its_log() -> None:
    office = Office()
    office.storage.fail_next(0, Fenced("epoch 7"))
    await office.open()
    assert office.state() is _P.CLOSED
    assert office.storage.closed == [1]


async def test_a_partition_that_comes_back_is_loaded_again(office: Office) -> None:
    member = await stable(office)
    await office.partition.lost()
    assert member.heartbeat().error is ErrorCode.NOT_COORDINATOR
    office.partition.assigned()
    await settle()
    assert member.heartbeat().error is ErrorCode.NONE
    assert office.tenure.log.epoch == 2


async def test_being_assigned_twice_changes_nothing(office: Office) -> None:
    tenure = office.tenure
    office.partition.assigned()
    await settle()
    assert office.tenure is tenure


async def test_a_partition_lost_while_it_waits_to_try_again_does_not_try_again() -> None:
    office = Office()
    office.storage.claim_errors = [OSError("disk")]
    await office.open()
    await office.partition.lost()
    assert office.timers.armed == []
    assert office.state() is _P.CLOSED


async def test_a_tenure_that_is_not_current_any_more_serves_nobody(office: Office) -> None:
    await office.storage.claim(0)
    request = office.group().ask_offsets()
    assert (request.error, request.rule) == (ErrorCode.NOT_COORDINATOR, Rule.TENURE_ENDED)


async def test_a_log_that_cannot_be_closed_is_reported(office: Office, monkeypatch: Any) -> None:
    async def fail() -> None:
        raise OSError("disk")

    monkeypatch.setattr(office.tenure.log, "close", fail)
    await office.partition.lost()
    assert office.reports[-1] == ("partition_close_failed", {"partition": 0, "error": "disk"})


async def test_a_stopped_partition_is_not_opened_again(office: Office) -> None:
    await office.coordinator.stop()
    office.partition.assigned()
    await settle()
    assert office.state() is _P.CLOSED


@pytest.mark.parametrize(
    ("state", "following"),
    [(_P.INITIAL, _P.ACTIVE), (_P.ACTIVE, _P.LOADING), (_P.LOADING, _P.INITIAL)],
)
def test_a_partition_cannot_change_into_just_any_state(
    state: PartitionState, following: PartitionState
) -> None:
    office = Office()
    partition = Partition(3, office.storage, office.dependencies, print)
    partition.state = state
    with pytest.raises(RuntimeError, match="partition 3"):
        partition._transition(following)


HEARTBEAT = Heartbeat(None, "", None, 1)
FETCH = FetchOffsets(None, None, require_stable=False)


@pytest.mark.parametrize(
    ("failure", "asked", "error"),
    [
        (Failure.LOADING, None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (Failure.LOADING, FETCH, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (Failure.NOT_OWNED, HEARTBEAT, ErrorCode.NOT_COORDINATOR),
        (Failure.NOT_AVAILABLE, HEARTBEAT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (Failure.NOT_AVAILABLE, FETCH, ErrorCode.NOT_COORDINATOR),
        (Failure.TENURE_ENDED, None, ErrorCode.NOT_COORDINATOR),
        (Failure.APPEND_FAILED, None, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (Failure.APPEND_FAILED, Fetched(()), ErrorCode.NOT_COORDINATOR),
        (Failure.TIMED_OUT, DONE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (Failure.TIMED_OUT, Fetched(()), ErrorCode.NOT_COORDINATOR),
        (Failure.SHUTTING_DOWN, None, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_every_failure_has_its_error(failure: Failure, asked: Any, error: ErrorCode) -> None:
    answer: Result = answer_to(failure, asked)
    assert getattr(answer, "error", None) is error


def test_a_heartbeat_while_loading_is_no_failure() -> None:
    assert answer_to(Failure.LOADING, HEARTBEAT) is DONE


async def test_several_partitions_are_served_apart() -> None:
    office = await Office(partitions=3).open()
    names = [f"g{i}" for i in range(9)]
    for name in names:
        office.group(name).commit()
    await settle()
    assert {g.group_id for g in office.coordinator.list_groups().groups} == set(names)
    by_partition = [len(office.storage.records(i)) for i in range(3)]
    assert sum(by_partition) == 9
    failing = office.coordinator.partition_for("g0")
    office.storage.fail_next(failing, OSError("disk"))
    requests = {name: office.group(name).commit() for name in names}
    await settle()
    for name, request in requests.items():
        failed = office.coordinator.partition_for(name) == failing
        assert (request.error is ErrorCode.NONE) != failed
    assert office.coordinator.partition_states() == {_P.ACTIVE: 2, _P.FAILED: 1}
    assert not office.coordinator.is_ready
    assert office.coordinator.group("g0") is None
    assert "g0" not in {g.group_id for g in office.coordinator.groups()}
    await close(office)


async def test_groups_are_listed_with_type_and_state(office: Office) -> None:
    await stable(office, "working")
    office.group("simple").commit()
    await settle()
    assert sorted(office.coordinator.list_groups().groups) == [
        ("simple", "", "Empty", "classic"),
        ("working", "consumer", "Stable", "classic"),
    ]
    found = office.coordinator.group("working")
    assert found is not None
    assert found.group_id == "working"
    assert office.coordinator.group("other") is None


async def test_a_partition_taken_away_is_given_up_at_once(office: Office) -> None:
    office.group().member("b").join()
    parked = office.group().member("a", "one").join()
    await settle()
    await asyncio.wait_for(office.coordinator._on_lost(0), timeout=10)
    assert parked.error is ErrorCode.NOT_COORDINATOR
