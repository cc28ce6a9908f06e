"""The memory budget for client data: who may go on, who waits, and who is closed."""

from dataclasses import dataclass, field

import pytest

from coordinator_server.net.memory import (
    AGED_MS,
    FULL_GRACE_MS,
    READING_GRACE_MS,
    RESERVED_FROM,
    SENDING_GRACE_MS,
    SMALL_RESPONSE,
    UNCOUNTED,
    UNLIMITED,
    WAITING_GRACE_MS,
    ConnectionMemory,
    MemoryBudget,
)

MIB = 1 << 20
LIMIT = 64 * MIB


@dataclass
class Peer:
    """A connection that holds memory of a budget."""

    budget: MemoryBudget
    resumed: int = 0
    closed: list[str] = field(default_factory=list)
    memory: ConnectionMemory = field(init=False)

    def __post_init__(self) -> None:
        self.memory = ConnectionMemory(self.budget, self.resume, self.closed.append)

    def resume(self) -> None:
        self.resumed += 1

    def announce(self, size: int, now_ms: int = 0) -> bool:
        """Whether a frame of that size may be read on."""
        self.memory.update(100, size, 0, now_ms)
        return not self.memory.is_paused

    def hold(self, size: int, now_ms: int = 0) -> None:
        self.memory.update(size, 0, 0, now_ms)

    def build(self, size: int, gone_on: list["Peer"]) -> bool:
        """Whether a response may be encoded on; if not, it is noted when it may be."""
        self.memory.update(size, 0, 0, 0, is_building=True)
        return self.memory.may_build(size, lambda: gone_on.append(self))

    def leave_unread(self, size: int, now_ms: int = 0) -> None:
        self.memory.update(0, 0, size, now_ms)


@pytest.fixture
def budget() -> MemoryBudget:
    return MemoryBudget(LIMIT)


def peers(budget: MemoryBudget, number: int) -> list[Peer]:
    return [Peer(budget) for _ in range(number)]


def test_all_that_connections_hold_is_counted_and_returned(budget: MemoryBudget) -> None:
    one, other = peers(budget, 2)
    one.hold(5 * MIB)
    other.leave_unread(3 * MIB)
    assert budget.used == 8 * MIB
    other.memory.update(MIB, 0, 3 * MIB, 0)
    assert (budget.used, other.memory.held) == (9 * MIB, 4 * MIB)
    other.leave_unread(0)
    one.memory.keep(0, 0)
    assert (budget.used, budget.peak, budget.holders) == (0, 9 * MIB, set())


def test_room_for_a_large_frame_and_its_objects_is_reserved_before_it_is_read(
    budget: MemoryBudget,
) -> None:
    (one,) = peers(budget, 1)
    assert one.announce(4 * MIB)
    assert budget.used == 8 * MIB
    one.hold(4 * MIB)
    assert budget.used == 4 * MIB


def test_a_small_frame_needs_no_reservation(budget: MemoryBudget) -> None:
    (one,) = peers(budget, 1)
    assert one.announce(RESERVED_FROM)
    assert budget.used == 100


def test_the_largest_frames_wait_first(budget: MemoryBudget) -> None:
    hog, large, small = peers(budget, 3)
    hog.announce(MIB)
    hog.memory.update(30 * MIB, MIB, 0, 0)
    assert not large.announce(16 * MIB)
    assert small.announce(MIB)
    assert budget.waiting == 1


def test_those_that_wait_go_on_in_order_when_memory_is_free_again(budget: MemoryBudget) -> None:
    first, second, third, fourth = peers(budget, 4)
    assert first.announce(14 * MIB)
    assert [each.announce(10 * MIB) for each in (second, third, fourth)] == [False] * 3
    first.memory.keep(0, 1)
    assert [each.resumed for each in (second, third, fourth)] == [1, 1, 0]
    assert budget.used == 40 * MIB + 100
    second.memory.keep(0, 2)
    assert fourth.resumed == 1


def test_a_frame_that_needs_more_than_the_threshold_is_read_when_nothing_else_is(
    budget: MemoryBudget,
) -> None:
    one, other = peers(budget, 2)
    assert one.announce(LIMIT)
    assert not other.announce(LIMIT)
    one.memory.keep(0, 0)
    assert other.resumed == 1


def test_smaller_frames_overtake_a_large_one_for_a_time_only(budget: MemoryBudget) -> None:
    busy, large, *small = peers(budget, 8)
    assert busy.announce(5 * MIB)
    assert not large.announce(25 * MIB)
    assert small[0].announce(MIB, AGED_MS - 1)
    assert [each.announce(MIB, AGED_MS) for each in small[1:3]] == [False, False]
    small[0].memory.keep(0, AGED_MS)
    assert (large.resumed, small[1].resumed) == (0, 0), "there is room for the second alone"
    busy.memory.keep(0, AGED_MS)
    assert (large.resumed, small[1].resumed, small[2].resumed) == (1, 1, 1)


def test_an_aged_frame_is_let_in_by_time_alone(budget: MemoryBudget) -> None:
    busy, large = peers(budget, 2)
    assert busy.announce(5 * MIB)
    assert not large.announce(20 * MIB)
    budget.sweep(AGED_MS - 1)
    assert large.resumed == 0
    budget.sweep(AGED_MS)
    assert large.resumed == 1


def test_who_sends_a_reserved_frame_slowly_is_closed_only_while_others_wait(
    budget: MemoryBudget,
) -> None:
    slow, other = peers(budget, 2)
    assert slow.announce(LIMIT // 4)
    late_ms = SENDING_GRACE_MS + LIMIT // 4 // 4_096 + 1
    budget.sweep(late_ms)
    assert slow.closed == []
    assert not other.announce(LIMIT // 4, late_ms)
    budget.sweep(late_ms)
    assert (slow.closed, other.closed) == (["slow_request"], [])
    slow.memory.keep(0, late_ms)
    assert other.resumed == 1


def test_a_frame_that_is_sent_fast_enough_is_not_closed(budget: MemoryBudget) -> None:
    fast, other = peers(budget, 2)
    assert fast.announce(LIMIT, 1_000)
    other.announce(MIB, 1_001)
    budget.sweep(1_000 + SENDING_GRACE_MS + LIMIT // 4_096)
    assert fast.closed == []


def test_who_does_not_read_is_closed_in_time_and_sooner_without_memory(
    budget: MemoryBudget,
) -> None:
    patient, (hog,) = Peer(budget), peers(budget, 1)
    patient.leave_unread(64_000)
    budget.sweep(READING_GRACE_MS + 1_000)
    assert patient.closed == []
    budget.sweep(READING_GRACE_MS + 1_001)
    assert patient.closed == ["not_reading"]
    patient.closed.clear()
    hog.hold(LIMIT)
    budget.sweep(FULL_GRACE_MS + 63)
    assert patient.closed == ["not_reading"]


def test_who_reads_now_and_then_is_not_closed(budget: MemoryBudget) -> None:
    (slow,) = peers(budget, 1)
    for second in range(0, 1_000, 50):
        slow.leave_unread(64_000, second * 1_000)
        budget.sweep(second * 1_000 + 49_000)
        slow.leave_unread(0, second * 1_000 + 49_000)
    assert slow.closed == []


def test_without_memory_who_holds_little_goes_on_and_all_others_wait(
    budget: MemoryBudget,
) -> None:
    hog, small, partial, asking = peers(budget, 4)
    hog.leave_unread(LIMIT)
    assert budget.is_full
    small.hold(UNCOUNTED)
    partial.hold(UNCOUNTED + 1)
    asking.memory.update(0, 0, 0, 0, must_wait=True)
    assert not small.memory.is_paused
    assert partial.memory.is_paused
    assert asking.memory.is_paused
    hog.leave_unread(0)
    assert (small.resumed, partial.resumed, asking.resumed) == (0, 1, 1)
    assert budget.waiting == 0


def test_incomplete_small_frames_that_fill_the_budget_do_not_block_each_other_for_ever(
    budget: MemoryBudget,
) -> None:
    size = LIMIT // 1_000
    senders = peers(budget, 1_100)
    for each in senders:
        each.hold(size)
    waiting = [each for each in senders if each.memory.is_paused]
    assert len(waiting) == 99
    for each in senders:
        each.hold(size, 1)
    budget.sweep(WAITING_GRACE_MS)
    assert not any(each.closed for each in senders), "not yet"
    budget.sweep(WAITING_GRACE_MS + 2)
    closed = [each for each in senders if each.closed]
    assert 0 < len(closed) < 200
    assert {why for each in closed for why in each.closed} == {"memory"}
    for each in closed:
        each.memory.keep(0, WAITING_GRACE_MS + 2)
    assert not budget.is_full
    assert sum(each.resumed for each in senders) >= 64


def test_who_has_no_large_frame_goes_on_however_many_of_these_wait(budget: MemoryBudget) -> None:
    busy, hog = peers(budget, 2)
    assert busy.announce(LIMIT // 4)
    senders = peers(budget, 200)
    assert not any(each.announce(LIMIT // 2) for each in senders)
    hog.leave_unread(LIMIT)
    (paused,) = peers(budget, 1)
    paused.hold(UNCOUNTED + 1)
    assert paused.memory.is_paused
    hog.leave_unread(0)
    assert paused.resumed == 1
    assert budget.waiting == len(senders)


def test_a_connection_that_is_closed_waits_for_nothing(budget: MemoryBudget) -> None:
    first, second = peers(budget, 2)
    first.announce(LIMIT)
    second.announce(LIMIT)
    second.memory.keep(0, 0)
    first.memory.keep(0, 0)
    assert (second.resumed, budget.waiting, budget.used) == (0, 0, 0)


def test_without_a_limit_nobody_ever_waits() -> None:
    budget = MemoryBudget(UNLIMITED)
    for each in peers(budget, 100):
        assert each.announce(1 << 31)
    assert not budget.is_full


def test_every_frame_is_read_in_the_end_whatever_the_sizes(budget: MemoryBudget) -> None:
    sizes = [LIMIT, MIB, LIMIT // 2, 70_000, LIMIT // 3, LIMIT, 5 * MIB] * 10
    waiting = peers(budget, len(sizes))
    reading = [each for each, size in zip(waiting, sizes, strict=True) if each.announce(size)]
    done, now_ms = 0, 0
    while reading:
        done += 1
        now_ms += 100
        reading.pop(0).memory.keep(0, now_ms)
        budget.sweep(now_ms)
        assert budget.used < 2 * LIMIT + MIB
        reading += [each for each in waiting if each.resumed and each not in reading]
        for each in reading:
            each.resumed = 0
    assert done == len(sizes)
    assert budget.used == 0


LARGE = SMALL_RESPONSE + 1


def test_one_large_response_is_encoded_at_a_time(budget: MemoryBudget) -> None:
    first, second, third = peers(budget, 3)
    gone_on: list[Peer] = []
    assert first.build(LARGE, gone_on)
    assert first.build(8 * MIB, gone_on)
    assert not second.build(LARGE, gone_on)
    assert not third.build(LARGE, gone_on)
    assert (budget.waiting, budget.used) == (2, 8 * MIB + 2 * LARGE)
    first.leave_unread(8 * MIB)
    assert gone_on == [second]
    assert second.build(9 * MIB, gone_on)
    second.hold(0)
    assert gone_on == [second, third]
    assert budget.waiting == 0


def test_small_responses_are_encoded_until_the_budget_is_full(budget: MemoryBudget) -> None:
    large, small, hog, late = peers(budget, 4)
    gone_on: list[Peer] = []
    assert large.build(LARGE, gone_on)
    assert small.build(SMALL_RESPONSE, gone_on)
    hog.leave_unread(LIMIT)
    assert not late.build(100, gone_on)
    assert large.build(2 * LARGE, gone_on)


def test_no_large_response_is_begun_unless_a_quarter_of_the_budget_is_free(
    budget: MemoryBudget,
) -> None:
    hog, other = peers(budget, 2)
    gone_on: list[Peer] = []
    hog.leave_unread(LIMIT * 3 // 4)
    assert not other.build(LARGE, gone_on)
    budget.sweep(0)
    assert not gone_on
    hog.leave_unread(LIMIT // 2)
    assert gone_on == [other]


def test_a_closed_connection_is_not_waited_for_and_does_not_wait(budget: MemoryBudget) -> None:
    builder, gone, waiting = peers(budget, 3)
    gone_on: list[Peer] = []
    assert builder.build(LARGE, gone_on)
    assert not gone.build(LARGE, gone_on)
    assert not waiting.build(LARGE, gone_on)
    gone.memory.keep(0, 0)
    builder.memory.keep(0, 0)
    assert gone_on == [waiting]


def test_a_response_goes_on_if_nobody_else_is_going_to_free_memory(budget: MemoryBudget) -> None:
    waiting = peers(budget, 4)
    gone_on: list[Peer] = []
    for each in waiting:
        each.hold(LIMIT // 4)
        assert not each.build(LIMIT // 4, gone_on) or each is waiting[0]
    waiting[0].hold(LIMIT // 4)
    assert not gone_on
    budget.sweep(0)
    assert gone_on == [waiting[1]]
