"""The expiry sweep: when it comes, what it believes, and what comes in between."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.rebalance_events import OffsetsRemoved, OffsetsRemovedReason
from coordinator_server.runtime.sweeper import GROUPS_PER_TURN, LONGEST_CLOCK_JUMP_MS, Sweeper
from tests.support.coordinator_harness import SWEEP_MS, CoordinatorHarness, settle
from tests.support.group_harness import offset

RETENTION_MS = 604_800_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def offsets_of(
    harness: CoordinatorHarness, group_id: str = "group"
) -> dict[tuple[str, int], int]:
    found = await harness.group_client(group_id).fetched()
    return {place: each.offset for place, each in found.items()}


def ignore(_event: str, **_fields: object) -> None:
    """Nobody reads the reports."""


async def commit(harness: CoordinatorHarness, group_id: str = "group", number: int = 1) -> None:
    request = harness.group_client(group_id).commit(offset(number))
    await settle()
    assert request.error is ErrorCode.NONE


async def test_offsets_expire_by_themselves_when_their_time_has_come(
    harness: CoordinatorHarness,
) -> None:
    """B45, KAFKA-8338. At the first sweep after it, with tombstones and a word about it."""
    harness.sweeper.start()
    await commit(harness)
    harness.timers.advance(RETENTION_MS - 1)
    await settle()
    assert await offsets_of(harness) == {("orders", 0): 1}
    harness.timers.advance(SWEEP_MS)
    await settle()
    assert await offsets_of(harness) == {}
    assert list(harness.coordinator.groups()) == []
    assert [o for o in harness.observed if isinstance(o, OffsetsRemoved)] == [
        OffsetsRemoved("group", OffsetsRemovedReason.EXPIRED, 1)
    ]
    assert harness.live_state_is_what_the_log_says()


@pytest.mark.parametrize("days", [-1, 1, -10, 10])
async def test_a_sweep_after_a_jump_of_the_wall_clock_is_left_out(
    harness: CoordinatorHarness, days: int
) -> None:
    """B22, KAFKA-4051. It is counted and reported, and the next sweep believes the clock."""
    harness.sweeper.start()
    await commit(harness)
    harness.clock.jumped = days * DAY_MS
    harness.timers.advance(SWEEP_MS)
    await settle()
    assert await offsets_of(harness) == {("orders", 0): 1}
    assert harness.dependencies.counters.sweeps_skipped == 1
    assert ("sweep_skipped", {"clock_jump_ms": days * DAY_MS}) in harness.reports
    harness.timers.advance(SWEEP_MS)
    await settle()
    assert harness.dependencies.counters.sweeps_skipped == 1
    expired = days == 10
    assert (await offsets_of(harness) == {}) is expired


async def test_a_clock_that_was_wrong_for_a_moment_costs_nobody_an_offset(
    harness: CoordinatorHarness,
) -> None:
    """B22, KAFKA-4051. It jumps, the sweep comes, and it jumps back."""
    harness.sweeper.start()
    await commit(harness)
    for jumped in (20 * DAY_MS, 0, -20 * DAY_MS, 0):
        harness.clock.jumped = jumped
        harness.timers.advance(SWEEP_MS)
        await settle()
        assert await offsets_of(harness) == {("orders", 0): 1}
    assert harness.dependencies.counters.sweeps_skipped == 4


@pytest.mark.parametrize(
    ("jump", "skipped"), [(LONGEST_CLOCK_JUMP_MS, 0), (LONGEST_CLOCK_JUMP_MS + 1, 1)]
)
async def test_a_jump_of_up_to_an_hour_is_believed(
    harness: CoordinatorHarness, jump: int, skipped: int
) -> None:
    """B22, KAFKA-4051. Daylight saving, set by hand, must not hold anything up."""
    harness.sweeper.start()
    harness.clock.jumped = jump
    harness.timers.advance(SWEEP_MS)
    assert harness.dependencies.counters.sweeps_skipped == skipped


async def test_the_sweep_comes_as_often_as_it_is_configured_however_long_that_is(
    harness: CoordinatorHarness,
) -> None:
    """B20, KAFKA-13126. `offsets.retention.check.interval.ms` is a number of 64 bits."""
    for interval_ms in (30 * DAY_MS, 2**63 - 1):
        rare = Sweeper(harness.coordinator, harness.dependencies, interval_ms, ignore)
        rare.start()
        await commit(harness)
        harness.clock.advance(RETENTION_MS)
        rare._ring()  # a timer of the event loop rings after a day at the latest
        await settle()
        assert await offsets_of(harness) == {("orders", 0): 1}
        rare.stop()


async def test_a_commit_beside_the_sweep_survives_it(harness: CoordinatorHarness) -> None:
    """B40, redpanda #31483. Expiry decides and writes in one turn; nothing comes between."""
    names = [f"group {n}" for n in range(2 * GROUPS_PER_TURN + 10)]
    for name in names:
        harness.group_client(name).commit(offset(1))
    await settle()
    harness.sweeper.start()
    harness.clock.advance(RETENTION_MS)
    harness.sweeper.sweep()
    await settle(2)  # the sweep has begun, and is not through
    before = len(list(harness.coordinator.groups()))
    assert 0 < before < len(names)
    requests = [harness.group_client(name).commit(offset(2)) for name in names]
    await settle()
    assert {r.error for r in requests} == {ErrorCode.NONE}
    assert [(await offsets_of(harness, name)) for name in names] == [{("orders", 0): 2}] * len(
        names
    )
    assert harness.live_state_is_what_the_log_says()


async def test_what_a_member_commits_beside_the_sweep_keeps_its_group(
    harness: CoordinatorHarness,
) -> None:
    """B41, KAFKA-4399. A group that is joined is not swept away."""
    group_client = harness.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    a.leave()
    await settle()
    harness.sweeper.start()
    harness.clock.advance(RETENTION_MS)
    again = group_client.member("again")
    again.join()
    await settle()
    harness.sweeper.sweep()
    await settle()
    again.join()
    await group_client.settled(again)
    assert (group_client.state, again.generation) == ("Stable", 3)
