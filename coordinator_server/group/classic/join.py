"""JoinGroup: who is let in, who must come back with an id, whom it makes rebalance.

Follows Kafka's `classicGroupJoinToClassicGroup` and what it calls.
"""

from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import GroupMetadataKey
from coordinator_server.group.classic import state as states
from coordinator_server.group.classic.election import joined_members, select_protocol
from coordinator_server.group.classic.rebalance import (
    current_generation,
    evict,
    group_record,
    maybe_complete_join_phase,
    prepare_rebalance,
    prepare_rebalance_or_complete_join,
    record_bytes,
    refuse_parked,
)
from coordinator_server.group.classic.state import (
    ClassicGroup,
    ClassicMember,
    PendingMember,
)
from coordinator_server.group.classic.subscription import subscribes_alike
from coordinator_server.group.classic.validation import refuse_member
from coordinator_server.group.context import Context
from coordinator_server.group.effects import Asked, Effects, Joined, Refuse, Rule
from coordinator_server.group.events import Join
from coordinator_server.group.rebalance_events import (
    Culprit,
    MemberRemoved,
    RebalanceReason,
    RemovalReason,
    Round,
)
from coordinator_server.group.refusals import (
    LONGEST_CHARACTER,
    LONGEST_TEXT,
    fits,
    text_too_long,
)


def refuse_join(group_id: str, event: Join, ctx: Context) -> Refuse | None:
    """Return why no group may take the JoinGroup, or None."""
    return _refuse_texts(group_id, event) or _refuse_metadata(event, ctx)


def _refuse_texts(group_id: str, event: Join) -> Refuse | None:
    """Why what a JoinGroup says could not be written down, or kept in memory."""
    if _is_short(group_id, event):
        return None
    for what, text in (
        ("group id", group_id),
        ("client id", event.client_id),
        ("group instance id", event.group_instance_id or ""),
        ("protocol type", event.protocol_type),
        *(("protocol name", name) for name, _ in event.protocols),
    ):
        if not fits(text):
            return text_too_long(what, text)
    return None


def _refuse_metadata(event: Join, ctx: Context) -> Refuse | None:
    """Why a member may not say so much: all of it is kept as long as the member is there."""
    size = 0
    for name, metadata in event.protocols:
        size += len(name) + len(metadata)
    most = ctx.limits.member_metadata_max_bytes
    if size <= most:
        return None
    return Refuse(
        ErrorCode.INVALID_REQUEST,
        Rule.MEMBER_METADATA_TOO_LARGE,
        f"the protocols have {size} bytes, group.max.member.metadata.bytes allows {most}",
        event.member_id,
    )


def _is_short(group_id: str, event: Join) -> bool:
    """Whether everything together fits: then each text does, and none has to be looked at."""
    characters = len(group_id) + len(event.client_id) + len(event.protocol_type)
    if event.group_instance_id is not None:
        characters += len(event.group_instance_id)
    for name, _ in event.protocols:
        characters += len(name)
    return characters * LONGEST_CHARACTER <= LONGEST_TEXT


def join(group: ClassicGroup, event: Join, ctx: Context, out: Effects) -> None:
    """Answer a JoinGroup, now or when its join phase ends."""
    refusal = refuse_join(group.group_id, event, ctx)
    if refusal is not None:
        out.reply(event.token, refusal)
    elif len(group.members) >= ctx.limits.group_max_size and not _has_room(group, event, ctx):
        _turn_away(group, event, ctx, out)
    elif not group.supports_protocols(event.protocol_type, event.protocols):
        out.reply(event.token, _inconsistent_protocol(group, event))
    elif event.member_id:
        _join_with_member_id(group, event, ctx, out)
    elif event.group_instance_id is not None:
        _join_static(group, event, event.group_instance_id, ctx, out)
    elif event.requires_known_member_id:
        _require_member_id(group, event, ctx, out)
    else:
        _add_member(group, event, _new_member_id(event.client_id, ctx), ctx, out)


def _has_room(group: ClassicGroup, event: Join, ctx: Context) -> bool:
    """Kafka's acceptJoiningMember of a full group; a restarted static member may take its place.

    While members join, those awaiting count: the last to come are refused, even if the group
    was larger before its limit was lowered.
    """
    member_id = event.member_id
    if not member_id and event.group_instance_id is not None:
        member_id = group.static_members.get(event.group_instance_id, "")
    member = group.members.get(member_id)
    if group.state is not states.PREPARING_REBALANCE:
        return member is not None
    awaits = member is not None and member.join_token is not None
    return awaits or group.awaiting_join < ctx.limits.group_max_size


def _turn_away(group: ClassicGroup, event: Join, ctx: Context, out: Effects) -> None:
    """Refuse a JoinGroup for which there is no room; a member that sent it is out."""
    refusal = Refuse(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        Rule.GROUP_FULL,
        f"the group may have {ctx.limits.group_max_size} members",
    )
    out.reply(event.token, refusal)
    member = group.members.get(event.member_id)
    if member is not None:
        evict(group, member, RemovalReason.OVER_CAPACITY, out)
    else:
        group.remove(event.member_id)
    maybe_complete_join_phase(group, ctx, out)


def _inconsistent_protocol(group: ClassicGroup, event: Join) -> Refuse:
    sent = ", ".join(name for name, _ in event.protocols)
    return Refuse(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        Rule.PROTOCOL_INCONSISTENT,
        f"{event.protocol_type!r} with [{sent}] was sent, the group is of type "
        f"{group.protocol_type!r} and supports [{', '.join(sorted(group.supported_protocols))}]",
        event.member_id,
    )


def _new_member_id(prefix: str, ctx: Context) -> str:
    """Kafka's form of a member id; the prefix is cut if the protocol could not carry the whole."""
    suffix = f"-{ctx.ids.member_suffix()}"
    if not fits(prefix + suffix):
        prefix = prefix.encode()[: LONGEST_TEXT - len(suffix)].decode(errors="ignore")
    return prefix + suffix


def _require_member_id(group: ClassicGroup, event: Join, ctx: Context, out: Effects) -> None:
    """Hand out a member id; until it is used the join phase does not end (KIP-394)."""
    if len(group.pending) >= MAX_PENDING:
        _forget_oldest_pending(group, out)
    member_id = _new_member_id(event.client_id, ctx)
    deadline = group.purgatory.watch(ctx.now + event.session_timeout_ms)
    group.add_pending(
        member_id, PendingMember(event.client_id, event.client_host, ctx.now, deadline)
    )
    detail = f"join again as {member_id}"
    out.reply(event.token, Refuse(_ID_REQUIRED, _NO_ID, detail, member_id))


def _forget_oldest_pending(group: ClassicGroup, out: Effects) -> None:
    """Make room for another member id; a client uses its own within milliseconds."""
    member_id, pending = next(iter(group.pending.items()))
    group.remove(member_id)
    gone = MemberRemoved(group.group_id, RemovalReason.PENDING_EXPIRED, pending.culprit(member_id))
    out.observed.append(gone)


MAX_PENDING: Final = 10_000
"""Member ids of a group that are handed out and not used; a session may last half an hour."""
_ID_REQUIRED: Final = ErrorCode.MEMBER_ID_REQUIRED
_NO_ID: Final = Rule.MEMBER_ID_REQUIRED


def _add_member(
    group: ClassicGroup, event: Join, member_id: str, ctx: Context, out: Effects
) -> None:
    """Take in a new member and rebalance.

    It cannot heartbeat before its first answer, so it may stay silent for five minutes; waiting
    does not protect it, or retries of its JoinGroup would pile up as members (KAFKA-7610).
    """
    member = ClassicMember(
        member_id,
        event.group_instance_id,
        event.client_id,
        event.client_host,
        event.rebalance_timeout_ms,
        event.session_timeout_ms,
        event.protocols,
    )
    member.is_new = True
    if group.state is states.PREPARING_REBALANCE and group.previous_state is states.EMPTY:
        group.new_member_added = True
    group.add(member, event.protocol_type, event.token, ctx.now)
    member.session_deadline = group.purgatory.watch(ctx.now + ctx.limits.new_member_join_timeout_ms)
    culprit = member.culprit
    group.history.note().joined.append(culprit)
    cause = Round(_MEMBER_JOINED, culprit, event.client_reason)
    prepare_rebalance_or_complete_join(group, cause, ctx, out)


_MEMBER_JOINED: Final = RebalanceReason.MEMBER_JOINED


# --- members that know their id ---


def _join_with_member_id(group: ClassicGroup, event: Join, ctx: Context, out: Effects) -> None:
    if event.member_id in group.pending and event.group_instance_id is None:
        _add_member(group, event, event.member_id, ctx, out)
        return
    refusal = refuse_member(group, event.member_id, event.group_instance_id)
    if refusal is not None:
        out.reply(event.token, refusal)
        return
    member = group.members[event.member_id]
    unchanged = member.protocols == tuple(event.protocols)
    leads = group.leader == member.member_id
    match group.state:
        case states.PREPARING_REBALANCE:
            _update_member(group, member, event, ctx, out)
            maybe_complete_join_phase(group, ctx, out)
        case states.COMPLETING_REBALANCE if unchanged:
            # It may not have received the answer to its JoinGroup.
            out.reply(event.token, current_generation(group, member))
        case states.STABLE if unchanged and not leads:
            out.reply(event.token, current_generation(group, member))
        case _:
            # A leader that joins again wants a rebalance for reasons of its own, such as partitions
            # that were added to a topic; a follower may have given up some for others to get them.
            said = member.protocols
            _update_member(group, member, event, ctx, out)
            if not subscribes_alike(group.protocol_type, said, member.protocols):
                reason = RebalanceReason.METADATA_CHANGED
            elif leads:
                reason = RebalanceReason.LEADER_REJOINED
            else:
                reason = RebalanceReason.FOLLOWER_REJOINED
            prepare_rebalance(group, Round(reason, member.culprit, event.client_reason), ctx, out)


def _update_member(
    group: ClassicGroup, member: ClassicMember, event: Join, ctx: Context, out: Effects
) -> None:
    """Take over what the member says now; an older JoinGroup of its is answered."""
    if member.join_token is not None:
        out.reply(
            member.join_token,
            Refuse(
                ErrorCode.REBALANCE_IN_PROGRESS,
                Rule.REBALANCE_UNDER_WAY,
                "the member has sent another JoinGroup",
                member.member_id,
            ),
            asked=Asked("JoinGroup", member.culprit),
        )
    group.update(member, event.protocols, event.rebalance_timeout_ms, event.session_timeout_ms)
    group.park_join(member, event.token, ctx.now)


# --- static members without a member id: new ones, and restarted ones ---


def _join_static(
    group: ClassicGroup, event: Join, instance_id: str, ctx: Context, out: Effects
) -> None:
    member_id = _new_member_id(instance_id, ctx)
    old_member_id = group.static_members.get(instance_id)
    if old_member_id is None:
        _add_member(group, event, member_id, ctx, out)
        return
    leader_before = group.leader
    member = _replace_static(group, group.members[old_member_id], member_id, event, ctx, out)
    # The member keeps what its predecessor was, as in Kafka; the cause is who came instead.
    culprit = Culprit(member.member_id, instance_id, event.client_id, event.client_host)
    cause = Round(RebalanceReason.STATIC_REPLACED, culprit, event.client_reason)
    match group.state:
        case states.STABLE if _may_return(group, ctx):
            _return_static(group, member, leader_before, event, out)
        case states.STABLE | states.COMPLETING_REBALANCE:
            # In CompletingRebalance the leader may already be assigning to the old member id.
            group.park_join(member, event.token, ctx.now)
            prepare_rebalance(group, cause, ctx, out)
        case _:
            group.park_join(member, event.token, ctx.now)
            group.history.further_round(cause)
            maybe_complete_join_phase(group, ctx, out)


def _replace_static(
    group: ClassicGroup,
    old: ClassicMember,
    member_id: str,
    event: Join,
    ctx: Context,
    out: Effects,
) -> ClassicMember:
    """Fence the old member id and let the new one take its place (KIP-345)."""
    fenced = Refuse(
        ErrorCode.FENCED_INSTANCE_ID,
        Rule.INSTANCE_REPLACED,
        f"member {member_id!r} has taken over {old.group_instance_id!r}",
        old.member_id,
    )
    refuse_parked(group, old, fenced, out)
    member = group.replace_static(old, member_id)
    group.update(member, event.protocols, event.rebalance_timeout_ms, event.session_timeout_ms)
    group.renew_session(member, ctx.now)
    return member


def _may_return(group: ClassicGroup, ctx: Context) -> bool:
    """Whether the generation can go on with the new member, and that be written down."""
    if select_protocol(group) != group.protocol_name:
        return False
    return record_bytes(group, group_record(group)) <= ctx.limits.max_append_bytes


def _return_static(
    group: ClassicGroup,
    member: ClassicMember,
    leader_before: str | None,
    event: Join,
    out: Effects,
) -> None:
    """No rebalance: the new member id is written down and told its generation (KIP-814).

    A leader of before version 9 is named its old self as leader, so that it does not assign.
    """
    out.write(GroupMetadataKey(group.group_id), group_record(group))
    leads = group.leader == member.member_id
    skips = leads and event.can_skip_assignment
    leader = group.leader if event.can_skip_assignment else leader_before
    out.reply(
        event.token,
        Joined(
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol_name,
            leader or "",
            joined_members(group) if skips else (),
            skips,
        ),
        member.member_id,
    )
