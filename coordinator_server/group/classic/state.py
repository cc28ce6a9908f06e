"""A classic group: its members, where it stands, and what it waits for.

Names and behaviour follow Kafka's `ClassicGroup` and `ClassicGroupMember`. This module keeps the
books (who has joined, who votes for what); what to do about requests is decided next door in
`join`, `sync`, `members` and `rebalance`.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from coordinator_server.group.classic.history import History
from coordinator_server.group.empty_dict import NOTHING
from coordinator_server.group.events import ProtocolMetadata, Token
from coordinator_server.group.interning import protocols_alike, text_alike, timeout_alike
from coordinator_server.group.kind import GroupKind
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.rebalance_events import Culprit

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
MAX_GENERATION: Final = 2**31 - 1


class ClassicGroupState(StrEnum):
    """Kafka's five states, by the names DescribeGroups gives them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY: Final = ClassicGroupState.EMPTY
PREPARING_REBALANCE: Final = ClassicGroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = ClassicGroupState.COMPLETING_REBALANCE
STABLE: Final = ClassicGroupState.STABLE
DEAD: Final = ClassicGroupState.DEAD
"""For what is done with every request: Python 3.11 finds a name in an enum ten times as slowly."""

VALID_PREVIOUS_STATES: Final[dict[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    EMPTY: frozenset({PREPARING_REBALANCE}),
    PREPARING_REBALANCE: frozenset({STABLE, COMPLETING_REBALANCE, EMPTY}),
    COMPLETING_REBALANCE: frozenset({PREPARING_REBALANCE}),
    STABLE: frozenset({COMPLETING_REBALANCE}),
    DEAD: frozenset(ClassicGroupState),
}


class ClassicMember:
    """A member; what it said when it joined, what it was assigned, and what it waits for."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Sequence[ProtocolMetadata],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = text_alike(client_id)
        self.client_host = text_alike(client_host)
        self.rebalance_timeout_ms = timeout_alike(rebalance_timeout_ms)
        self.session_timeout_ms = timeout_alike(session_timeout_ms)
        self.protocols = protocols_alike(protocols)
        self.assignment = assignment
        self.is_new = False
        """Has not had its first JoinGroup answer: it cannot heartbeat yet."""
        self.join_token: Token | None = None
        self.sync_token: Token | None = None
        self.session_deadline: int = NEVER

    @property
    def culprit(self) -> Culprit:
        """How this member is named as the cause of something."""
        return Culprit(self.member_id, self.group_instance_id, self.client_id, self.client_host)

    @property
    def waits(self) -> bool:
        """Whether a JoinGroup or SyncGroup of the member is parked."""
        return self.join_token is not None or self.sync_token is not None

    def metadata(self, protocol_name: str) -> bytes:
        """The member's metadata of a protocol that it supports."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise LookupError(f"member {self.member_id!r} does not support {protocol_name!r}")

    def vote(self, candidates: frozenset[str]) -> str:
        """The first candidate in the member's order of preference."""
        return next(name for name, _ in self.protocols if name in candidates)


class PendingMember:
    """A member id that was handed out with MEMBER_ID_REQUIRED and not yet used (KIP-394)."""

    __slots__ = ("client_host", "client_id", "session_deadline", "since")

    def __init__(self, client_id: str, client_host: str, since: int, session_deadline: int) -> None:
        self.since = since
        self.client_id = client_id
        self.client_host = client_host
        self.session_deadline = session_deadline

    def culprit(self, member_id: str) -> Culprit:
        """How it is named as the cause of something."""
        return Culprit(member_id, None, self.client_id, self.client_host)


class ClassicGroup(GroupKind):
    """The state of a group; `members` is in the order of joining. `ClassicKind` completes it."""

    __slots__ = (
        "awaiting_join",
        "generation",
        "generation_since",
        "history",
        "last_joined_at",
        "last_to_join",
        "leader",
        "members",
        "new_member_added",
        "pending",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "spent_generation",
        "state",
        "state_since",
        "static_members",
        "supported_protocols",
    )

    def __init__(self, group_id: str, state_since: int) -> None:
        super().__init__(group_id)
        self.state: ClassicGroupState = EMPTY
        self.previous_state: ClassicGroupState = EMPTY
        self.state_since: int = state_since
        """Wall-clock milliseconds; -1 if an old record did not say."""
        self.generation = 0
        self.generation_since = state_since
        """When the generation began, wall-clock milliseconds; -1 as with `state_since`."""
        self.spent_generation = 0
        """The last that members were told of and the log has lost; 0 if none. Not durable."""
        self.protocol_type: str | None = None
        """None for a simple group, which has only offsets."""
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = NOTHING
        self.static_members: dict[str, str] = NOTHING
        """Member ids by group instance id."""
        self.pending: dict[str, PendingMember] = NOTHING
        self.pending_sync: dict[str, None] = NOTHING
        """Members of this generation that have not sent SyncGroup, in the order of joining."""
        self.awaiting_join = 0
        """How many members have a JoinGroup parked."""
        self.last_to_join: ClassicMember | None = None
        """The last of the members to send JoinGroup."""
        self.last_joined_at = 0
        """When that came, in monotonic milliseconds."""
        self.supported_protocols: dict[str, int] = NOTHING
        """How many members support each protocol."""
        self.new_member_added = False
        """Whether a member joined during the initial rebalance delay, which extends it."""
        self.history = History()

    # --- state ---

    def transition_to(self, state: ClassicGroupState, wall: int) -> None:
        """Change the state; an illegal change is a bug."""
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise RuntimeError(f"group {self.group_id!r}: {self.state} -> {state} is not legal")
        self.previous_state = self.state
        self.state = state
        self.state_since = wall

    @property
    def last_generation(self) -> int:
        """The last that anybody may have been told of; the next rebalance begins behind it."""
        return max(self.generation, self.spent_generation)

    def begin_generation(self, wall: int) -> None:
        """Give the group its next generation, whose number no member can know yet."""
        last, self.spent_generation = self.last_generation, 0
        self.generation = 1 if last == MAX_GENERATION else last + 1
        self.generation_since = wall

    @property
    def has_all_members_joined(self) -> bool:
        """Everybody has a JoinGroup parked, and no handed-out member id is unused."""
        return self.awaiting_join == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members' rebalance timeouts."""
        longest = 0
        for member in self.members.values():
            if member.rebalance_timeout_ms > longest:  # noqa: PLR1730 - `max` is a call each
                longest = member.rebalance_timeout_ms
        return longest

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance could be prepared from this state."""
        return self.state in VALID_PREVIOUS_STATES[PREPARING_REBALANCE]

    # --- members ---

    def add(
        self, member: ClassicMember, protocol_type: str, token: Token | None, now: int = 0
    ) -> None:
        """Take in a member, with its parked JoinGroup if one came `now`; the first one leads."""
        if member.group_instance_id is not None:
            self.static_members = self.static_members or {}
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = text_alike(protocol_type)
            self.members, self.supported_protocols = {}, {}
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.park_join(member, token, now)
        self._forget_pending(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Forget a member or a pending member id; the longest-serving member leads on.

        Its parked replies must have been answered.
        """
        self._forget_pending(member_id)
        self.has_synced(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count_protocols(member, -1)
        if not self.members:
            self.members = self.supported_protocols = NOTHING
        if self.last_to_join is member:
            self.last_to_join = None
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
            self.static_members = self.static_members or NOTHING
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def add_pending(self, member_id: str, pending: PendingMember) -> None:
        """Await the JoinGroup of who was handed out a member id."""
        self.pending = self.pending or {}
        self.pending[member_id] = pending

    def _forget_pending(self, member_id: str) -> None:
        if member_id in self.pending:
            del self.pending[member_id]
            self.pending = self.pending or NOTHING

    def has_synced(self, member_id: str) -> None:
        """Await no SyncGroup of a member any more."""
        if member_id in self.pending_sync:
            del self.pending_sync[member_id]
            self.pending_sync = self.pending_sync or NOTHING

    def replace_static(self, old: ClassicMember, new_member_id: str) -> ClassicMember:
        """Give a static member a new id; its assignment and leadership go with it.

        The old member's parked replies must have been answered.
        """
        new = ClassicMember(
            new_member_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        del self.members[old.member_id]
        self.members[new_member_id] = new
        if self.leader == old.member_id:
            self.leader = new_member_id
        assert old.group_instance_id is not None
        self.static_members[old.group_instance_id] = new_member_id
        if old.member_id in self.pending_sync:
            del self.pending_sync[old.member_id]
            self.pending_sync[new_member_id] = None
        return new

    def update(
        self,
        member: ClassicMember,
        protocols: Sequence[ProtocolMetadata],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Take over what a member says when it joins again."""
        said = tuple(protocols)
        if said != member.protocols:
            self._count_protocols(member, -1)
            member.protocols = protocols_alike(said)
            self._count_protocols(member, 1)
        if rebalance_timeout_ms != member.rebalance_timeout_ms:
            member.rebalance_timeout_ms = timeout_alike(rebalance_timeout_ms)
        if session_timeout_ms != member.session_timeout_ms:
            member.session_timeout_ms = timeout_alike(session_timeout_ms)

    def park_join(self, member: ClassicMember, token: Token | None, now: int = 0) -> None:
        """Park a member's JoinGroup that came `now`, or note that it has been answered."""
        self.awaiting_join += (token is not None) - (member.join_token is not None)
        member.join_token = token
        if token is not None:
            self.last_to_join, self.last_joined_at = member, now

    # --- protocols ---

    def supports_protocols(self, protocol_type: str, protocols: Sequence[ProtocolMetadata]) -> bool:
        """Whether a member with these protocols could be in the group."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        everybody, supporters = len(self.members), self.supported_protocols
        for name, _ in protocols:  # noqa: SIM110 - a generator takes longer
            if supporters.get(name, 0) == everybody:
                return True
        return False

    def _count_protocols(self, member: ClassicMember, by: int) -> None:
        counts = self.supported_protocols
        for name in {name for name, _ in member.protocols}:
            counts[name] = counts.get(name, 0) + by
            if not counts[name]:
                del counts[name]

    # --- deadlines ---

    def renew(self, member_id: str, instance_id: str | None, generation: int, now: int) -> bool:
        """See GroupKind; members may heartbeat between JoinGroup and the leader's SyncGroup."""
        member = self.members.get(member_id)
        if (
            member is None
            or generation != self.generation
            or self.state is PREPARING_REBALANCE
            or (instance_id is not None and self.static_members.get(instance_id) != member_id)
        ):
            return False
        self.renew_session(member, now)
        return True

    def renew_session(self, member: ClassicMember, now: int) -> None:
        """Give a member a full session timeout from now."""
        deadline = member.session_deadline = now + member.session_timeout_ms
        if deadline < self.purgatory.wake:
            self.purgatory.watch(deadline)

    def take_parked(self) -> list[Token]:
        """The tokens of all parked requests, which are parked no more."""
        tokens = []
        for member in self.members.values():
            tokens += [t for t in (member.join_token, member.sync_token) if t is not None]
            self.park_join(member, None)
            member.sync_token = None
        return tokens
