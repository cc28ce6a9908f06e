"""Topics that are deleted while other things happen to the offsets in them."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.rebalance_events import OffsetsRemoved, OffsetsRemovedReason
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.storage.base import OutcomeUnknown
from tests.support.coordinator_harness import CoordinatorHarness, active, opened, settle
from tests.support.group_harness import offset


async def offsets_of(
    harness: CoordinatorHarness, group_id: str = "group"
) -> dict[tuple[str, int], int]:
    found = await harness.group_client(group_id).fetched()
    return {place: each.offset for place, each in found.items()}


async def test_every_group_forgets_a_deleted_topic_and_only_that(
    harness: CoordinatorHarness,
) -> None:
    """B52, franz-go #1411. In all partitions, and for good."""
    names = [f"group {n}" for n in range(30)]
    for name in names:
        harness.group_client(name).commit(offset(1), offset(1, 5), offset(2, topic="other"))
    await settle()
    harness.sweeper.topic_deleted("orders")
    harness.sweeper.topic_deleted("never seen")
    await settle()
    assert [await offsets_of(harness, name) for name in names] == [{("other", 0): 2}] * 30
    assert harness.live_state_is_what_the_log_says()
    told = [o for o in harness.observed if isinstance(o, OffsetsRemoved)]
    assert {(o.reason, o.offsets) for o in told} == {(OffsetsRemovedReason.TOPIC_DELETED, 2)}
    assert len(told) == 30


async def test_a_commit_to_the_successor_of_a_deleted_topic_is_kept(
    harness: CoordinatorHarness,
) -> None:
    """B52, franz-go #1411. It comes as soon as a client can know that there is one."""
    seats = [harness.group_client(f"group {n}") for n in range(500)]
    for group_client in seats:
        group_client.commit(offset(1))
    await settle()
    harness.sweeper.topic_deleted("orders")
    await settle(1)
    for group_client in seats:
        group_client.commit(offset(9))
    await settle()
    assert {
        (await offsets_of(harness, group_client.group_id))["orders", 0] for group_client in seats
    } == {9}


async def test_a_topic_that_is_deleted_while_a_partition_loads_is_forgotten_too(
    harness: CoordinatorHarness,
) -> None:
    """B52, franz-go #1411. Else the offsets of a restart would outlive it."""
    harness.group_client().commit(offset(1), offset(2, topic="other"))
    await settle()
    partition = harness.partition("group")
    successor = CoordinatorHarness(harness.memory)
    harness.memory.hold(partition.index)
    await successor.coordinator.start()
    await settle()
    loading = successor.partition("group")
    assert loading.state is PartitionState.LOADING
    successor.sweeper.topic_deleted("orders")
    await settle()
    harness.memory.release(partition.index)
    await opened(loading)
    assert await offsets_of(successor) == {("other", 0): 2}
    await settle()
    assert successor.live_state_is_what_the_log_says()
    await successor.stop()


@pytest.mark.parametrize("fails", [1, 3])
async def test_a_topic_is_forgotten_even_if_the_log_fails_at_that_moment(
    harness: CoordinatorHarness, fails: int
) -> None:
    """B52, franz-go #1411. However often; then its successor's offsets are left alone."""
    harness.group_client().commit(offset(1), offset(2, topic="other"))
    await settle()
    partition = harness.partition("group")
    for _ in range(fails):
        harness.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    harness.sweeper.topic_deleted("orders")
    await settle()
    await active(partition)
    await settle()
    assert await offsets_of(harness) == {("other", 0): 2}
    assert harness.live_state_is_what_the_log_says()

    request = harness.group_client().commit(offset(3))
    await settle()
    assert request.error is ErrorCode.NONE
    harness.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    harness.group_client("tosti").commit(offset(1))
    await settle()
    await active(partition)
    assert await offsets_of(harness) == {("orders", 0): 3, ("other", 0): 2}


async def test_a_topic_deleted_twice_is_forgotten_twice(harness: CoordinatorHarness) -> None:
    """B52, franz-go #1411. The first time may still be under way."""
    harness.group_client().commit(offset(1))
    await settle()
    index = harness.partition("group").index
    harness.memory.hold(index)
    harness.sweeper.topic_deleted("orders")
    await settle()
    harness.group_client().commit(offset(2))
    harness.sweeper.topic_deleted("orders")
    await settle()
    harness.memory.release(index)
    await settle()
    assert await offsets_of(harness) == {}
    assert harness.live_state_is_what_the_log_says()


async def test_a_topic_whose_end_is_not_durable_is_not_settled_by_the_next_deletion(
    harness: CoordinatorHarness,
) -> None:
    """B52, franz-go #1411. The groups have forgotten the first, and the log fails after all."""
    harness.group_client().commit(offset(1))
    await settle()
    partition = harness.partition("group")
    harness.memory.hold(partition.index)
    harness.sweeper.topic_deleted("orders")
    await settle()
    harness.sweeper.topic_deleted("another")
    await settle()
    harness.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    harness.memory.release(partition.index)
    await settle()
    await active(partition)
    await settle()
    assert await offsets_of(harness) == {}
    assert harness.live_state_is_what_the_log_says()


async def test_a_deletion_that_was_begun_before_a_partition_was_lost_is_not_gone_on_with(
    harness: CoordinatorHarness,
) -> None:
    """B52, franz-go #1411. Meanwhile its owner may have taken commits to the successor."""
    harness.group_client().commit(offset(1))
    await settle()
    partition = harness.partition("group")
    harness.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    harness.sweeper.topic_deleted("orders")
    await settle()
    assert partition.state is PartitionState.FAILED
    await partition.lost()
    partition.assigned()
    await opened(partition)
    await settle()
    assert await offsets_of(harness) == {("orders", 0): 1}
