"""Work that goes on in steps, and answers that are made like that."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import part_encoder
from coordinator_protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from coordinator_server.api import streaming_response
from coordinator_server.api.chunked_work import AT_ONCE, LONGEST_MS, ChunkedWork
from coordinator_server.api.memory import GROWTH, Growth
from coordinator_server.api.streaming_response import StreamedArray
from coordinator_server.clock import ManualClock
from tests.support.fake_coordinator import HandledRequest


def must_not_fail(bug: BaseException) -> None:
    raise bug


class Steps:
    """Steps that are counted, each of which takes a while."""

    def __init__(self, clock: ManualClock, ms: int = 0) -> None:
        self.clock = clock
        self.ms = ms
        self.done: list[int] = []

    def do(self, number: int) -> None:
        self.clock.advance(self.ms)
        self.done.append(number)


async def test_steps_are_done_some_at_a_time() -> None:
    clock = ManualClock()
    steps = Steps(clock)
    ChunkedWork(clock, must_not_fail).add(map(steps.do, range(2 * AT_ONCE)))
    assert len(steps.done) == AT_ONCE
    await asyncio.sleep(0)
    assert steps.done == list(range(2 * AT_ONCE))


async def test_others_have_their_turn_after_a_few_milliseconds() -> None:
    clock = ManualClock()
    steps = Steps(clock, ms=LONGEST_MS - 1)
    ChunkedWork(clock, must_not_fail).add(map(steps.do, range(4)))
    assert len(steps.done) == 2
    await asyncio.sleep(0)
    assert len(steps.done) == 4


def test_what_a_step_adds_comes_before_the_steps_that_are_left() -> None:
    work = ChunkedWork(ManualClock(), must_not_fail)
    done: list[str] = []

    def step(name: str) -> None:
        done.append(name)
        if len(name) == 1:
            work.add(map(step, [name + "1", name + "2"]))

    work.add(map(step, "ab"))
    assert done == ["a", "a1", "a2", "b", "b1", "b2"]


def test_a_step_that_raises_is_told_and_is_the_last() -> None:
    bugs: list[BaseException] = []
    work = ChunkedWork(ManualClock(), bugs.append)
    done: list[int] = []

    def steps() -> Iterator[None]:
        yield
        raise ValueError("a bug")

    work.add(steps())
    work.add(map(done.append, [1]))
    assert [str(bug) for bug in bugs] == ["a bug"]
    assert done == [1], "it is of use again"


def answer_of(count: int) -> tuple[HandledRequest, StreamedArray, Callable[[str], bytes]]:
    """An answer to DeleteGroups, and what makes an element of it."""
    call = HandledRequest(2, api_key=ApiKey.DELETE_GROUPS)
    write = part_encoder(DeletableGroupResult, call.api_key, call.version)
    work = ChunkedWork(ManualClock(), call.failed)
    answer = StreamedArray(call, DeleteGroupsResponse(), count, work)
    return call, answer, lambda name: write(DeletableGroupResult(group_id=name))


async def test_an_answer_has_its_elements_in_order_whatever_order_they_come_in() -> None:
    count = 300
    call, answer, write = answer_of(count)
    names = [f"{number}-{'x' * number}" for number in range(count)]
    for number in reversed(range(count)):
        assert call.is_parked
        answer.put(number, write(names[number]))
    assert [result.group_id for result in call.response.results] == names


@pytest.mark.interpreted
def test_an_answer_that_gets_too_large_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming_response, "MOST_BYTES", 1_000)
    call, answer, write = answer_of(20)
    for number in range(20):
        answer.put(number, write("x" * 99))
    assert call.disconnected == "an answer of more than 1000 bytes"
    assert call.is_parked


@pytest.mark.parametrize("error", [asyncio.CancelledError(), MemoryError()])
async def test_a_step_that_raises_anything_is_told_and_later_steps_can_be_taken(
    error: BaseException,
) -> None:
    told: list[BaseException] = []
    done: list[int] = []

    def steps() -> Iterator[None]:
        yield
        raise error

    work = ChunkedWork(ManualClock(), told.append)
    work.add(steps())
    assert told == [error]
    work.add(map(done.append, [1]))
    assert done == [1]


async def test_steps_that_cannot_go_on_later_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[BaseException] = []

    def long_work() -> None:
        raise MemoryError

    monkeypatch.setattr("coordinator_server.api.chunked_work.long_work", long_work)
    work = ChunkedWork(ManualClock(), told.append)
    work.add(iter(range(2 * AT_ONCE)))
    assert [type(error) for error in told] == [MemoryError]


async def test_a_response_that_grows_waits_for_memory_and_goes_on() -> None:
    allowed: list[Callable[[], None]] = []
    sizes: list[int] = []

    def may_grow(size: int, go_on: Callable[[], None]) -> bool:
        sizes.append(size)
        allowed.append(go_on)
        return len(sizes) != 2

    work = ChunkedWork(ManualClock(), must_not_fail, may_grow)
    done: list[int] = []

    def step(number: int) -> None:
        done.append(number)
        work.size += GROWTH // 2

    work.add(map(step, range(5)))
    assert (sizes, done) == ([0, GROWTH], [0, 1])
    await asyncio.sleep(0)
    assert done == [0, 1]
    allowed[-1]()
    await asyncio.sleep(0)
    assert (sizes, done) == ([0, GROWTH, 2 * GROWTH], [0, 1, 2, 3, 4])


async def test_growth_waits_until_there_is_memory() -> None:
    call = HandledRequest(version=0)
    allowed: list[Callable[[], None]] = []

    def may_grow(_size: int, go_on: Callable[[], None]) -> bool:
        allowed.append(go_on)
        return False

    call.may_grow = may_grow  # type: ignore[method-assign, assignment]
    growth = Growth(call)
    assert not growth.is_due(GROWTH - 1)
    await growth.grown(GROWTH - 1)
    assert not allowed
    waiting = asyncio.create_task(growth.grown(GROWTH))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not growth.is_due(2 * GROWTH - 1)
    allowed[0]()
    await waiting
    allowed[0]()
