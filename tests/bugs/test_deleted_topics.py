"""Topics that are deleted while other things happen to the offsets in them."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.rebalance_events import OffsetsRemoved, OffsetsRemovedReason
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.storage.base import OutcomeUnknown
from tests.support.desk import Desk, active, opened, settle
from tests.support.story import offset


async def offsets_of(desk: Desk, group_id: str = "group") -> dict[tuple[str, int], int]:
    found = await desk.seat(group_id).fetched()
    return {place: each.offset for place, each in found.items()}


async def test_every_group_forgets_a_deleted_topic_and_only_that(desk: Desk) -> None:
    """B52, franz-go #1411. In all partitions, and for good."""
    names = [f"group {n}" for n in range(30)]
    for name in names:
        desk.seat(name).commit(offset(1), offset(1, 5), offset(2, topic="other"))
    await settle()
    desk.sweeper.topic_deleted("orders")
    desk.sweeper.topic_deleted("never seen")
    await settle()
    assert [await offsets_of(desk, name) for name in names] == [{("other", 0): 2}] * 30
    assert desk.live_state_is_what_the_log_says()
    told = [o for o in desk.observed if isinstance(o, OffsetsRemoved)]
    assert {(o.reason, o.offsets) for o in told} == {(OffsetsRemovedReason.TOPIC_DELETED, 2)}
    assert len(told) == 30


async def test_a_commit_to_the_successor_of_a_deleted_topic_is_kept(desk: Desk) -> None:
    """B52, franz-go #1411. It comes as soon as a client can know that there is one."""
    seats = [desk.seat(f"group {n}") for n in range(500)]
    for seat in seats:
        seat.commit(offset(1))
    await settle()
    desk.sweeper.topic_deleted("orders")
    await settle(1)
    for seat in seats:
        seat.commit(offset(9))
    await settle()
    assert {(await offsets_of(desk, seat.group_id))["orders", 0] for seat in seats} == {9}


async def test_a_topic_that_is_deleted_while_a_partition_loads_is_forgotten_too(
    desk: Desk,
) -> None:
    """B52, franz-go #1411. Else the offsets of a restart would outlive it."""
    desk.seat().commit(offset(1), offset(2, topic="other"))
    await settle()
    partition = desk.partition("group")
    successor = Desk(desk.memory)
    desk.memory.hold(partition.index)
    await successor.coordinator.start()
    await settle()
    loading = successor.partition("group")
    assert loading.state is PartitionState.LOADING
    successor.sweeper.topic_deleted("orders")
    await settle()
    desk.memory.release(partition.index)
    await opened(loading)
    assert await offsets_of(successor) == {("other", 0): 2}
    await settle()
    assert successor.live_state_is_what_the_log_says()
    await successor.stop()


@pytest.mark.parametrize("fails", [1, 3])
async def test_a_topic_is_forgotten_even_if_the_log_fails_at_that_moment(
    desk: Desk, fails: int
) -> None:
    """B52, franz-go #1411. However often; then its successor's offsets are left alone."""
    desk.seat().commit(offset(1), offset(2, topic="other"))
    await settle()
    partition = desk.partition("group")
    for _ in range(fails):
        desk.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    desk.sweeper.topic_deleted("orders")
    await settle()
    await active(partition)
    await settle()
    assert await offsets_of(desk) == {("other", 0): 2}
    assert desk.live_state_is_what_the_log_says()

    request = desk.seat().commit(offset(3))
    await settle()
    assert request.error is ErrorCode.NONE
    desk.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    desk.seat("tosti").commit(offset(1))
    await settle()
    await active(partition)
    assert await offsets_of(desk) == {("orders", 0): 3, ("other", 0): 2}


async def test_a_topic_deleted_twice_is_forgotten_twice(desk: Desk) -> None:
    """B52, franz-go #1411. The first time may still be under way."""
    desk.seat().commit(offset(1))
    await settle()
    index = desk.partition("group").index
    desk.memory.hold(index)
    desk.sweeper.topic_deleted("orders")
    await settle()
    desk.seat().commit(offset(2))
    desk.sweeper.topic_deleted("orders")
    await settle()
    desk.memory.release(index)
    await settle()
    assert await offsets_of(desk) == {}
    assert desk.live_state_is_what_the_log_says()


async def test_a_topic_whose_end_is_not_durable_is_not_settled_by_the_next_deletion(
    desk: Desk,
) -> None:
    """B52, franz-go #1411. The groups have forgotten the first, and the log fails after all."""
    desk.seat().commit(offset(1))
    await settle()
    partition = desk.partition("group")
    desk.memory.hold(partition.index)
    desk.sweeper.topic_deleted("orders")
    await settle()
    desk.sweeper.topic_deleted("another")
    await settle()
    desk.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    desk.memory.release(partition.index)
    await settle()
    await active(partition)
    await settle()
    assert await offsets_of(desk) == {}
    assert desk.live_state_is_what_the_log_says()


async def test_a_deletion_that_was_begun_before_a_partition_was_lost_is_not_gone_on_with(
    desk: Desk,
) -> None:
    """B52, franz-go #1411. Meanwhile its owner may have taken commits to the successor."""
    desk.seat().commit(offset(1))
    await settle()
    partition = desk.partition("group")
    desk.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    desk.sweeper.topic_deleted("orders")
    await settle()
    assert partition.state is PartitionState.FAILED
    await partition.lost()
    partition.assigned()
    await opened(partition)
    await settle()
    assert await offsets_of(desk) == {("orders", 0): 1}
