"""The two phases of a rebalance: everybody joins, then everybody syncs.

Follows `prepareRebalance`, `completeClassicGroupJoin` and their neighbours in Kafka's
`GroupMetadataManager`.
"""

from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.record_headers import NO_HEADERS
from coordinator_protocol.records import GroupMetadataKey, PackedGroup, encode_group, group_key
from coordinator_server.group.broadcast_replies import JoinedAll, replies_to_all
from coordinator_server.group.classic import state as states
from coordinator_server.group.classic.election import (
    elect_joined_leader,
    joined_members,
    select_protocol,
)
from coordinator_server.group.classic.history_record import headers, history_key, story_bytes
from coordinator_server.group.classic.state import (
    ClassicGroup,
    ClassicMember,
)
from coordinator_server.group.context import RECORD_OVERHEAD, Context
from coordinator_server.group.effects import DONE, Asked, Effects, Joined, Refuse, Rule
from coordinator_server.group.empty_dict import NOTHING
from coordinator_server.group.events import ForceRebalance, Token
from coordinator_server.group.purgatory import DelayedJoin, DelayedSync
from coordinator_server.group.rebalance_events import (
    NOBODY,
    Culprit,
    MemberRemoved,
    Outcome,
    RebalanceEvent,
    RebalanceReason,
    RemovalReason,
    Round,
)
from coordinator_server.group.rebalance_log import pack

SHORTEST_POSTPONEMENT_MS: Final = 1_000
"""Members may ask for a rebalance timeout of 0; nobody is looked for in a busy loop."""


def prepare_rebalance_or_complete_join(
    group: ClassicGroup, cause: Round, ctx: Context, out: Effects
) -> None:
    """Start a rebalance, or take the one under way further."""
    if group.can_rebalance:
        prepare_rebalance(group, cause, ctx, out)
    else:
        group.history.further_round(cause)
        maybe_complete_join_phase(group, ctx, out)


def prepare_rebalance(group: ClassicGroup, cause: Round, ctx: Context, out: Effects) -> None:
    """Enter PreparingRebalance: members have the rebalance timeout to join.

    Where there is no initial delay, who has been handed out an id is waited for until the next
    look, as in Kafka: a crowd that starts together shares a generation. Who is alone goes on.
    """
    if group.state is states.COMPLETING_REBALANCE:
        refuse_parked_syncs(
            group,
            Refuse(
                ErrorCode.REBALANCE_IN_PROGRESS,
                Rule.REBALANCE_UNDER_WAY,
                f"generation {group.generation} was given up: {cause.reason}",
            ),
            ctx,
            out,
        )
    group.pending_sync = NOTHING
    group.purgatory.sync = None
    initial = group.state is states.EMPTY
    started = group.history.begin(
        group.group_id,
        cause,
        group.state,
        group.generation,
        len(group.members),
        ctx.now,
        ctx.wall,
    )
    if started is not None:
        out.observed.append(started)
    group.transition_to(states.PREPARING_REBALANCE, ctx.wall)
    if initial and (ctx.limits.initial_rebalance_delay_ms or group.pending):
        _delay_initial_rebalance(group, ctx)
    elif group.has_all_members_joined:
        complete_join(group, ctx, out)
    else:
        group.purgatory.delay_join(DelayedJoin(ctx.now + group.rebalance_timeout_ms))


def force_rebalance(group: ClassicGroup, event: ForceRebalance, ctx: Context, out: Effects) -> None:
    """An operator lets the members join anew; one rebalance at a time."""
    if group.state in (states.STABLE, states.COMPLETING_REBALANCE):
        cause = Round(RebalanceReason.ADMIN_REBALANCE, NOBODY, event.client_reason)
        out.reply(event.token, DONE)
        prepare_rebalance(group, cause, ctx, out)
    elif group.state is states.PREPARING_REBALANCE:
        detail = "the group is rebalancing already: members are joining"
        refusal = Refuse(ErrorCode.REBALANCE_IN_PROGRESS, Rule.REBALANCE_UNDER_WAY, detail)
        out.reply(event.token, refusal)
    else:
        detail = "the group has no members that could rebalance"
        out.reply(event.token, Refuse(ErrorCode.INVALID_REQUEST, Rule.GROUP_EMPTY, detail))


def _delay_initial_rebalance(group: ClassicGroup, ctx: Context) -> None:
    delay = ctx.limits.initial_rebalance_delay_ms
    group.purgatory.delay_join(
        DelayedJoin(
            ctx.now + delay,
            initial=True,
            delay_ms=delay,
            remaining_ms=max(group.rebalance_timeout_ms - delay, 0),
        )
    )


def maybe_complete_join_phase(group: ClassicGroup, ctx: Context, out: Effects) -> None:
    """End the join phase if everybody is there, unless this is the initial delay."""
    if (
        group.state is states.PREPARING_REBALANCE
        and group.previous_state is not states.EMPTY
        and group.has_all_members_joined
    ):
        complete_join(group, ctx, out)


def join_deadline_passed(
    group: ClassicGroup, operation: DelayedJoin, ctx: Context, out: Effects
) -> None:
    """The DelayedJoin is due: extend the initial delay if somebody came, else end the phase."""
    if operation.initial and group.new_member_added and operation.remaining_ms:
        group.new_member_added = False
        delay = min(ctx.limits.initial_rebalance_delay_ms, operation.remaining_ms)
        remaining = max(operation.remaining_ms - operation.delay_ms, 0)
        group.purgatory.delay_join(
            DelayedJoin(ctx.now + delay, initial=True, delay_ms=delay, remaining_ms=remaining)
        )
        return
    complete_join(group, ctx, out)


def complete_join(group: ClassicGroup, ctx: Context, out: Effects) -> None:
    """End the join phase: the next generation begins with whoever has joined.

    Static members that did not join stay until their session ends; if nobody joined, the phase
    lasts for another rebalance timeout.
    """
    group.purgatory.join = None
    group.new_member_added = False
    _evict_absent_members(group, ctx, out)
    if not elect_joined_leader(group) and group.members:
        group.history.wait_goes_on(ctx.now)
        postponed_ms = max(group.rebalance_timeout_ms, SHORTEST_POSTPONEMENT_MS)
        group.purgatory.delay_join(DelayedJoin(ctx.now + postponed_ms))
        return
    group.begin_generation(ctx.wall)
    group.history.join_phase_ended(ctx.now)
    if group.members:
        group.protocol_name = select_protocol(group)
        group.transition_to(states.COMPLETING_REBALANCE, ctx.wall)
        _answer_joins(group, ctx, out)
        group.purgatory.delay_sync(DelayedSync(ctx.now + group.rebalance_timeout_ms))
    else:
        group.protocol_name = None
        group.transition_to(states.EMPTY, ctx.wall)
        write_and_end(group, group_record(group), Outcome.EMPTIED, ctx, out)


def _evict_absent_members(group: ClassicGroup, ctx: Context, out: Effects) -> None:
    absent = [member for member in group.members.values() if member.join_token is None]
    _note_who_was_waited_for(group, [member.culprit for member in absent], ctx.now)
    for member in absent:
        if member.group_instance_id is None:
            evict(group, member, RemovalReason.JOIN_TIMEOUT, out)


def _note_who_was_waited_for(group: ClassicGroup, absent: list[Culprit], now: int) -> None:
    """Those who did not come, else the last who did; an initial delay waits for nobody."""
    is_initial, last = group.previous_state is states.EMPTY, group.last_to_join
    if not is_initial and group.pending:
        absent += [pending.culprit(name) for name, pending in group.pending.items()]
    if absent:
        group.history.wait_was_for(absent, now)
    elif last is not None and not is_initial and len(group.members) > 1:
        # Not longer: whoever else had not joined has gone since, and was waited for until then.
        group.history.wait_was_for([last.culprit], group.last_joined_at)


def evict(group: ClassicGroup, member: ClassicMember, reason: RemovalReason, out: Effects) -> None:
    """Remove a member that did not do its part, and answer what it has parked."""
    refuse_parked(group, member, removed(member, reason), out)
    group.remove(member.member_id)
    group.history.note().evicted.append(member.culprit)
    out.observed.append(MemberRemoved(group.group_id, reason, member.culprit))


def removed(member: ClassicMember, reason: RemovalReason) -> Refuse:
    """The answer to a parked request of a member that is removed: it joins anew."""
    return Refuse(
        ErrorCode.UNKNOWN_MEMBER_ID,
        Rule.MEMBER_REMOVED,
        f"member {member.member_id!r} was removed: {reason}",
    )


def refuse_parked(
    group: ClassicGroup, member: ClassicMember, refusal: Refuse, out: Effects
) -> None:
    """Answer a member's parked JoinGroup and SyncGroup, if any, with an error."""
    if member.join_token is not None:
        out.reply(member.join_token, refusal, None, Asked("JoinGroup", member.culprit))
        group.park_join(member, None)
    if member.sync_token is not None:
        out.reply(member.sync_token, refusal, None, Asked("SyncGroup", member.culprit))
        member.sync_token = None


def _answer_joins(group: ClassicGroup, ctx: Context, out: Effects) -> None:
    tokens: list[Token] = []
    joined: list[str] = []
    for member in group.members.values():
        if member.join_token is not None:
            tokens.append(member.join_token)
            joined.append(member.member_id)
            member.join_token = None
        group.renew_session(member, ctx.now)
        member.is_new = False
    group.awaiting_join = 0
    group.pending_sync = dict.fromkeys(group.members)
    kind, name, leader = group.protocol_type, group.protocol_name, group.leader or ""
    members = joined_members(group)
    told = JoinedAll(tokens, joined, group.generation, kind, name, leader, members)
    out.reply_to_all(replies_to_all(told))


def current_generation(group: ClassicGroup, member: ClassicMember) -> Joined:
    """A member's view of the generation; only the leader's lists the others."""
    leads = group.leader == member.member_id
    return Joined(
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader or "",
        joined_members(group) if leads else (),
    )


def refuse_parked_syncs(group: ClassicGroup, refusal: Refuse, ctx: Context, out: Effects) -> None:
    """Give up the assignment that was under way and answer whoever waits for it."""
    for member in group.members.values():
        member.assignment = b""
        if member.sync_token is not None:
            asked = Asked("SyncGroup", member.culprit)
            out.reply(member.sync_token, refusal, member.member_id, asked)
            member.sync_token = None
            group.renew_session(member, ctx.now)


def end_rebalance(
    group: ClassicGroup, outcome: Outcome, ctx: Context, *, written: bool = False
) -> RebalanceEvent | None:
    """The story of the rebalance that has ended, if there was one."""
    members = len(group.members)
    return group.history.end(
        group.group_id, outcome, group.generation, members, ctx.now, ctx.wall, written=written
    )


def write_and_end(
    group: ClassicGroup, record: PackedGroup, outcome: Outcome, ctx: Context, out: Effects
) -> None:
    """Write the group down, and the story of the rebalance that ends.

    Both go into one append. Where that could not hold the story as well, the group's record goes
    alone: no assignment ever fails for its story.
    """
    size = record_bytes(group, record) + story_bytes(group.group_id)
    fits = size <= ctx.limits.max_append_bytes
    written = fits and ctx.limits.history_retention_ms > 0
    event = end_rebalance(group, outcome, ctx, written=written)
    assert event is not None, "only a rebalance ends"
    out.write(GroupMetadataKey(group.group_id), record, headers(event) if fits else NO_HEADERS)
    if written:
        out.write(history_key(event), pack(event))
    out.observed.append(event)


def group_record(group: ClassicGroup) -> PackedGroup:
    """The group as it is written to the log."""
    name = group.protocol_name
    return encode_group(
        group.protocol_type or "",
        group.generation,
        name,
        group.leader,
        group.state_since,
        [
            (
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                b"" if name is None else member.metadata(name),
                member.assignment,
            )
            for member in group.members.values()
        ],
    )


def record_bytes(group: ClassicGroup, record: PackedGroup) -> int:
    """More than what the group's record takes in the log."""
    return RECORD_OVERHEAD + len(group_key(group.group_id)) + len(record)
