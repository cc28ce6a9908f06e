"""Why a group rebalanced, who caused it and what it cost - as data."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class RebalanceReason(StrEnum):
    """Why a rebalance, or a further round of it, began. Closed: these are metric labels."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_EXPIRED = "session_expired"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SYNC_TIMEOUT = "sync_timeout"
    PENDING_EXPIRED = "pending_expired"
    STATIC_REPLACED = "static_replaced"
    LEADER_REJOINED = "leader_rejoined"
    METADATA_CHANGED = "metadata_changed"
    ASSIGNMENT_APPEND_FAILED = "assignment_append_failed"
    ADMIN_REMOVED = "admin_removed"
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


class Culprit(NamedTuple):
    """Who caused something: the member as the coordinator knows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str


class Round(NamedTuple):
    """What set a rebalance back while it was under way; the first round is the rebalance's."""

    reason: RebalanceReason
    culprit: Culprit
    client_reason: str | None


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    """Wall-clock milliseconds."""
    join_phase_ms: int
    sync_phase_ms: int
    members_before: int
    members_after: int
    joined: tuple[Culprit, ...]
    left: tuple[Culprit, ...]
    evicted: tuple[Culprit, ...]
    waited_for: tuple[Culprit, ...]
    """Who came last to the join phase, or did not come at all."""
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    """A member or a pending member id is gone."""

    group_id: str
    reason: RemovalReason
    member: Culprit


@dataclass(frozen=True, slots=True)
class OffsetsRemoved:
    """Committed offsets are gone."""

    group_id: str
    reason: OffsetsRemovedReason
    offsets: int


Observation = RebalanceStarted | RebalanceEvent | MemberRemoved | OffsetsRemoved
