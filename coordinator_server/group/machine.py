"""A group id within a tenure: the one door through which events reach whatever group has the id.

`handle` decides, `replay.apply` changes durable state, and nothing here waits, writes or knows
what time it is. Deletion and re-creation of the group happen behind the same door.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from coordinator_server.group.classic.describe import describe
from coordinator_server.group.classic.invariants import broken_rules
from coordinator_server.group.classic.join import join
from coordinator_server.group.classic.members import heartbeat, leave
from coordinator_server.group.classic.rebalance import end_rebalance, metadata_value, prepare_rebalance
from coordinator_server.group.classic.state import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    ClassicGroupState,
)
from coordinator_server.group.classic.subscription import is_subscribed
from coordinator_server.group.classic.sync import sync
from coordinator_server.group.classic.ticks import tick
from coordinator_server.group.classic.validation import group_unknown, refuse_commit
from coordinator_server.group.context import Context
from coordinator_server.group.effects import (
    Committed,
    Deleted,
    Done,
    Effects,
    Fetched,
    Refuse,
    Rule,
)
from coordinator_server.group.events import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Event,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    Loaded,
    OffsetToCommit,
    Released,
    Sync,
    Tick,
    Token,
)
from coordinator_server.group.offsets import OffsetStore
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.reasons import Outcome, RebalanceReason, Round
from coordinator_server.group.replay import apply, restore
from protocol.errors import ErrorCode
from protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

_S = ClassicGroupState


class TurnFailed(Exception):
    """A bug: a turn raised. Carries what it had brought about, so that nobody is left waiting."""

    def __init__(self, event: Event, effects: Effects) -> None:
        super().__init__(f"{type(event).__name__} failed")
        self.event = event
        self.effects = effects


class Group:
    """What there is under a group id: a classic group, offsets, both or nothing."""

    __slots__ = ("classic", "durable", "group_id", "offsets")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.classic: ClassicGroup | None = None
        self.durable: GroupMetadataValue | None = None
        """The group as its last record has it."""
        self.offsets = OffsetStore()

    def handle(self, event: Event, ctx: Context) -> Effects:
        """Take one event; the effects are complete, nothing happens later without an event.

        Raises TurnFailed if there is a bug.
        """
        out = Effects()
        try:
            _HANDLERS[type(event)](self, event, ctx, out)
            for write in out.writes:
                apply(self, write.key, write.value, wall=ctx.wall)
        except Exception as bug:
            raise TurnFailed(event, out) from bug
        return out

    def next_deadline(self) -> int:
        """No deadline lies before this time (monotonic milliseconds); NEVER if there is none."""
        return NEVER if self.classic is None else self.classic.purgatory.wake

    @property
    def is_vacant(self) -> bool:
        """Whether there is nothing under this id that would have to be remembered."""
        return self.classic is None and not self.offsets

    def take_parked(self) -> list[Token]:
        """The tokens of parked requests, which the group forgets: the tenure answers them."""
        return [] if self.classic is None else self.classic.take_parked()

    def broken_rules(self) -> Iterator[str]:
        """The invariants that do not hold, in words; for tests."""
        if self.classic is not None:
            yield from broken_rules(self.classic)

    def abort(self, ctx: Context) -> Effects:
        """The tenure ends: tell the story of a rebalance that was under way."""
        out = Effects()
        if self.classic is not None:
            end_rebalance(self.classic, Outcome.ABORTED, ctx, out)
        return out


# --- membership ---


def _join(group: Group, event: Join, ctx: Context, out: Effects) -> None:
    """A join without member id makes the group exist, which is written down at once."""
    if group.classic is not None:
        join(group.classic, event, ctx, out)
        return
    if event.member_id:
        out.reply(event.token, group_unknown(event.member_id))
        return
    group.classic = ClassicGroup(group.group_id, ctx.wall)
    out.write(GroupMetadataKey(group.group_id), metadata_value(group.classic))
    join(group.classic, event, ctx, out)


def _sync(group: Group, event: Sync, ctx: Context, out: Effects) -> None:
    if group.classic is None:
        out.reply(event.token, group_unknown(event.member_id))
    else:
        sync(group.classic, event, ctx, out)


def _heartbeat(group: Group, event: Heartbeat, ctx: Context, out: Effects) -> None:
    if group.classic is None:
        out.reply(event.token, group_unknown(event.member_id))
    else:
        heartbeat(group.classic, event, ctx, out)


def _leave(group: Group, event: Leave, ctx: Context, out: Effects) -> None:
    if group.classic is None:
        out.reply(event.token, group_unknown(""))
    else:
        leave(group.classic, event, ctx, out)


def _describe(group: Group, event: Describe, _ctx: Context, out: Effects) -> None:
    if group.classic is None:
        out.reply(event.token, _not_found(group))
    else:
        out.reply(event.token, describe(group.classic))


def _not_found(group: Group) -> Refuse:
    return Refuse(
        ErrorCode.GROUP_ID_NOT_FOUND, Rule.GROUP_UNKNOWN, f"Group {group.group_id} not found."
    )


# --- offsets ---


def _commit(group: Group, event: CommitOffsets, ctx: Context, out: Effects) -> None:
    refusal = _refuse_commit(group, event, ctx)
    if refusal is not None:
        out.reply(event.token, refusal)
        return
    classic = group.classic
    if classic is not None and classic.state in (_S.STABLE, _S.PREPARING_REBALANCE):
        classic.renew_session(classic.members[event.member_id], ctx.now)
    errors = []
    expires = -1 if event.retention_ms == -1 else ctx.wall + event.retention_ms
    for offset in event.offsets:
        if _chars(offset.metadata) > ctx.limits.offset_metadata_max_chars:
            errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        errors.append(ErrorCode.NONE)
        out.write(
            OffsetCommitKey(group.group_id, offset.topic, offset.partition),
            OffsetCommitValue(
                offset=offset.offset,
                leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                commit_timestamp=ctx.wall,
                expire_timestamp=expires,
                topic_id=offset.topic_id,
            ),
        )
    out.reply(event.token, Committed(errors))


def _refuse_commit(group: Group, event: CommitOffsets, ctx: Context) -> Refuse | None:
    if group.classic is not None:
        refusal = refuse_commit(group.classic, event)
        if refusal is not None:
            return refusal
    elif event.generation >= 0:
        if event.knows_group_id_not_found:
            return _not_found(group)
        return Refuse(
            ErrorCode.ILLEGAL_GENERATION,
            Rule.GROUP_UNKNOWN,
            f"generation {event.generation} of a group that does not exist",
        )
    size = sum(map(_most_bytes, event.offsets)) + len(event.offsets) * 4 * len(group.group_id)
    if size > ctx.limits.max_append_bytes:
        return Refuse(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            Rule.COMMIT_TOO_LARGE,
            f"up to {size} bytes of records, the log takes {ctx.limits.max_append_bytes}",
        )
    return None


_RECORD_OVERHEAD: Final = 128
"""More than a commit's record has beside its strings."""


def _most_bytes(offset: OffsetToCommit) -> int:
    return _RECORD_OVERHEAD + 4 * (len(offset.topic) + len(offset.metadata))


def _chars(text: str) -> int:
    """The length as Java counts it, in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _fetch(group: Group, event: FetchOffsets, _ctx: Context, out: Effects) -> None:
    topics = group.offsets.fetch(event.topics, require_stable=event.require_stable)
    out.reply(event.token, Fetched(topics))


def _delete_offsets(group: Group, event: DeleteOffsets, _ctx: Context, out: Effects) -> None:
    classic = group.classic
    if classic is None:
        out.reply(event.token, _not_found(group))
        return
    if classic.members and classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        out.reply(event.token, _not_empty(classic))
        return
    results = []
    for topic, partitions in event.topics:
        error = (
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if is_subscribed(classic, topic)
            else ErrorCode.NONE
        )
        results.append((topic, [(partition, error) for partition in partitions]))
        if error is ErrorCode.NONE:
            for partition in partitions:
                _write_tombstone(group, topic, partition, out)
    out.reply(event.token, Deleted(results))


def _write_tombstone(group: Group, topic: str, partition: int, out: Effects) -> None:
    offsets = group.offsets
    if offsets.get(topic, partition) is not None or offsets.is_pending(topic, partition):
        out.write(OffsetCommitKey(group.group_id, topic, partition), None)


def _not_empty(group: ClassicGroup) -> Refuse:
    return Refuse(
        ErrorCode.NON_EMPTY_GROUP,
        Rule.GROUP_NOT_EMPTY,
        f"the group is {group.state} with {len(group.members)} members",
    )


def _delete_group(group: Group, event: DeleteGroup, _ctx: Context, out: Effects) -> None:
    """Tombstones for every offset and the group, in one append."""
    if group.classic is None:
        out.reply(event.token, _not_found(group))
    elif group.classic.state is not _S.EMPTY:
        out.reply(event.token, _not_empty(group.classic))
    else:
        for topic, partition in group.offsets.partitions():
            out.write(OffsetCommitKey(group.group_id, topic, partition), None)
        out.write(GroupMetadataKey(group.group_id), None)
        out.reply(event.token, Done())


# --- time and tenure ---


def _tick(group: Group, _event: Tick, ctx: Context, out: Effects) -> None:
    if group.classic is not None:
        tick(group.classic, ctx, out)


def _released(group: Group, event: Released, ctx: Context, _out: Effects) -> None:
    if group.classic is None:
        return
    for member_id in event.member_ids:
        member = group.classic.members.get(member_id)
        if member is not None:
            group.classic.renew_session(member, ctx.now)


def _loaded(group: Group, _event: Loaded, ctx: Context, out: Effects) -> None:
    """Make the group of its record; members have a full session from now (Kafka's onLoaded)."""
    if group.durable is not None:
        group.classic = restore(group.group_id, group.durable)
    elif group.classic is None and group.offsets:
        group.classic = ClassicGroup(group.group_id, -1)
    classic = group.classic
    if classic is None:
        return
    for member in classic.members.values():
        classic.renew_session(member, ctx.now)
    if len(classic.members) > ctx.limits.group_max_size:
        last = next(reversed(classic.members.values()))
        cause = Round(RebalanceReason.OVER_CAPACITY, last.culprit, None)
        prepare_rebalance(classic, cause, ctx, out)


_HANDLERS: Final[dict[type[Event], Callable[[Group, Any, Context, Effects], None]]] = {
    Join: _join,
    Sync: _sync,
    Heartbeat: _heartbeat,
    Leave: _leave,
    CommitOffsets: _commit,
    FetchOffsets: _fetch,
    DeleteOffsets: _delete_offsets,
    DeleteGroup: _delete_group,
    Describe: _describe,
    Released: _released,
    Loaded: _loaded,
    Tick: _tick,
}
