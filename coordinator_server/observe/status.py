"""What the observers ask of the running coordinator, and the shapes of its answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from coordinator_server.group.reasons import Culprit, RebalanceEvent

PARTITION_STATES = ("initial", "loading", "active", "failed", "closed")
"""States of a coordinator partition, as they are named in metrics and JSON."""

MEMBER_KINDS = ("dynamic", "static", "pending")
"""How a member belongs to a classic group; pending ids have not joined yet."""


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """A member of a group as it is now."""

    member: Culprit
    session_timeout_ms: int
    rebalance_timeout_ms: int
    waits_for: str | None
    """`join` or `sync` while a request of the member is unanswered, else None."""
    topics: Sequence[str] = ()
    """What it subscribes to, if it is a consumer and that can be read."""
    assigned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Partitions by topic, if it is a consumer and that can be read."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group in a list of groups."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    generation: int
    members: int


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group with its members, and whom it waits for."""

    summary: GroupSummary
    leader: str | None
    members: Sequence[MemberStatus]
    waiting_for: Sequence[Culprit]
    """Members that hold the rebalance up: not rejoined, not synced, or pending ids."""
    state_since_ms: int | None = None
    """Wall-clock milliseconds; None if an old record did not say."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """A member, or a member id that was handed out, that a group waits for."""

    member: Culprit
    kind: str
    """One of `MEMBER_KINDS`."""
    awaited_for: str
    """`join` or `sync`."""
    since_ms: int
    """Wall-clock milliseconds, as `deadline_ms`."""
    deadline_ms: int
    """When the group goes on without it."""


@dataclass(frozen=True, slots=True)
class WaitingStatus:
    """What a group waits for, and until when; wall-clock milliseconds."""

    group_id: str
    state: str
    phase: str | None
    """`join` or `sync`; None while no rebalance is under way."""
    since_ms: int | None
    """When the phase began."""
    deadline_ms: int | None
    """When it ends whoever is missing."""
    waiting: Sequence[Awaited]
    joined: int
    """Members that have done their part in this phase."""
    expected: int
    """Members and handed-out ids that have to."""


@dataclass(frozen=True, slots=True)
class OffsetStatus:
    """A committed offset."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    """-1: unknown."""
    metadata: str
    commit_ms: int
    """Wall-clock milliseconds."""
    expire_ms: int | None
    """When it expires if nothing changes; None while it is in use."""


@dataclass(frozen=True, slots=True)
class AdminResult:
    """What became of an operator's wish."""

    error: str
    """Kafka's name of the error; `NONE` is success."""
    detail: str = ""
    """For people."""

    @property
    def succeeded(self) -> bool:
        """Whether it was done."""
        return self.error == "NONE"


class GroupAdmin(Protocol):
    """What operators may do to groups; each is answered when it is durable, and raises nothing."""

    async def kick(
        self, group_id: str, member_id: str, group_instance_id: str | None, reason: str
    ) -> AdminResult:
        """Remove a member, by its id or, with an empty one, by its instance id."""
        ...

    async def force_rebalance(self, group_id: str, reason: str) -> AdminResult:
        """Make the members of a Stable group join anew."""
        ...

    async def delete_group(self, group_id: str) -> AdminResult:
        """Delete an Empty group, with its offsets and its history."""
        ...

    async def reset_offsets(
        self, group_id: str, offsets: Sequence[tuple[str, int, int]]
    ) -> AdminResult:
        """Commit (topic, partition, offset) for an Empty group."""
        ...


class StatusSource(Protocol):
    """The coordinator as the observers see it; every method is called on the event loop."""

    def partitions(self) -> Mapping[str, int]:
        """Number of coordinator partitions by state (`PARTITION_STATES`; absent is 0)."""
        ...

    def loading(self) -> Mapping[int, tuple[int, int]]:
        """Bytes read and bytes in all, by coordinator partition that is being loaded."""
        ...

    def group_counts(self) -> Mapping[tuple[str, str], int]:
        """Number of groups by (state, protocol type)."""
        ...

    def member_counts(self) -> Mapping[str, int]:
        """Number of members by kind (`MEMBER_KINDS`; absent is 0)."""
        ...

    def offset_count(self) -> int:
        """Number of committed offsets that are kept."""
        ...

    def groups(self) -> Sequence[GroupSummary]:
        """All groups."""
        ...

    def group_ids(self) -> Sequence[str]:
        """The ids of all groups, sorted: for lists too long to be made in one turn of the loop."""
        ...

    def summary(self, group_id: str) -> GroupSummary | None:
        """A group as it is listed, or None where there is none of that id."""
        ...

    def group(self, group_id: str) -> GroupStatus | None:
        """A group, or None where there is none of that id."""
        ...

    def waiting(self, group_id: str) -> WaitingStatus | None:
        """Whom a group waits for, or None where there is none of that id."""
        ...

    def offsets(self, group_id: str) -> Sequence[OffsetStatus]:
        """The committed offsets of a group, by topic and partition."""
        ...

    def past(self, group_id: str) -> Sequence[RebalanceEvent]:
        """The finished rebalances of a group that its log has, the oldest first."""
        ...
