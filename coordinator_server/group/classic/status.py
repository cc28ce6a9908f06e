"""How a classic group looks to the observers: summary, members, awaited members and counts."""

from collections.abc import Iterator, Mapping, Sequence

from coordinator_protocol.errors import Malformed
from coordinator_protocol.subscription import decode_assignment, subscribed_topics
from coordinator_server.group.classic.state import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    PendingMember,
)
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.rebalance_events import Culprit
from coordinator_server.group.status import (
    Awaited,
    Census,
    GroupStatus,
    GroupSummary,
    MemberStatus,
    WaitingStatus,
)

_S = ClassicGroupState
_PHASES = {_S.PREPARING_REBALANCE: "join", _S.COMPLETING_REBALANCE: "sync"}

MEMBER_BYTES = 600
"""Estimated memory of a member without its metadata and assignment."""


def summary(group: ClassicGroup) -> GroupSummary:
    """The group's entry in a list."""
    return GroupSummary(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol=group.protocol_name or "",
        generation=group.generation,
        members=len(group.members),
    )


def status(group: ClassicGroup) -> GroupStatus:
    """The group with its members."""
    return GroupStatus(
        summary=summary(group),
        leader=group.leader,
        members=[_member(group, member) for member in group.members.values()],
        waiting_for=[member for member, _ in _awaited_members(group)],
        state_since_ms=None if group.state_since < 0 else group.state_since,
    )


def _member(group: ClassicGroup, member: ClassicMember) -> MemberStatus:
    waits = "join" if member.join_token else "sync" if member.sync_token else None
    consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    return MemberStatus(
        member=member.culprit,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        waits_for=waits,
        topics=_topics(group, member) if consumer else (),
        assigned=_assigned(member) if consumer else {},
    )


def _topics(group: ClassicGroup, member: ClassicMember) -> Sequence[str]:
    """The topics of the selected protocol, else of the member's first; () if unreadable."""
    metadata = dict(member.protocols)
    name = group.protocol_name or next(iter(metadata), "")
    try:
        return subscribed_topics(metadata.get(name, b""))
    except Malformed:
        return ()


def _assigned(member: ClassicMember) -> Mapping[str, Sequence[int]]:
    try:
        return decode_assignment(member.assignment).partitions
    except Malformed:
        return {}


# --- awaited members ---


def _awaited_members(
    group: ClassicGroup,
) -> Iterator[tuple[Culprit, ClassicMember | PendingMember]]:
    """Members that have not joined or not synced, and handed-out member ids not used yet."""
    members = group.members.values()
    match group.state:
        case _S.PREPARING_REBALANCE:
            yield from ((m.culprit, m) for m in members if m.join_token is None)
            for member_id, pending in group.pending.items():
                yield pending.culprit(member_id), pending
        case _S.COMPLETING_REBALANCE:
            yield from ((m.culprit, m) for m in members if m.member_id in group.pending_sync)
        case _:
            return


def waiting_status(group: ClassicGroup, skew: int) -> WaitingStatus:
    """Whom the group waits for; `skew` is wall-clock minus monotonic milliseconds."""
    phase = _PHASES.get(group.state)
    rebalance = group.history.rebalance
    operation = group.purgatory.join or group.purgatory.sync
    began = None if rebalance is None else rebalance.phase_began
    deadline = NEVER if operation is None or phase is None else operation.deadline
    waiting = [
        _awaited(culprit, who, phase or "", began or 0, deadline, skew)
        for culprit, who in _awaited_members(group)
    ]
    pending = len(group.pending) if phase == "join" else 0
    expected = 0 if phase is None else len(group.members) + pending
    return WaitingStatus(
        group_id=group.group_id,
        state=group.state,
        phase=phase,
        since_ms=None if began is None else began + skew,
        deadline_ms=None if deadline == NEVER else deadline + skew,
        waiting=waiting,
        joined=expected - len(waiting),
        expected=expected,
    )


def _awaited(
    culprit: Culprit,
    who: ClassicMember | PendingMember,
    phase: str,
    began: int,
    deadline: int,
    skew: int,
) -> Awaited:
    pending = isinstance(who, PendingMember)
    kind = "pending" if pending else "static" if culprit.group_instance_id else "dynamic"
    since = who.since if isinstance(who, PendingMember) else began
    until = min(deadline, who.session_deadline)
    return Awaited(culprit, kind, phase, since + skew, until + skew)


# --- counts ---


def waiting_counts(group: ClassicGroup) -> dict[str, int]:
    """How many members the group waits for, by WAITING_PHASES."""
    joining = group.state is _S.PREPARING_REBALANCE
    syncing = group.state is _S.COMPLETING_REBALANCE
    return {
        "join": len(group.members) - group.awaiting_join if joining else 0,
        "sync": len(group.pending_sync) if syncing else 0,
        "pending": len(group.pending),
    }


def count(group: ClassicGroup, census: Census) -> None:
    """Add the group and its members to the census."""
    static = len(group.static_members)
    for member in group.members.values():
        census.memory_bytes["members"] += _member_bytes(member)
    census.groups[group.state, group.protocol_type or ""] += 1
    census.members["static"] += static
    census.members["dynamic"] += len(group.members) - static
    census.members["pending"] += len(group.pending)
    if group.state in _PHASES or group.pending:
        census.waiting.update(waiting_counts(group))


def _member_bytes(member: ClassicMember) -> int:
    metadata = sum(len(metadata) for _, metadata in member.protocols)
    return MEMBER_BYTES + len(member.member_id) + metadata + len(member.assignment)
