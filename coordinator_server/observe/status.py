"""What the observers ask of the running coordinator, and the shapes of its answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator_server.group.reasons import Culprit

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

    def group(self, group_id: str) -> GroupStatus | None:
        """A group, or None where there is none of that id."""
        ...
