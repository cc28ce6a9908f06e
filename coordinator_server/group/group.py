"""A group id within a tenure: the one door through which events reach whatever group has the id.

`handle` decides, `replay.apply` changes durable state, and nothing here waits, writes or knows
what time it is. Deletion and re-creation of the group happen behind the same door.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from coordinator_server.group.classic.describe import describe
from coordinator_server.group.classic.expiration import tick
from coordinator_server.group.classic.invariants import broken_rules
from coordinator_server.group.classic.join import join, refuse_metadata, refuse_texts
from coordinator_server.group.classic.members import heartbeat, kick, leave, renew
from coordinator_server.group.classic.rebalance import (
    end_rebalance,
    force_rebalance,
    prepare_rebalance,
)
from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.classic.sync import sync
from coordinator_server.group.classic.validation import group_not_found, group_unknown
from coordinator_server.group.commits import (
    RepeatedCommit,
    commit,
    fetch,
    fetched,
    reset_offsets,
    takes_again,
)
from coordinator_server.group.context import Context
from coordinator_server.group.deletion import (
    delete_group,
    delete_offsets,
    expire,
    forget_history,
    forget_oldest_rebalances,
    topics_deleted,
)
from coordinator_server.group.effects import Effects, FetchedTopic, WriteOffsets
from coordinator_server.group.events import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    Describe,
    Event,
    ExpireOffsets,
    FetchOffsets,
    ForceRebalance,
    Heartbeat,
    Join,
    KickMember,
    Leave,
    Loaded,
    Released,
    ResetOffsets,
    Sync,
    Tick,
    Token,
    TopicsDeleted,
)
from coordinator_server.group.group_state import GroupMemory
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.rebalance_events import Outcome, RebalanceReason, Round
from coordinator_server.group.rebalance_log import next_sequence
from coordinator_server.group.replay import apply, apply_encoded, apply_packed, restore


class TurnFailed(Exception):
    """A bug: a turn raised. Carries what it had brought about, so that nobody is left waiting."""

    def __init__(self, event: Event, effects: Effects) -> None:
        super().__init__(f"{type(event).__name__} failed")
        self.event = event
        self.effects = effects


class Group(GroupMemory):
    """Takes events for a group id, whatever there is under it."""

    __slots__ = ()

    def handle(self, event: Event, ctx: Context) -> Effects:
        """Take one event; the effects are complete, nothing happens later without an event.

        Raises TurnFailed if there is a bug.
        """
        out = Effects()
        try:
            _HANDLERS[type(event)](self, event, ctx, out)
            if out.observed:
                forget_oldest_rebalances(self, ctx, out)
            for write in out.writes:
                if isinstance(write, WriteOffsets):
                    apply_packed(self, write.topic, write.offsets, ctx.wall)
                else:
                    apply(self, write.key, write.value, wall=ctx.wall)
            self.durable = None
        except Exception as bug:
            raise TurnFailed(event, out) from bug
        return out

    def renew(self, member_id: str, instance_id: str | None, generation: int, now: int) -> bool:
        """Take a heartbeat that only renews a session; False leaves it to `handle`.

        Nearly all heartbeats are such, and need no Effects. A bug raises any exception.
        """
        classic = self.classic
        return classic is not None and renew(classic, member_id, instance_id, generation, now)

    def fetched(self, event: FetchOffsets) -> Sequence[FetchedTopic]:
        """What `handle` would tell of an event that only asks."""
        return fetched(self, event)

    def takes_again(self, repeat: RepeatedCommit, ctx: Context) -> bool:
        """Whether a repeated commit is accepted, and then a member's session begun anew.

        `commit_again` has to follow with its offsets. False: `handle` has to say why not.
        """
        return takes_again(self, repeat, ctx)

    def commit_again(self, repeat: RepeatedCommit, encoded: bytes) -> None:
        """Apply the records of a repeated commit, which its template has encoded."""
        apply_encoded(self, repeat.template, encoded)

    def released(self, member_ids: Iterable[str], now: int) -> None:
        """Begin the sessions of members anew whose replies were held and have now left.

        `handle` does the same with a Released; a bug raises whatever it raises.
        """
        if self.classic is None:
            return
        for member_id in member_ids:
            member = self.classic.members.get(member_id)
            if member is not None:
                self.classic.renew_session(member, now)

    def next_deadline(self) -> int:
        """When to send a Tick, at the latest (monotonic milliseconds); NEVER if nothing is due."""
        return NEVER if self.classic is None else self.classic.purgatory.wake

    @property
    def has_nothing_to_end(self) -> bool:
        """Whether it has no member, whose requests may be parked, and no rebalance under way."""
        classic = self.classic
        return classic is None or (not classic.members and classic.history.rebalance is None)

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
            event = end_rebalance(self.classic, Outcome.ABORTED, ctx)
            out.observed += () if event is None else (event,)
        return out


# --- membership ---


def _join(group: Group, event: Join, ctx: Context, out: Effects) -> None:
    """A join without member id makes the group exist; what is written is its first generation.

    Kafka writes an Empty group down at once, for its own snapshots.
    """
    refusal = refuse_texts(group.group_id, event) or refuse_metadata(event, ctx)
    if refusal is not None:
        out.reply(event.token, refusal)
        return
    if group.classic is not None:
        join(group.classic, event, ctx, out)
        return
    if event.member_id:
        out.reply(event.token, group_unknown(event.member_id))
        return
    group.classic = ClassicGroup(group.group_id, ctx.wall)
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
        out.reply(event.token, group_not_found(group.group_id))
    else:
        out.reply(event.token, describe(group.classic))


# --- operators ---


def _kick(group: Group, event: KickMember, ctx: Context, out: Effects) -> None:
    if group.classic is None:
        out.reply(event.token, group_not_found(group.group_id))
    else:
        kick(group.classic, event, ctx, out)


def _force_rebalance(group: Group, event: ForceRebalance, ctx: Context, out: Effects) -> None:
    if group.classic is None:
        out.reply(event.token, group_not_found(group.group_id))
    else:
        force_rebalance(group.classic, event, ctx, out)


# --- time and tenure ---


def _tick(group: Group, _event: Tick, ctx: Context, out: Effects) -> None:
    if group.classic is not None:
        tick(group.classic, ctx, out)


def _released(group: Group, event: Released, ctx: Context, _out: Effects) -> None:
    group.released(event.member_ids, ctx.now)


def _loaded(group: Group, event: Loaded, ctx: Context, out: Effects) -> None:
    """Make the group of its record; members have a full session from now (Kafka's onLoaded)."""
    if group.durable is not None:
        group.classic = restore(group.group_id, group.durable)
    elif group.classic is None and group.offsets:
        group.classic = ClassicGroup(group.group_id, -1)
    classic = group.classic
    if classic is None:
        # A broker has deleted the group, and knows nothing of a history.
        forget_history(group, out)
        return
    if event.spent_generation > classic.generation:
        classic.spent_generation = event.spent_generation
    classic.history.sequence = next_sequence(group.past)
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
    CommitOffsets: commit,
    FetchOffsets: fetch,
    DeleteOffsets: delete_offsets,
    DeleteGroup: delete_group,
    KickMember: _kick,
    ForceRebalance: _force_rebalance,
    ResetOffsets: reset_offsets,
    TopicsDeleted: topics_deleted,
    ExpireOffsets: expire,
    Describe: _describe,
    Released: _released,
    Loaded: _loaded,
    Tick: _tick,
}
