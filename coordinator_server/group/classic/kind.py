"""The classic group as a GroupKind: each method calls the module that implements it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from coordinator_server.group.classic.describe import describe
from coordinator_server.group.classic.expiration import tick
from coordinator_server.group.classic.invariants import broken_rules
from coordinator_server.group.classic.join import join
from coordinator_server.group.classic.members import heartbeat, kick, leave
from coordinator_server.group.classic.rebalance import (
    end_rebalance,
    force_rebalance,
    prepare_rebalance,
)
from coordinator_server.group.classic.state import (
    CONSUMER_PROTOCOL_TYPE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from coordinator_server.group.classic.status import (
    count,
    status,
    summary,
    waiting_counts,
    waiting_status,
)
from coordinator_server.group.classic.subscription import topics_in_use
from coordinator_server.group.classic.sync import sync
from coordinator_server.group.classic.validation import not_empty, refuse_commit
from coordinator_server.group.context import Context
from coordinator_server.group.effects import Effects, Refuse
from coordinator_server.group.events import (
    CommitOffsets,
    Describe,
    Event,
    ForceRebalance,
    Heartbeat,
    Join,
    KickMember,
    Leave,
    Loaded,
    Released,
    Sync,
    Tick,
)
from coordinator_server.group.rebalance_events import Culprit, Outcome, RebalanceReason, Round
from coordinator_server.group.rebalance_log import Past, next_sequence
from coordinator_server.group.status import (
    Census,
    GroupStatus,
    GroupSummary,
    MemberPresence,
    WaitingStatus,
)


class ClassicKind(ClassicGroup):
    """See GroupKind. A subclass rather than a wrapper: no object more, and no detour to state."""

    __slots__ = ()

    # --- events ---

    def handle(self, event: Event, ctx: Context, out: Effects) -> None:
        """See GroupKind."""
        _HANDLERS[type(event)](self, event, ctx, out)

    def released(self, member_ids: Iterable[str], now: int) -> None:
        """See GroupKind."""
        for member_id in member_ids:
            member = self.members.get(member_id)
            if member is not None:
                self.renew_session(member, now)

    def loaded(self, event: Loaded, past: Past, ctx: Context, out: Effects) -> None:
        """See GroupKind; Kafka's `onLoaded`, which rebalances a group that is too large."""
        if event.spent_generation > self.generation:
            self.spent_generation = event.spent_generation
        self.history.sequence = next_sequence(past)
        for member in self.members.values():
            self.renew_session(member, ctx.now)
        if len(self.members) > ctx.limits.group_max_size:
            last = next(reversed(self.members.values()))
            cause = Round(RebalanceReason.OVER_CAPACITY, last.culprit, None)
            prepare_rebalance(self, cause, ctx, out)

    def abort(self, ctx: Context, out: Effects) -> None:
        """See GroupKind."""
        event = end_rebalance(self, Outcome.ABORTED, ctx)
        if event is not None:
            out.observed.append(event)

    # --- state ---

    @property
    def has_logged_generation(self) -> bool:
        """Whether the group is in a state whose generation is in its record."""
        return self.state in (EMPTY, STABLE) and not self.spent_generation

    @property
    def has_nothing_to_end(self) -> bool:
        """See GroupKind."""
        return not self.members and self.history.rebalance is None

    @property
    def is_removable(self) -> bool:
        """Whether the group is Empty and has handed out no member ids."""
        return self.state is EMPTY and not self.pending

    def broken_rules(self) -> Iterator[str]:
        """See GroupKind."""
        return broken_rules(self)

    # --- offsets ---

    def refuse_commit(self, event: CommitOffsets) -> Refuse | None:
        """See GroupKind."""
        return refuse_commit(self, event)

    def committed(self, event: CommitOffsets, now: int) -> None:
        """See GroupKind; only members may commit in these states."""
        if self.state in (STABLE, PREPARING_REBALANCE):
            self.renew_session(self.members[event.member_id], now)

    def takes_again(self, event: CommitOffsets, now: int) -> bool:
        """See GroupKind."""
        if self.state is STABLE:
            return self.renew(event.member_id, event.group_instance_id, event.generation, now)
        if refuse_commit(self, event) is not None:
            return False
        self.committed(event, now)
        return True

    def refuse_unless_empty(self) -> Refuse | None:
        """See GroupKind."""
        return None if self.state is EMPTY else not_empty(self)

    def refuse_offset_deletion(self) -> Refuse | None:
        """See GroupKind; consumers are refused by topic (KIP-496)."""
        return None if self.protocol_type == CONSUMER_PROTOCOL_TYPE else self.refuse_unless_empty()

    def topics_in_use(self, topics: Iterable[str]) -> frozenset[str]:
        """See GroupKind."""
        return topics_in_use(self, topics)

    @property
    def offsets_may_expire(self) -> bool:
        """Kafka's `ClassicGroup.offsetExpirationCondition`, by protocol type and state."""
        if self.protocol_type is None or self.state is EMPTY:
            return True
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.state is STABLE

    def retention_begins(self, commit_ms: int) -> int:
        """Return when the group became Empty if it had members, else the time of the commit."""
        if self.protocol_type is not None and self.state is EMPTY and self.state_since != -1:
            return self.state_since
        return commit_ms

    # --- what observers show ---

    @property
    def group_type(self) -> str:
        """See GroupKind."""
        return "classic"

    def summary(self) -> GroupSummary:
        """See GroupKind."""
        return summary(self)

    def status(self) -> GroupStatus:
        """See GroupKind."""
        return status(self)

    def waiting(self, skew: int) -> WaitingStatus:
        """See GroupKind."""
        return waiting_status(self, skew)

    def waiting_counts(self) -> dict[str, int]:
        """See GroupKind."""
        return waiting_counts(self)

    def count(self, census: Census) -> None:
        """See GroupKind."""
        count(self, census)

    def member_hosts(self) -> Iterator[str]:
        """See GroupKind."""
        return (member.client_host for member in self.members.values())

    def find_member(self, member_id: str) -> Culprit | None:
        """See GroupKind."""
        member = self.members.get(member_id)
        return None if member is None else member.culprit

    def first_parked(self) -> MemberPresence | None:
        """See GroupKind."""
        for member in self.members.values():
            if member.waits:
                api = "SyncGroup" if member.join_token is None else "JoinGroup"
                return MemberPresence(api, member.culprit)
        return None


def _describe(group: ClassicKind, event: Describe, _ctx: Context, out: Effects) -> None:
    out.reply(event.token, describe(group))


def _tick(group: ClassicKind, _event: Tick, ctx: Context, out: Effects) -> None:
    tick(group, ctx, out)


def _released(group: ClassicKind, event: Released, ctx: Context, _out: Effects) -> None:
    group.released(event.member_ids, ctx.now)


_HANDLERS: Final[dict[type[Event], Callable[[ClassicKind, Any, Context, Effects], None]]] = {
    Join: join,
    Sync: sync,
    Heartbeat: heartbeat,
    Leave: leave,
    Describe: _describe,
    KickMember: kick,
    ForceRebalance: force_rebalance,
    Tick: _tick,
    Released: _released,
}
