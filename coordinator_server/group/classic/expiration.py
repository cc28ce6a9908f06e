"""Time passes: everything whose deadline is due happens, earliest first."""

from typing import Final

from coordinator_server.group.classic.members import (
    pending_deadline_passed,
    session_deadline_passed,
)
from coordinator_server.group.classic.rebalance import join_deadline_passed
from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.classic.sync import sync_deadline_passed
from coordinator_server.group.context import Context
from coordinator_server.group.effects import Effects
from coordinator_server.group.purgatory import NEVER


def tick(group: ClassicGroup, ctx: Context, out: Effects) -> None:
    """Carry out what is due and look for the next deadline.

    What one deadline brings about may settle or postpone others, so each is looked at again
    when its turn comes; new ones that are due at once wait for the next tick.
    """
    if group.purgatory.wake > ctx.now:
        return
    for deadline, member_id in sorted(_due(group, ctx.now)):
        if member_id == _JOIN:
            operation = group.purgatory.join
            if operation is not None and operation.deadline == deadline:
                join_deadline_passed(group, operation, ctx, out)
        elif member_id == _SYNC:
            if group.purgatory.sync is not None and group.purgatory.sync.deadline == deadline:
                sync_deadline_passed(group, ctx, out)
        else:
            _session_due(group, member_id, ctx, out)
    group.purgatory.wake = _next_look(group, ctx.now)


_JOIN, _SYNC = "\0join", "\0sync"
"""Stand for the delayed operations among the member ids that are due."""


def _session_due(group: ClassicGroup, member_id: str, ctx: Context, out: Effects) -> None:
    member = group.members.get(member_id)
    if member is not None:
        if member.session_deadline <= ctx.now:
            session_deadline_passed(group, member, ctx, out)
    elif member_id in group.pending and group.pending[member_id].session_deadline <= ctx.now:
        pending_deadline_passed(group, member_id, ctx, out)


def _due(group: ClassicGroup, now: int) -> list[tuple[int, str]]:
    due = [
        (who.session_deadline, member_id)
        for members in (group.members, group.pending)
        for member_id, who in members.items()
        if who.session_deadline <= now
    ]
    if group.purgatory.join is not None and group.purgatory.join.deadline <= now:
        due.append((group.purgatory.join.deadline, _JOIN))
    if group.purgatory.sync is not None and group.purgatory.sync.deadline <= now:
        due.append((group.purgatory.sync.deadline, _SYNC))
    return due


def _next_look(group: ClassicGroup, now: int) -> int:
    """The next deadline; sessions of a large group are looked at a few at once."""
    sessions = [member.session_deadline for member in group.members.values()]
    sessions += [pending.session_deadline for pending in group.pending.values()]
    deadline = min(sessions, default=NEVER)
    late = session_delay_ms(group)
    if late:
        deadline = max(deadline, now + late)
    for operation in (group.purgatory.join, group.purgatory.sync):
        if operation is not None:
            deadline = min(deadline, operation.deadline)
    return deadline


def session_delay_ms(group: ClassicGroup) -> int:
    """How much later than its deadline a session may be found to have ended.

    Thousands of members that fall silent together expire within seconds, each at a time of its
    own. A look goes over all members, so it may come that much later the more they are.
    """
    return (len(group.members) + len(group.pending)) // _MEMBERS_PER_MS


_MEMBERS_PER_MS: Final = 50
"""A session of a group of 5,000 ends up to 100 ms late; one of fewer than 50 is exact."""
