"""A group id within a tenure: takes the events for it, whether a group exists or not.

`handle` decides, `replay.apply` changes durable state, and nothing here waits, writes or reads a
clock. What members and the group as a whole do is up to the GroupKind; offsets, deletion, loading
and the creation of groups are handled here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from coordinator_server.group.classic.join import refuse_join
from coordinator_server.group.classic.kind import ClassicKind
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
from coordinator_server.group.refusals import group_not_found, group_unknown
from coordinator_server.group.replay import apply, apply_encoded, apply_packed, restore


class TurnFailed(Exception):
    """A bug: `handle` raised. Carries the effects until then, so that every request is answered."""

    def __init__(self, event: Event, effects: Effects) -> None:
        super().__init__(f"{type(event).__name__} failed")
        self.event = event
        self.effects = effects


class Group(GroupMemory):
    """Handles the events of a group id."""

    __slots__ = ()

    def handle(self, event: Event, ctx: Context) -> Effects:
        """Take one event; the effects are complete, nothing happens later without an event.

        Raises TurnFailed if there is a bug.
        """
        out = Effects()
        try:
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event, ctx, out)
            elif self.kind is not None:
                self.kind.handle(event, ctx, out)
            else:
                _WITHOUT_GROUP[type(event)](self, event, ctx, out)
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
        """Accept a heartbeat whose only effect is a renewed session; False: use `handle`.

        Most requests are such heartbeats, and this makes no Effects. A bug raises any exception.
        """
        kind = self.kind
        return kind is not None and kind.renew(member_id, instance_id, generation, now)

    def fetched(self, event: FetchOffsets) -> Sequence[FetchedTopic]:
        """Return the offsets that `handle` would reply."""
        return fetched(self, event)

    def takes_again(self, repeat: RepeatedCommit, ctx: Context) -> bool:
        """Whether a repeated commit is accepted, which renews the member's session.

        `commit_again` has to follow with its offsets. False: `handle` makes the response.
        """
        return takes_again(self, repeat, ctx)

    def commit_again(self, repeat: RepeatedCommit, encoded: bytes) -> None:
        """Apply the records of a repeated commit, which its template has encoded."""
        apply_encoded(self, repeat.template, encoded)

    def released(self, member_ids: Iterable[str], now: int) -> None:
        """Renew the sessions of members whose held replies have been sent.

        `handle` does the same with a Released; a bug raises any exception.
        """
        if self.kind is not None:
            self.kind.released(member_ids, now)

    def next_deadline(self) -> int:
        """When to send a Tick, at the latest (monotonic milliseconds); NEVER if nothing is due."""
        return NEVER if self.kind is None else self.kind.purgatory.wake

    @property
    def has_nothing_to_end(self) -> bool:
        """Whether no request can be parked and no rebalance is under way."""
        return self.kind is None or self.kind.has_nothing_to_end

    def take_parked(self) -> list[Token]:
        """Return the tokens of parked requests and forget them: the tenure answers them."""
        return [] if self.kind is None else self.kind.take_parked()

    def broken_rules(self) -> Iterator[str]:
        """Describe the invariants that do not hold; for tests."""
        if self.kind is not None:
            yield from self.kind.broken_rules()

    def abort(self, ctx: Context) -> Effects:
        """Report a rebalance under way as aborted, because the tenure ends."""
        out = Effects()
        if self.kind is not None:
            self.kind.abort(ctx, out)
        return out


# --- loading ---


def _loaded(group: Group, event: Loaded, ctx: Context, out: Effects) -> None:
    """Restore the group from its record, and begin to serve it."""
    if group.durable is not None:
        group.kind = restore(group.group_id, group.durable)
    elif group.kind is None and group.offsets:
        group.kind = ClassicKind(group.group_id, -1)
    if group.kind is None:
        # A broker has removed the group, and does not know the records of its history.
        forget_history(group, out)
    else:
        group.kind.loaded(event, group.past, ctx, out)


_HANDLERS: Final[dict[type[Event], Callable[[Group, Any, Context, Effects], None]]] = {
    CommitOffsets: commit,
    FetchOffsets: fetch,
    DeleteOffsets: delete_offsets,
    DeleteGroup: delete_group,
    ResetOffsets: reset_offsets,
    TopicsDeleted: topics_deleted,
    ExpireOffsets: expire,
    Loaded: _loaded,
}
"""Events that are the same for every group kind; `GroupKind.handle` takes the others."""


# --- events of a group kind where no group exists ---


def _first_join(group: Group, event: Join, ctx: Context, out: Effects) -> None:
    """Create the group for a JoinGroup without member id; its first generation is written.

    Kafka writes an Empty group at once, for its own snapshots.
    """
    refusal = refuse_join(group.group_id, event, ctx)
    if refusal is None and event.member_id:
        refusal = group_unknown(event.member_id)
    if refusal is not None:
        out.reply(event.token, refusal)
        return
    group.kind = ClassicKind(group.group_id, ctx.wall)
    group.kind.handle(event, ctx, out)


def _refuse_member(_group: Group, event: Sync | Heartbeat, _ctx: Context, out: Effects) -> None:
    out.reply(event.token, group_unknown(event.member_id))


def _refuse_leave(_group: Group, event: Leave, _ctx: Context, out: Effects) -> None:
    out.reply(event.token, group_unknown(""))


def _refuse_request(
    group: Group, event: Describe | KickMember | ForceRebalance, _ctx: Context, out: Effects
) -> None:
    out.reply(event.token, group_not_found(group.group_id))


def _ignore(_group: Group, _event: Tick | Released, _ctx: Context, _out: Effects) -> None:
    """The group was removed meanwhile."""


_WITHOUT_GROUP: Final[dict[type[Event], Callable[[Group, Any, Context, Effects], None]]] = {
    Join: _first_join,
    Sync: _refuse_member,
    Heartbeat: _refuse_member,
    Leave: _refuse_leave,
    Describe: _refuse_request,
    KickMember: _refuse_request,
    ForceRebalance: _refuse_request,
    Tick: _ignore,
    Released: _ignore,
}
