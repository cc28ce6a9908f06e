"""Groups in numbers, as the running coordinator counts them."""

from collections.abc import AsyncIterator

import pytest

from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_server.observe.status import Census
from coordinator_server.runtime.status import CoordinatorStatus
from tests.support.coordinator_harness import CoordinatorHarness, settle


@pytest.fixture
async def desk() -> AsyncIterator[CoordinatorHarness]:
    desk = await CoordinatorHarness().start()
    yield desk
    await desk.stop()


async def test_all_groups_are_counted_a_few_at_a_time(desk: CoordinatorHarness) -> None:
    for number in range(150):
        group_client = desk.group_client(f"group-{number}")
        await group_client.settled(group_client.member("a"))
    status = CoordinatorStatus(desk.coordinator)
    steps = list(status.census())
    assert len(steps) == 3
    whole = Census.whole(status.census())
    assert whole == steps[-1]
    assert whole.groups.total() == 150
    assert whole.members["dynamic"] == whole.groups["Stable", "consumer"] > 0


async def test_nobody_there_is_a_census_too(desk: CoordinatorHarness) -> None:
    census = Census.whole(CoordinatorStatus(desk.coordinator).census())
    assert census == Census()


async def test_offsets_of_open_transactions_have_an_age(desk: CoordinatorHarness) -> None:
    group_client = desk.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    offsets = desk.coordinator.group("group")
    assert offsets is not None
    for order, at in enumerate((5_000, 3_000)):
        value = OffsetCommitValue(1, -1, "", at)
        offsets.offsets.put_pending(9, order, "orders", order, value)
    offsets.offsets.put("orders", 0, OffsetCommitValue(2, -1, "", 9_000))
    census = Census.whole(CoordinatorStatus(desk.coordinator).census())
    assert (census.offsets, census.pending_offsets, census.oldest_pending_ms) == (1, 2, 3_000)


async def test_a_group_in_numbers_tells_whom_it_waits_for(desk: CoordinatorHarness) -> None:
    status = CoordinatorStatus(desk.coordinator)
    assert status.gauges("nowhere") is None
    group_client = desk.group_client()
    a, b = group_client.member("a"), group_client.member("b")
    await group_client.settled(a)
    gauges = status.gauges("group")
    assert gauges is not None
    assert (gauges.state, gauges.generation, gauges.members) == ("Stable", 1, 1)
    assert gauges.waiting == {"join": 0, "sync": 0, "pending": 0}
    assert gauges.last_rebalance_ms == status.past("group")[-1].ended_ms
    b.join()
    await settle()
    gauges = status.gauges("group")
    assert gauges is not None
    assert (gauges.state, gauges.waiting["pending"]) == ("Stable", 1)
    b.join()
    await settle()
    gauges = status.gauges("group")
    assert gauges is not None
    assert gauges.state == "PreparingRebalance"
    assert gauges.waiting == {"join": 1, "sync": 0, "pending": 0}
    a.join()
    await settle()
    gauges = status.gauges("group")
    assert gauges is not None
    assert gauges.waiting == {"join": 0, "sync": 2, "pending": 0}


async def test_offsets_that_do_not_expire_are_not_looked_at_for_their_expiry(
    desk: CoordinatorHarness,
) -> None:
    group_client = desk.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    group = desk.coordinator.group("group")
    assert group is not None
    group.offsets.put("orders", 0, OffsetCommitValue(2, -1, "", 9_000))
    status = CoordinatorStatus(desk.coordinator)
    assert [each.expire_ms for each in status.each_offset("group")] == [None]
    assert list(status.each_offset("group", only_expiring=True)) == []
    a.leave()
    await settle()
    (expiring,) = status.each_offset("group", only_expiring=True)
    assert expiring == status.offsets("group")[0]
    assert expiring.expire_ms is not None
    assert list(status.each_offset("nowhere")) == []
