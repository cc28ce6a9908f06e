"""Why a group rebalanced, who caused it and what it cost - as data.

Nobody changes what has been observed. It is not frozen, because that takes three times as long to
make, and every rebalance does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class RebalanceReason(StrEnum):
    """Why a rebalance, or a further round of it, began. Closed: these are metric labels."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_EXPIRED = "session_expired"
    SYNC_TIMEOUT = "sync_timeout"
    PENDING_EXPIRED = "pending_expired"
    STATIC_REPLACED = "static_replaced"
    LEADER_REJOINED = "leader_rejoined"
    FOLLOWER_REJOINED = "follower_rejoined"
    METADATA_CHANGED = "metadata_changed"
    ASSIGNMENT_APPEND_FAILED = "assignment_append_failed"
    ADMIN_REMOVED = "admin_removed"
    ADMIN_REBALANCE = "admin_rebalance"
    OVER_CAPACITY = "over_capacity"


class RemovalReason(StrEnum):
    """Why a member, or a pending member id, is gone."""

    LEFT = "left"
    SESSION_EXPIRED = "session_expired"
    JOIN_TIMEOUT = "join_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    PENDING_EXPIRED = "pending_expired"
    ADMIN_REMOVED = "admin_removed"
    OVER_CAPACITY = "over_capacity"


class OffsetsRemovedReason(StrEnum):
    """Why committed offsets are gone."""

    DELETED = "deleted"
    EXPIRED = "expired"
    TOPIC_DELETED = "topic_deleted"


class Outcome(StrEnum):
    """How a rebalance ended."""

    COMPLETED = "completed"
    EMPTIED = "emptied"
    ABORTED = "aborted"
    """The tenure of the partition ended; the group goes on from its last durable generation."""


MAX_KEPT_CHARS: Final = 255
"""Of a client's text where it is remembered for people to read."""


def brief(text: str, most: int = MAX_KEPT_CHARS) -> str:
    """A text cut to `most` characters, the last of which then says so."""
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


class Culprit(NamedTuple):
    """The member that caused an event, as the coordinator knows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str

    def brief(self) -> "Culprit":
        """The same to a reader, for those who keep many: clients may send 32 KiB for each."""
        member_id, instance_id, client_id, client_host = self
        characters = len(member_id) + len(instance_id or "") + len(client_id) + len(client_host)
        if characters <= MAX_KEPT_CHARS:
            return self
        return Culprit._make(text and brief(text) for text in self)


NOBODY: Final = Culprit("", None, "", "")
"""The culprit where it is no member: an operator."""


class Waited(NamedTuple):
    """A member that was waited for, and for how long in all (milliseconds)."""

    member: Culprit
    waited_ms: int


class Round(NamedTuple):
    """The cause of a round of the join phase; the first one began the rebalance."""

    reason: RebalanceReason
    culprit: Culprit
    client_reason: str | None


class Counts(NamedTuple):
    """How many there were; the lists of an event may be cut."""

    joined: int
    left: int
    evicted: int
    waited_for: int
    rounds: int


NOT_WRITTEN: Final = -1
"""The sequence of a rebalance that is not in the log, because its tenure ended."""
FIRST_SEQUENCE: Final = 0
"""That of a rebalance before which the log has none."""


@dataclass(slots=True, init=False)
class RebalanceStarted:
    """Provisional: a rebalance has begun. Counters count ends, not this."""

    group_id: str
    reason: RebalanceReason
    client_reason: str | None
    culprit: Culprit
    generation: int
    members: int
    started_ms: int
    """Wall-clock milliseconds."""

    def __init__(
        self,
        group_id: str,
        reason: RebalanceReason,
        client_reason: str | None,
        culprit: Culprit,
        generation: int,
        members: int,
        started_ms: int,
    ) -> None:
        self.group_id = group_id
        self.reason = reason
        self.client_reason = client_reason
        self.culprit = culprit
        self.generation = generation
        self.members = members
        self.started_ms = started_ms


@dataclass(slots=True, init=False)
class RebalanceEvent:
    """A finished rebalance: from leaving Stable or Empty to Stable, Empty or the tenure's end."""

    group_id: str
    reason: RebalanceReason
    client_reason: str | None
    """The client's own words (KIP-800), cut to a bound."""
    culprit: Culprit
    state_before: str
    outcome: Outcome
    generation_before: int
    generation_after: int
    started_ms: int
    """Wall-clock milliseconds, as `ended_ms`."""
    ended_ms: int
    join_phase_ms: int
    """Measured by the monotonic clock, as `sync_phase_ms`."""
    sync_phase_ms: int
    members_before: int
    members_after: int
    joined: tuple[Culprit, ...]
    left: tuple[Culprit, ...]
    evicted: tuple[Culprit, ...]
    waited_for: tuple[Waited, ...]
    """The members that joined last or never, and the leader while others waited
    for its assignment."""
    rounds: tuple[Round, ...]
    counts: Counts
    sequence: int
    """Order within the group; survives restarts."""

    def __init__(
        self,
        group_id: str,
        reason: RebalanceReason,
        client_reason: str | None,
        culprit: Culprit,
        state_before: str,
        outcome: Outcome,
        generation_before: int,
        generation_after: int,
        started_ms: int,
        ended_ms: int,
        join_phase_ms: int,
        sync_phase_ms: int,
        members_before: int,
        members_after: int,
        joined: tuple[Culprit, ...],
        left: tuple[Culprit, ...],
        evicted: tuple[Culprit, ...],
        waited_for: tuple[Waited, ...],
        rounds: tuple[Round, ...],
        counts: Counts,
        sequence: int = NOT_WRITTEN,
    ) -> None:
        self.group_id = group_id
        self.reason = reason
        self.client_reason = client_reason
        self.culprit = culprit
        self.state_before = state_before
        self.outcome = outcome
        self.generation_before = generation_before
        self.generation_after = generation_after
        self.started_ms = started_ms
        self.ended_ms = ended_ms
        self.join_phase_ms = join_phase_ms
        self.sync_phase_ms = sync_phase_ms
        self.members_before = members_before
        self.members_after = members_after
        self.joined = joined
        self.left = left
        self.evicted = evicted
        self.waited_for = waited_for
        self.rounds = rounds
        self.counts = counts
        self.sequence = sequence

    @property
    def duration_ms(self) -> int:
        """Both phases together."""
        return self.join_phase_ms + self.sync_phase_ms


@dataclass(slots=True)
class MemberRemoved:
    """A member or a pending member id is gone."""

    group_id: str
    reason: RemovalReason
    member: Culprit


@dataclass(slots=True)
class OffsetsRemoved:
    """Committed offsets are gone."""

    group_id: str
    reason: OffsetsRemovedReason
    offsets: int


@dataclass(slots=True)
class Refused:
    """A request was refused; equal ones that follow are counted where they are kept."""

    at_ms: int
    """Wall-clock milliseconds."""
    group_id: str
    api: str
    """As in `Heartbeat`."""
    error: str
    """As in `ILLEGAL_GENERATION`."""
    rule: str
    """The name of the rule that refused it."""
    detail: str
    """A sentence for people: what was sent, and what was expected."""
    member: Culprit
    """The caller of a refused request, as far as it is known."""
    of_all: bool = False
    """Told to every member alike; `member` is the first."""


@dataclass(slots=True)
class GroupRemoved:
    """A group is gone, and with it the history of its rebalances."""

    group_id: str
    past: Sequence[RebalanceEvent]
    """The oldest first; unpacked when it is looked at."""


Observation = (
    RebalanceStarted | RebalanceEvent | MemberRemoved | OffsetsRemoved | Refused | GroupRemoved
)
