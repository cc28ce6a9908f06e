"""Checks removals of members: sessions, join phases and sync phases by Kafka's rules.

The rules use the responses that clients received and their times, not the group's own deadlines.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator_server.group.classic.state import ClassicGroupState
from coordinator_server.group.effects import Effects, Joined
from coordinator_server.group.events import Heartbeat, Join
from coordinator_server.group.group import Group
from coordinator_server.group.rebalance_events import MemberRemoved, RemovalReason
from tests.simulation.consumer import Consumer
from tests.simulation.network import Request
from tests.support.classic import classic_of, classic_or_none

if TYPE_CHECKING:
    from tests.simulation.node import Node

NEW_MEMBER_MS = 300_000

Member = tuple[int, str, str]
"""Node, group and member id: two nodes may have different views for a while."""

_S = ClassicGroupState
_PHASE_OF = {
    RemovalReason.JOIN_TIMEOUT: _S.PREPARING_REBALANCE,
    RemovalReason.SYNC_TIMEOUT: _S.COMPLETING_REBALANCE,
}


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a rebalance, as seen in the turns of a group."""

    state: ClassicGroupState
    generation: int
    may_end_at: int
    """The start plus the largest rebalance timeout: no member is late before."""


class RemovalRules:
    """Computes the earliest time at which each member may be removed."""

    def __init__(self, now: Callable[[], int], failed: Callable[[str], None]) -> None:
        self._now = now
        self._failed = failed
        self._alive_until: dict[Member, int] = {}
        """The earliest time at which a session may expire."""
        self._first_join: dict[Member, int] = {}
        self._told: set[Member] = set()
        """Members that ever received a generation."""
        self._removed_while_waiting: dict[Member, Request] = {}
        self._rebalance_ms: dict[str, int] = {}
        """The rebalance timeout of every member that received a generation, by member id."""
        self._phases: dict[Group, Phase] = {}

    # --- what gives a member time ---

    def asked(self, node: "Node", request: Request) -> None:
        """Called when a JoinGroup arrives."""
        if isinstance(request.event, Join):
            key = (node.index, request.group, request.event.member_id)
            self._first_join.setdefault(key, self._now())

    def loaded(self, node: "Node", partition: int) -> None:
        """Give every member a full session from now."""
        for group_id, group in node.groups(partition).items():
            if group.kind is not None:
                for member in classic_of(group).members.values():
                    key = (node.index, group_id, member.member_id)
                    self._lives(key, member.session_timeout_ms)

    def synced(self, node: "Node", request: Request, member_id: str) -> None:
        """Called when a SyncGroup was answered; if it was parked, the session restarts."""
        if request.was_parked and _is_member(node, request.group, member_id):
            self._lives((node.index, request.group, member_id), _session(request))

    def joined(self, node: "Node", request: Request, result: Joined) -> None:
        """Called when a JoinGroup was answered; a repeated one renews nothing, as in Kafka."""
        key = (node.index, request.group, result.member_id)
        self._told.add(key)
        event = request.event
        assert isinstance(event, Join)
        self._rebalance_ms[result.member_id] = event.rebalance_timeout_ms
        if not _is_member(node, request.group, result.member_id):
            return
        if request.was_parked:
            self._lives(key, _session(request))
        elif not event.member_id:
            # A static member has returned; its session began when its JoinGroup was handled.
            self._lives_until(key, request.delivered_at + _session(request))

    def beat(self, node: "Node", request: Request) -> None:
        """Renew a session from the arrival of a heartbeat that the group answered."""
        event = request.event
        partition = node.coordinator.partition_for(request.group)
        if isinstance(event, Heartbeat) and request.load_number == node.loads[partition]:
            key = (node.index, request.group, event.member_id)
            self._lives_until(key, request.delivered_at + _session(request))

    def _lives(self, member: Member, session_ms: int) -> None:
        self._alive_until[member] = self._now() + session_ms

    def _lives_until(self, member: Member, until: int) -> None:
        self._alive_until[member] = max(until, self._alive_until.get(member, 0))

    # --- what ends it ---

    def removed_while_waiting(self, node: "Node", request: Request, member_id: str) -> None:
        """Called when a parked request was answered because its member was removed."""
        self._removed_while_waiting[node.index, request.group, member_id] = request

    def removed(self, node: "Node", removal: MemberRemoved) -> None:
        """Check an observed removal of a member."""
        key = (node.index, removal.group_id, removal.member.member_id)
        waited = self._removed_while_waiting.pop(key, None)
        until = self._alive_until.pop(key, 0)
        if removal.reason is RemovalReason.SESSION_EXPIRED:
            if self._now() < until:
                self._failed(f"expired {until - self._now()} ms early: {removal}")
            if waited is not None and not self._may_expire(key, waited):
                self._failed(f"expired while it waited for {waited}: {removal}")
        elif removal.reason in _PHASE_OF:
            if waited is not None:
                self._failed(f"removed although it had done its part, {waited}: {removal}")
            if removal.reason is RemovalReason.JOIN_TIMEOUT and removal.member.group_instance_id:
                self._failed(f"a static member was removed for not joining: {removal}")

    def _may_expire(self, key: Member, waited: Request) -> bool:
        """Whether it never had a JoinGroup response and joined five minutes ago."""
        waits_since = self._first_join.get(key, waited.delivered_at)
        return (
            isinstance(waited.event, Join)
            and key not in self._told
            and self._now() - waits_since >= NEW_MEMBER_MS
        )

    # --- phases ---

    def turned(self, group: Group, effects: Effects) -> None:
        """Check that a member removed for being late in this turn was late."""
        phase = self._phases.get(group)
        for observed in effects.observed:
            if isinstance(observed, MemberRemoved) and observed.reason in _PHASE_OF:
                self._was_late(phase, observed)
        classic = classic_or_none(group)
        if classic is None:
            self._phases.pop(group, None)
            return
        # Followers may sync, and be late, when the leader has made the group Stable.
        state = _S.COMPLETING_REBALANCE if classic.state is _S.STABLE else classic.state
        if phase is None or (phase.state, phase.generation) != (state, classic.generation):
            removal_rules = max(
                (self._rebalance_ms.get(id_, 0) for id_ in classic.members), default=0
            )
            self._phases[group] = Phase(state, classic.generation, self._now() + removal_rules)

    def _was_late(self, phase: Phase | None, removal: MemberRemoved) -> None:
        if phase is None or phase.state is not _PHASE_OF[removal.reason]:
            self._failed(f"nobody could be late: {removal}")
        elif self._now() < phase.may_end_at:
            early = phase.may_end_at - self._now()
            self._failed(f"a phase ended {early} ms early: {removal}")


def _session(request: Request) -> int:
    client = request.client
    return client.kind.session_ms if isinstance(client, Consumer) else 0


def _is_member(node: "Node", group_id: str, member_id: str) -> bool:
    """Whether the group has the member; a pause may expire it before its answer leaves."""
    group = node.coordinator.group(group_id)
    return group is not None and group.kind is not None and member_id in classic_of(group).members
