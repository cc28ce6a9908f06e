"""The observers' view of the running coordinator, and its data types."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from coordinator_server.group.rebalance_events import RebalanceEvent
from coordinator_server.group.status import (
    MEMBER_KINDS,
    WAITING_PHASES,
    Awaited,
    Census,
    GroupStatus,
    GroupSummary,
    MemberStatus,
    WaitingStatus,
)

__all__ = [
    "MEMBER_KINDS",
    "MEMORY_KINDS",
    "PARTITION_STATES",
    "WAITING_PHASES",
    "AdminResult",
    "Awaited",
    "Census",
    "GroupAdmin",
    "GroupGauges",
    "GroupStatus",
    "GroupSummary",
    "MemberStatus",
    "OffsetStatus",
    "StatusSource",
    "Unserved",
    "WaitingStatus",
]

PARTITION_STATES = ("initial", "loading", "active", "failed", "closed")
"""States of a coordinator partition, as they are named in metrics and JSON."""

MEMORY_KINDS = ("groups", "members", "offsets")
"""The estimated memory held for clients."""


class Unserved(NamedTuple):
    """A coordinator partition that does not serve."""

    partition: int
    state: str
    """One of `PARTITION_STATES`."""
    error: str
    """Why it failed last; empty if it has not failed."""


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
    """The result of an operator's request."""

    error: str
    """Kafka's name of the error; `NONE` is success."""
    detail: str = ""
    """For people."""

    @property
    def succeeded(self) -> bool:
        """Whether it was done."""
        return self.error == "NONE"


class GroupAdmin(Protocol):
    """The actions of operators on groups; each returns when it is durable, and raises nothing."""

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
