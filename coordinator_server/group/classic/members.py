"""How members stay, leave and expire: Heartbeat, LeaveGroup and session timeouts."""

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.classic import state as states
from coordinator_server.group.classic.rebalance import (
    complete_join,
    evict,
    maybe_complete_join_phase,
    prepare_rebalance,
    refuse_parked,
    removed,
)
from coordinator_server.group.classic.state import ClassicGroup, ClassicMember
from coordinator_server.group.classic.validation import (
    refuse_generation,
    refuse_member,
    unknown_instance,
    unknown_member,
)
from coordinator_server.group.context import Context
from coordinator_server.group.effects import DONE, Effects, Left, LeftMember, Refuse, Rule
from coordinator_server.group.events import (
    Heartbeat,
    KickMember,
    Leave,
    LeavingMember,
)
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.rebalance_events import (
    Culprit,
    MemberRemoved,
    RebalanceReason,
    RemovalReason,
    Round,
)


def heartbeat(group: ClassicGroup, event: Heartbeat, ctx: Context, out: Effects) -> None:
    """Renew the member's session and tell it whether it must rejoin."""
    if group.renew(event.member_id, event.group_instance_id, event.generation, ctx.now):
        out.reply(event.token, DONE)
        return
    refusal = refuse_member(group, event.member_id, event.group_instance_id)
    if refusal is None:
        refusal = refuse_generation(group, event.generation)
    if refusal is None:
        group.renew_session(group.members[event.member_id], ctx.now)
        refusal = Refuse(
            ErrorCode.REBALANCE_IN_PROGRESS, Rule.REBALANCE_UNDER_WAY, "members are joining"
        )
    out.reply(event.token, refusal)


def leave(group: ClassicGroup, event: Leave, ctx: Context, out: Effects) -> None:
    """Remove the members of the batch; they cause at most one rebalance together."""
    results: list[LeftMember] = []
    refused: list[Refuse] = []
    first: Round | None = None
    for leaving in event.members:
        refusal, culprit = _leave_one(group, leaving, ctx, out)
        refused += () if refusal is None else (refusal,)
        results.append(
            LeftMember(
                leaving.member_id,
                leaving.group_instance_id,
                ErrorCode.NONE if refusal is None else refusal.error,
            )
        )
        if culprit is not None and first is None:
            reason = (
                RebalanceReason.MEMBER_LEFT if leaving.member_id else RebalanceReason.ADMIN_REMOVED
            )
            first = Round(reason, culprit, leaving.client_reason)
    out.reply(event.token, Left(results, refused))
    if first is not None:
        _rebalance_without(group, first, ctx, out)


def kick(group: ClassicGroup, event: KickMember, ctx: Context, out: Effects) -> None:
    """An operator removes a member, which hears of it when it next speaks."""
    member_id = event.member_id
    if not member_id:
        member_id = group.static_members.get(event.group_instance_id or "", "")
    if member_id in group.pending:
        culprit = _take_out_pending(group, member_id, RemovalReason.ADMIN_REMOVED, ctx, out)
    elif member_id in group.members:
        culprit = _take_out(group, member_id, RemovalReason.ADMIN_REMOVED, ctx, out)
    else:
        out.reply(event.token, unknown_member(event.member_id or event.group_instance_id or ""))
        return
    out.reply(event.token, DONE)
    cause = Round(RebalanceReason.ADMIN_REMOVED, culprit, event.client_reason)
    _rebalance_without(group, cause, ctx, out)


def _rebalance_without(group: ClassicGroup, cause: Round, ctx: Context, out: Effects) -> None:
    """A member left or was removed: the others share its partitions."""
    if group.state in (states.STABLE, states.COMPLETING_REBALANCE):
        prepare_rebalance(group, cause, ctx, out)
    else:
        group.history.further_round(cause)
        maybe_complete_join_phase(group, ctx, out)


def _leave_one(
    group: ClassicGroup, leaving: LeavingMember, ctx: Context, out: Effects
) -> tuple[Refuse | None, Culprit | None]:
    """Why the member cannot leave, or who has left.

    An empty member id removes by group instance id: an administrator's doing.
    """
    member_id: str | None = leaving.member_id
    if not member_id:
        instance_id = leaving.group_instance_id
        member_id = None if instance_id is None else group.static_members.get(instance_id)
        if member_id is None:
            return unknown_instance("", instance_id), None
    elif member_id in group.pending:
        return None, _take_out_pending(group, member_id, RemovalReason.LEFT, ctx, out)
    else:
        refusal = refuse_member(group, member_id, leaving.group_instance_id)
        if refusal is not None:
            return refusal, None
    reason = RemovalReason.LEFT if leaving.member_id else RemovalReason.ADMIN_REMOVED
    return None, _take_out(group, member_id, reason, ctx, out)


def _take_out(
    group: ClassicGroup, member_id: str, reason: RemovalReason, ctx: Context, out: Effects
) -> Culprit:
    """Remove a member and answer what it has parked; returns who it was."""
    member = group.members[member_id]
    if member.join_token is None:
        _note_wait(group, member.culprit, ctx)
    refuse_parked(group, member, removed(member, reason), out)
    group.remove(member_id)
    group.history.note().left.append(member.culprit)
    out.observed.append(MemberRemoved(group.group_id, reason, member.culprit))
    return member.culprit


def _take_out_pending(
    group: ClassicGroup, member_id: str, reason: RemovalReason, ctx: Context, out: Effects
) -> Culprit:
    """Forget a member id that was handed out; returns who it was for."""
    culprit = group.pending[member_id].culprit(member_id)
    _note_wait(group, culprit, ctx)
    group.remove(member_id)
    out.observed.append(MemberRemoved(group.group_id, reason, culprit))
    return culprit


def _note_wait(group: ClassicGroup, culprit: Culprit, ctx: Context) -> None:
    """Note that a member leaves which the join phase has waited for."""
    if group.state is states.PREPARING_REBALANCE and group.previous_state is not states.EMPTY:
        group.history.was_held_up_by(culprit, ctx.now)


def session_deadline_passed(
    group: ClassicGroup, member: ClassicMember, ctx: Context, out: Effects
) -> None:
    """Remove a member whose session has expired.

    A member with a parked request cannot heartbeat and does not expire, unless it is new: then
    its five minutes are over, and whoever sent the JoinGroup may try again.
    """
    if member.waits and not member.is_new:
        member.session_deadline = NEVER
        return
    if member.join_token is None:
        _note_wait(group, member.culprit, ctx)
    evict(group, member, RemovalReason.SESSION_EXPIRED, out)
    cause = Round(RebalanceReason.SESSION_EXPIRED, member.culprit, None)
    if group.state in (states.STABLE, states.COMPLETING_REBALANCE):
        prepare_rebalance(group, cause, ctx, out)
    else:
        _go_on_without(group, cause, ctx, out)


def pending_deadline_passed(
    group: ClassicGroup, member_id: str, ctx: Context, out: Effects
) -> None:
    """Forget a member id that was handed out and never used."""
    culprit = _take_out_pending(group, member_id, RemovalReason.PENDING_EXPIRED, ctx, out)
    cause = Round(RebalanceReason.PENDING_EXPIRED, culprit, None)
    if group.state is states.PREPARING_REBALANCE:
        _go_on_without(group, cause, ctx, out)


def _go_on_without(group: ClassicGroup, cause: Round, ctx: Context, out: Effects) -> None:
    """End the join phase when no awaited member is left; so does the initial delay, as in Kafka."""
    group.history.further_round(cause)
    if group.has_all_members_joined:
        complete_join(group, ctx, out)
