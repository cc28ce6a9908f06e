"""What the observers ask of the running coordinator, and the shapes of its answers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from coordinator_server.group.rebalance_events import Culprit, RebalanceEvent

PARTITION_STATES = ("initial", "loading", "active", "failed", "closed")
"""States of a coordinator partition, as they are named in metrics and JSON."""

WAITING_PHASES = ("join", "sync", "pending")
"""What groups wait for: members that have not joined or synced, and ids that nobody uses yet."""

MEMBER_KINDS = ("dynamic", "static", "pending")
"""How a member belongs to a classic group; pending ids have not joined yet."""


MEMORY_KINDS = ("groups", "members", "offsets")
"""What is kept for clients, as far as it is estimated."""


class Unserved(NamedTuple):
    """A coordinator partition that does not serve."""

    partition: int
    state: str
    """One of `PARTITION_STATES`."""
    error: str
    """Why it failed last; empty if it has not failed."""


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


@dataclass(slots=True)
class Census:
    """What there is in all groups together."""

    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By state and protocol type."""
    members: Counter[str] = field(default_factory=Counter)
    """By kind (`MEMBER_KINDS`)."""
    offsets: int = 0
    """Committed ones."""
    pending_offsets: int = 0
    """Of open transactions."""
    oldest_pending_ms: int | None = None
    """When the oldest of those was sent (wall-clock milliseconds)."""
    waiting: Counter[str] = field(default_factory=Counter)
    """Whom groups wait for, as in `GroupGauges`."""
    queued_events: int = 0
    """Requests and timers that wait for their turn in the mailboxes of groups."""
    memory_bytes: Counter[str] = field(default_factory=Counter)
    """Estimated, by kind (`MEMORY_KINDS`)."""

    @classmethod
    def whole(cls, counting: "Iterable[Census]") -> "Census":
        """The end of a count, all at once."""
        census = cls()
        for census in counting:  # noqa: B007 - the last one is whole
            pass
        return census


class GroupGauges(NamedTuple):
    """A group in numbers, cheap to make."""

    state: str
    generation: int
    members: int
    waiting: Mapping[str, int]
    """Whom it waits for, by `WAITING_PHASES`."""
    last_rebalance_ms: int | None
    """When the last rebalance in its log ended (wall-clock milliseconds)."""


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

    def unserved(self) -> Sequence[Unserved]:
        """The coordinator partitions that do not serve, and why."""
        ...

    def max_groups(self) -> int:
        """How many groups the settings allow."""
        ...

    def loading(self) -> Mapping[int, tuple[int, int]]:
        """Bytes read and bytes in all, by coordinator partition that is being loaded."""
        ...

    def census(self) -> Iterator[Census]:
        """Count all groups, a few at a time: the same census ever more complete, whole at the end.

        Whoever iterates may let others have their turn between.
        """
        ...

    def gauges(self, group_id: str) -> GroupGauges | None:
        """A group in numbers, or None where there is none of that id."""
        ...

    def each_offset(self, group_id: str, *, only_expiring: bool = False) -> Iterator[OffsetStatus]:
        """The committed offsets of a group, made one by one; those removed meanwhile are not.

        `only_expiring` leaves out those of topics whose offsets are in use.
        """
        ...

    def groups(self) -> Sequence[GroupSummary]:
        """All groups."""
        ...

    def group_ids(self) -> Iterator[list[str]]:
        """The ids of all groups, some at a time: all may be too many for one turn of the loop.

        The ids of each list are sorted.
        """
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
