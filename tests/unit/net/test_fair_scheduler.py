"""Who goes on in a turn of the event loop, and for how long."""

import asyncio
import socket
import weakref
from itertools import pairwise

import pytest

from coordinator_server.clock import ManualClock
from coordinator_server.loop.batching import SoonInLoop
from coordinator_server.net.connection_parking import AWAKE
from coordinator_server.net.fair_scheduler import (
    CROWDED,
    LEAST_SHARE,
    LONGEST_MS,
    LOOKS_EVERY,
    MOST_PER_TURN,
    MOST_SHARE,
    SHARED,
    FairScheduler,
    Schedulable,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def turns(clock: ManualClock) -> FairScheduler:
    return FairScheduler(SoonInLoop(), clock)


class FailingClock(ManualClock):
    """Raises once, when it is told to."""

    fails = False

    def monotonic_ms(self) -> int:
        if self.fails:
            self.fails = False
            raise MemoryError
        return super().monotonic_ms()


class Counting(Schedulable):
    """Stands for a connection that takes its time."""

    def __init__(self, clock: ManualClock, takes_ms: int = 0, *, is_answered: bool = True) -> None:
        self.flushed = 0
        self.rests = False
        self._clock = clock
        self._takes_ms = takes_ms
        self._is_answered = is_answered

    def flush(self) -> bool:
        self.flushed += 1
        self._clock.advance(self._takes_ms)
        return self._is_answered

    def rest(self) -> int:
        self.rests = True
        ours, client = socket.socketpair()
        for each in (ours, client):
            weakref.finalize(self, each.close)
        return ours.fileno()

    def wake_up(self) -> None:
        raise AssertionError("nothing has come")

    def failed(self, error: BaseException) -> None:
        raise error


class Failing(Counting):
    """A connection that raises."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.errors: list[str] = []

    def flush(self) -> bool:
        super().flush()
        raise RuntimeError("planted")

    def failed(self, error: BaseException) -> None:
        self.errors.append(repr(error))


async def flushed_by_turns(turns: FairScheduler, connections: list[Counting]) -> list[int]:
    """How many have gone on, turn by turn, until all have."""
    for each in connections:
        turns.add(each)
        turns.add(each)
    done = [0]
    while done[-1] < len(connections):
        await asyncio.sleep(0)
        done.append(sum(each.flushed for each in connections))
        assert len(done) < 2_000, done
    assert {each.flushed for each in connections} == {1}
    return [after - before for before, after in pairwise(done)]


async def test_thousands_of_connections_are_flushed_in_several_turns_of_the_loop(
    turns: FairScheduler, clock: ManualClock
) -> None:
    by_turns = await flushed_by_turns(turns, [Counting(clock) for _ in range(1_000)])
    assert max(by_turns) <= MOST_PER_TURN, by_turns


async def test_connections_that_take_long_have_few_of_them_in_a_turn(
    turns: FairScheduler, clock: ManualClock
) -> None:
    by_turns = await flushed_by_turns(turns, [Counting(clock, takes_ms=2) for _ in range(20)])
    assert max(by_turns) == LOOKS_EVERY, by_turns


async def test_who_asks_again_while_it_goes_on_has_to_get_in_line(turns: FairScheduler) -> None:
    order: list[str] = []

    class Again(Counting):
        def __init__(self, name: str) -> None:
            super().__init__(ManualClock())
            self._name = name

        def flush(self) -> bool:
            order.append(self._name)
            if len(order) < 4:
                turns.add(self)
            return super().flush()

    turns.add(Again("a"))
    turns.add(Again("b"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert order == ["a", "b", "a", "b", "a"]


async def test_an_error_of_the_turn_itself_leaves_the_rest_for_the_next_turn() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    clock = FailingClock()
    turns, connection = FairScheduler(SoonInLoop(), clock), Counting(clock)
    turns.add(connection)
    clock.fails = True
    await asyncio.sleep(0)
    assert (clock.fails, connection.flushed) == (False, 0)
    await asyncio.sleep(0)
    assert connection.flushed == 1


async def test_requests_have_time_until_the_turn_has_lasted_long_enough(
    turns: FairScheduler,
) -> None:
    who = Counting(ManualClock())
    assert turns.has_time(who, 1_000)
    assert turns.has_time(who, 1_000 + LONGEST_MS - 1)
    assert not turns.has_time(who, 1_000 + LONGEST_MS)
    await asyncio.sleep(0)
    assert turns.has_time(who, 1_000 + LONGEST_MS)


async def test_of_thousands_that_are_answered_together_most_rest(
    turns: FairScheduler, clock: ManualClock
) -> None:
    crowd = [Counting(clock) for _ in range(AWAKE + CROWDED)]
    await flushed_by_turns(turns, crowd)
    assert [each.rests for each in crowd] == [False] * AWAKE + [True] * CROWDED


async def test_a_connection_whose_request_is_in_progress_does_not_rest(
    turns: FairScheduler, clock: ManualClock
) -> None:
    crowd = [Counting(clock, is_answered=False) for _ in range(AWAKE + CROWDED)]
    await flushed_by_turns(turns, crowd)
    assert not any(each.rests for each in crowd)


async def test_few_that_are_answered_together_do_not_rest(
    turns: FairScheduler, clock: ManualClock
) -> None:
    for _ in range(2 + AWAKE // (CROWDED - 1)):
        few = [Counting(clock) for _ in range(CROWDED - 1)]
        await flushed_by_turns(turns, few)
        assert not any(each.rests for each in few)


async def test_a_crowd_of_which_everybody_is_heard_or_closed_does_not_rest(
    turns: FairScheduler, clock: ManualClock
) -> None:
    crowd = [Counting(clock) for _ in range(AWAKE)]
    await flushed_by_turns(turns, crowd)
    for each in crowd[1:]:
        turns.has_time(each, 1_000)
    turns.forget(crowd[0])
    next_crowd = [Counting(clock) for _ in range(AWAKE)]
    await flushed_by_turns(turns, next_crowd)
    assert not any(each.rests for each in crowd + next_crowd)


async def test_a_connection_that_raises_ends_and_the_others_have_their_turn(
    turns: FairScheduler, clock: ManualClock
) -> None:
    failing, others = Failing(clock), [Counting(clock) for _ in range(3)]
    for each in (others[0], failing, *others[1:]):
        turns.add(each)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [each.flushed for each in others] == [1, 1, 1]
    assert failing.errors == ["RuntimeError('planted')"]
    turns.add(others[0])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert others[0].flushed == 2


async def test_the_more_connections_wait_the_fewer_requests_each_serves_in_its_turn(
    turns: FairScheduler, clock: ManualClock
) -> None:
    shares: dict[int, set[int]] = {}

    class Sharing(Counting):
        def flush(self) -> bool:
            shares.setdefault(number, set()).add(turns.share)
            return super().flush()

    for number in (1, 15, 200):
        await flushed_by_turns(turns, [Sharing(clock) for _ in range(number)])
    assert shares == {1: {MOST_SHARE}, 15: {SHARED // 16}, 200: {LEAST_SHARE}}


async def test_clients_that_have_gone_are_served_in_the_time_that_others_leave(
    turns: FairScheduler, clock: ManualClock
) -> None:
    order: list[str] = []

    class Named(Counting):
        def __init__(self, name: str, takes_ms: int) -> None:
            super().__init__(clock, takes_ms)
            self.name = name

        def flush(self) -> bool:
            order.append(self.name)
            return super().flush()

    for number in range(3):
        turns.add_last(Named("gone", takes_ms=2))
        turns.add(Named(f"here{number}", takes_ms=0))
    await asyncio.sleep(0)
    assert order == ["here0", "here1", "here2", "gone", "gone"]
    turns.add_last(Named("gone", takes_ms=2))
    for number in range(LOOKS_EVERY):
        turns.add(Named(f"more{number}", takes_ms=1))
    await asyncio.sleep(0)
    assert order[5:] == ["more0", "more1", "more2", "more3", "gone"], "one goes on in any case"
