"""The shapes in which a group kind describes a group to the observers and counts it for metrics."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator_server.group.rebalance_events import Culprit

WAITING_PHASES = ("join", "sync", "pending")
"""The phases in which groups wait: for members to join or sync, or to use a new member id."""

MEMBER_KINDS = ("dynamic", "static", "pending")
"""How a member belongs to a classic group; pending ids have not joined yet."""


class MemberPresence(NamedTuple):
    """A member and the API of its parked request."""

    api: str
    member: Culprit


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """A member of a group as it is now."""

    member: Culprit
    session_timeout_ms: int
    rebalance_timeout_ms: int
    waits_for: str | None
    """`join` or `sync` while a request of the member is unanswered, else None."""
    topics: Sequence[str] = ()
    """The topics of a consumer's subscription, if it can be read."""
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
    """The awaited members of a group, and the deadline in wall-clock milliseconds."""

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


@dataclass(slots=True)
class Census:
    """Counts over all groups."""

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
