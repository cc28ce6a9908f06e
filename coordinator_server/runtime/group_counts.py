"""Groups in numbers, for metrics: counted a few at a time, so that nobody waits for a scrape."""

from collections.abc import Iterator

from coordinator_protocol.history import history_head
from coordinator_server.group.classic.state import (
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
)
from coordinator_server.group.group import Group
from coordinator_server.observe.status import Census, GroupGauges
from coordinator_server.runtime.actor import GroupActor
from coordinator_server.runtime.coordinator import Coordinator

GROUP_BYTES = 2_100
"""Of a group without members and offsets; measured, see docs/performance.md."""
MEMBER_BYTES = 600
"""Of a member, without what it has said and was assigned."""
OFFSET_BYTES = 100
"""Of a committed offset without metadata."""

AT_ONCE = 64
"""How many groups are counted before others may have their turn."""


def take_census(coordinator: Coordinator) -> Iterator[Census]:
    """Count all groups; the same object comes again and again until it is whole."""
    census = Census()
    for number, actor in enumerate(coordinator.actors(), start=1):
        _count(census, actor)
        if number % AT_ONCE == 0:
            yield census
    yield census


def _count(census: Census, actor: GroupActor) -> None:
    group, classic = actor.group, actor.group.classic
    census.queued_events += actor.queued
    offsets = len(group.offsets)
    census.offsets += offsets
    census.memory_bytes["groups"] += GROUP_BYTES
    census.memory_bytes["offsets"] += offsets * OFFSET_BYTES
    if group.offsets.pending:
        _count_pending(census, group)
    if classic is not None:
        static = len(classic.static_members)
        for member in classic.members.values():
            census.memory_bytes["members"] += _member_bytes(member)
        census.groups[classic.state, classic.protocol_type or ""] += 1
        census.members["static"] += static
        census.members["dynamic"] += len(classic.members) - static
        census.members["pending"] += len(classic.pending)
        if classic.state in _UNSETTLED or classic.pending:
            census.waiting.update(_waiting(classic))


def _member_bytes(member: ClassicMember) -> int:
    said = sum(len(metadata) for _, metadata in member.protocols)
    return MEMBER_BYTES + len(member.member_id) + said + len(member.assignment)


def _count_pending(census: Census, group: Group) -> None:
    for offsets in group.offsets.pending.values():
        census.pending_offsets += len(offsets)
        for pending in offsets.values():
            # Without a value a newer commit has come in between: it has no time of its own.
            if pending.value is not None:
                since, oldest = pending.value.commit_timestamp, census.oldest_pending_ms
                census.oldest_pending_ms = since if oldest is None else min(since, oldest)


def gauges_of(group: Group, classic: ClassicGroup) -> GroupGauges:
    """One group in numbers."""
    return GroupGauges(
        state=classic.state,
        generation=classic.generation,
        members=len(classic.members),
        waiting=_waiting(classic),
        last_rebalance_ms=history_head(group.past[-1]).ended_ms if group.past else None,
    )


_S = ClassicGroupState
_UNSETTLED = (_S.PREPARING_REBALANCE, _S.COMPLETING_REBALANCE)


def _waiting(group: ClassicGroup) -> dict[str, int]:
    """By `WAITING_PHASES`."""
    joining = group.state is _S.PREPARING_REBALANCE
    syncing = group.state is _S.COMPLETING_REBALANCE
    return {
        "join": len(group.members) - group.awaiting_join if joining else 0,
        "sync": len(group.pending_sync) if syncing else 0,
        "pending": len(group.pending),
    }
