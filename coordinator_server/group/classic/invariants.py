"""Invariants of a classic group between two events; tests and simulation check them."""

from collections import Counter
from collections.abc import Iterator

from coordinator_server.group.classic.expiration import session_delay_ms
from coordinator_server.group.classic.state import ClassicGroup, ClassicGroupState
from coordinator_server.group.purgatory import NEVER

_S = ClassicGroupState


def broken_rules(group: ClassicGroup) -> Iterator[str]:
    """The invariants that do not hold, in words."""
    yield from _books(group)
    yield from _roles(group)
    yield from _waiting(group)
    yield from _deadlines(group)


def _books(group: ClassicGroup) -> Iterator[str]:
    members = group.members.values()
    if group.awaiting_join != sum(m.join_token is not None for m in members):
        yield f"awaiting_join is {group.awaiting_join}, not the number of parked JoinGroups"
    counts = Counter(name for m in members for name in {name for name, _ in m.protocols})
    if group.supported_protocols != dict(counts):
        yield f"supported_protocols is {group.supported_protocols}, not {dict(counts)}"
    static = {m.group_instance_id: m.member_id for m in members if m.group_instance_id is not None}
    if group.static_members != static:
        yield f"static_members is {group.static_members}, not {static}"
    if any(member_id != member.member_id for member_id, member in group.members.items()):
        yield "a member is filed under another id"
    if group.pending.keys() & group.members.keys():
        yield "a member is still pending"


def _roles(group: ClassicGroup) -> Iterator[str]:
    if (group.leader is None) != (not group.members):
        yield f"leader is {group.leader!r} of {len(group.members)} members"
    if group.leader is not None and group.leader not in group.members:
        yield f"leader {group.leader!r} is no member"
    if group.state in (_S.STABLE, _S.COMPLETING_REBALANCE) and not group.members:
        yield f"{group.state} without members"
    if group.state is _S.EMPTY and group.members:
        yield "Empty with members"
    everybody = len(group.members)
    if group.members and everybody not in group.supported_protocols.values():
        yield "no protocol is common to all members"


def _waiting(group: ClassicGroup) -> Iterator[str]:
    members = group.members.values()
    if group.state is not _S.PREPARING_REBALANCE and group.awaiting_join:
        yield f"JoinGroups are parked in {group.state}"
    if group.state is not _S.COMPLETING_REBALANCE and any(m.sync_token for m in members):
        yield f"SyncGroups are parked in {group.state}"
    if group.state not in (_S.STABLE, _S.COMPLETING_REBALANCE) and group.pending_sync:
        yield f"SyncGroups are awaited in {group.state}"
    if not group.pending_sync.keys() <= group.members.keys():
        yield "a SyncGroup is awaited of somebody who is no member"
    if any(m.is_new and m.join_token is None for m in members):
        yield "a new member does not wait for its first answer"
    in_progress = group.state in (_S.PREPARING_REBALANCE, _S.COMPLETING_REBALANCE)
    if in_progress != (group.history.rebalance is not None):
        yield f"the story of a rebalance does not agree with {group.state}"


def _deadlines(group: ClassicGroup) -> Iterator[str]:
    purgatory = group.purgatory
    if (purgatory.join is not None) != (group.state is _S.PREPARING_REBALANCE):
        yield f"the join phase has {'a' if purgatory.join else 'no'} deadline in {group.state}"
    if (purgatory.sync is not None) != bool(group.pending_sync):
        yield f"{len(group.pending_sync)} SyncGroups are awaited until {purgatory.sync}"
    for member in group.members.values():
        if member.session_deadline == NEVER and not member.waits:
            yield f"member {member.member_id!r} never expires"
    sessions = [member.session_deadline for member in group.members.values()]
    sessions += [pending.session_deadline for pending in group.pending.values()]
    deadlines = [deadline + session_delay_ms(group) for deadline in sessions]
    deadlines += [op.deadline for op in (purgatory.join, purgatory.sync) if op is not None]
    if purgatory.wake > min(deadlines, default=NEVER):
        yield f"the purgatory wakes at {purgatory.wake}, after {min(deadlines)}"
