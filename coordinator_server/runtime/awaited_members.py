"""Whom a rebalance waits for: members that have not joined or not synced, and unused member ids."""

from collections.abc import Iterator

from coordinator_server.clock import Clock
from coordinator_server.group.classic.state import (
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    PendingMember,
)
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.rebalance_events import Culprit
from coordinator_server.observe.status import Awaited, WaitingStatus

_S = ClassicGroupState
_PHASES = {_S.PREPARING_REBALANCE: "join", _S.COMPLETING_REBALANCE: "sync"}


def awaited_members(
    group: ClassicGroup,
) -> Iterator[tuple[Culprit, ClassicMember | PendingMember]]:
    """Who holds the rebalance up."""
    members = group.members.values()
    match group.state:
        case _S.PREPARING_REBALANCE:
            yield from ((m.culprit, m) for m in members if m.join_token is None)
            for member_id, pending in group.pending.items():
                yield Culprit(member_id, None, pending.client_id, pending.client_host), pending
        case _S.COMPLETING_REBALANCE:
            yield from ((m.culprit, m) for m in members if m.member_id in group.pending_sync)
        case _:
            return


def waiting_status(group: ClassicGroup, clock: Clock) -> WaitingStatus:
    """Whom the group waits for, since when, and until when, by the wall clock."""
    phase = _PHASES.get(group.state)
    rebalance = group.history.rebalance
    skew = clock.wall_ms() - clock.monotonic_ms()
    operation = group.purgatory.join or group.purgatory.sync
    began = None if rebalance is None else rebalance.phase_began
    deadline = NEVER if operation is None or phase is None else operation.deadline
    waiting = [
        _awaited(culprit, who, phase or "", began or 0, deadline, skew)
        for culprit, who in awaited_members(group)
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
