"""Counts groups for metrics, a few per step, so that a scrape does not block the event loop."""

from collections.abc import Iterator

from coordinator_protocol.history import history_head
from coordinator_server.group.group import Group
from coordinator_server.group.kind import GroupKind
from coordinator_server.observe.status import Census, GroupGauges
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.coordinator import Coordinator

GROUP_BYTES = 2_100
"""Memory of a group without members and offsets, as measured in docs/performance.md."""
OFFSET_BYTES = 100
"""Estimated memory of a committed offset without metadata."""

AT_ONCE = 64
"""Groups that are counted in one step."""


def take_census(coordinator: Coordinator) -> Iterator[Census]:
    """Count all groups; yields the same census after every step, complete at the end."""
    census = Census()
    for number, actor in enumerate(coordinator.actors(), start=1):
        _count(census, actor)
        if number % AT_ONCE == 0:
            yield census
    yield census


def _count(census: Census, actor: GroupActor) -> None:
    group = actor.group
    census.queued_events += actor.queued
    offsets = len(group.offsets)
    census.offsets += offsets
    census.memory_bytes["groups"] += GROUP_BYTES
    census.memory_bytes["offsets"] += offsets * OFFSET_BYTES
    if group.offsets.pending:
        _count_pending(census, group)
    if group.kind is not None:
        group.kind.count(census)


def _count_pending(census: Census, group: Group) -> None:
    for offsets in group.offsets.pending.values():
        census.pending_offsets += len(offsets)
        for pending in offsets.values():
            # Without a value a newer commit has come in between: it has no time of its own.
            if pending.value is not None:
                since, oldest = pending.value.commit_timestamp, census.oldest_pending_ms
                census.oldest_pending_ms = since if oldest is None else min(since, oldest)


def gauges_of(group: Group, kind: GroupKind) -> GroupGauges:
    """One group in numbers."""
    summary = kind.summary()
    return GroupGauges(
        state=summary.state,
        generation=summary.generation,
        members=summary.members,
        waiting=kind.waiting_counts(),
        last_rebalance_ms=history_head(group.past[-1]).ended_ms if group.past else None,
    )
