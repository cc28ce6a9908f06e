"""SyncGroup: the leader's assignment makes the group Stable."""

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.broadcast_replies import SyncedAll, replies_to_all
from coordinator_server.group.classic import state as states
from coordinator_server.group.classic.rebalance import (
    evict,
    group_record,
    prepare_rebalance,
    record_bytes,
    refuse_parked_syncs,
    write_and_end,
)
from coordinator_server.group.classic.state import (
    ClassicGroup,
    ClassicMember,
)
from coordinator_server.group.classic.validation import refuse_sync
from coordinator_server.group.context import Context
from coordinator_server.group.effects import Asked, Effects, Refuse, Rule, Synced
from coordinator_server.group.events import Sync, Token
from coordinator_server.group.rebalance_events import Outcome, RebalanceReason, RemovalReason, Round


def sync(group: ClassicGroup, event: Sync, ctx: Context, out: Effects) -> None:
    """Answer a SyncGroup, now or when the leader has sent the assignment."""
    refusal = refuse_sync(group, event)
    if refusal is not None:
        out.reply(event.token, refusal)
        return
    member = group.members[event.member_id]
    match group.state:
        case states.COMPLETING_REBALANCE:
            _has_synced(group, member)
            _park_sync(member, event, out)
            if group.leader == member.member_id:
                _assign(group, member, event, ctx, out)
        case states.STABLE:
            _has_synced(group, member)
            out.reply(event.token, _assignment(group, member), member.member_id)
        case _:
            out.reply(
                event.token,
                Refuse(
                    ErrorCode.REBALANCE_IN_PROGRESS,
                    Rule.REBALANCE_UNDER_WAY,
                    f"members are joining; generation {group.generation} has ended",
                ),
            )


def _has_synced(group: ClassicGroup, member: ClassicMember) -> None:
    group.has_synced(member.member_id)
    if not group.pending_sync:
        group.purgatory.sync = None


def _park_sync(member: ClassicMember, event: Sync, out: Effects) -> None:
    """Park the SyncGroup; an older one of the member's is answered."""
    if member.sync_token is not None:
        out.reply(
            member.sync_token,
            Refuse(
                ErrorCode.REBALANCE_IN_PROGRESS,
                Rule.REBALANCE_UNDER_WAY,
                "the member has sent another SyncGroup",
            ),
            asked=Asked("SyncGroup", member.culprit),
        )
    member.sync_token = event.token


def _assignment(group: ClassicGroup, member: ClassicMember) -> Synced:
    return Synced(group.protocol_type, group.protocol_name, member.assignment)


def _assign(
    group: ClassicGroup, leader: ClassicMember, event: Sync, ctx: Context, out: Effects
) -> None:
    """Write the leader's assignment down and hand it out; it must fit into one append."""
    assigned = event.assignments.get
    for member in group.members.values():
        member.assignment = assigned(member.member_id, b"")
    record = group_record(group)
    size = record_bytes(group, record)
    if size > ctx.limits.max_append_bytes:
        _give_up_assignment(group, leader, size, ctx, out)
        return
    group.transition_to(states.STABLE, ctx.wall)
    if len(group.members) > 1:
        group.history.was_held_up_by(leader.culprit, ctx.now)
    write_and_end(group, record, Outcome.COMPLETED, ctx, out)
    _answer_syncs(group, ctx, out)


def _answer_syncs(group: ClassicGroup, ctx: Context, out: Effects) -> None:
    tokens: list[Token] = []
    synced: list[str] = []
    assignments: list[bytes] = []
    for member in group.members.values():
        if member.sync_token is not None:
            tokens.append(member.sync_token)
            synced.append(member.member_id)
            assignments.append(member.assignment)
            member.sync_token = None
            group.renew_session(member, ctx.now)
    told = SyncedAll(tokens, synced, assignments, group.protocol_type, group.protocol_name)
    out.reply_to_all(replies_to_all(told))


def _give_up_assignment(
    group: ClassicGroup, leader: ClassicMember, size: int, ctx: Context, out: Effects
) -> None:
    """Kafka's answer to a record that is too large: everybody is told, and joins again."""
    detail = f"the group's record has {size} bytes, the log takes {ctx.limits.max_append_bytes}"
    refuse_parked_syncs(
        group,
        Refuse(ErrorCode.UNKNOWN_SERVER_ERROR, Rule.ASSIGNMENT_TOO_LARGE, detail),
        ctx,
        out,
    )
    cause = Round(RebalanceReason.ASSIGNMENT_APPEND_FAILED, leader.culprit, detail)
    prepare_rebalance(group, cause, ctx, out)


def sync_deadline_passed(group: ClassicGroup, ctx: Context, out: Effects) -> None:
    """Remove the members that never sent SyncGroup and rebalance (KAFKA-12443)."""
    silent = [member for member in group.members.values() if member.member_id in group.pending_sync]
    for member in silent:
        # A group that is Stable has not waited for them.
        group.history.was_held_up_by(member.culprit, ctx.now)
    for member in silent:
        evict(group, member, RemovalReason.SYNC_TIMEOUT, out)
    cause = Round(RebalanceReason.SYNC_TIMEOUT, silent[0].culprit, None)
    prepare_rebalance(group, cause, ctx, out)
