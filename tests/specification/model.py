"""The types of the specification: situations of a group and outcomes of an event."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.classic.state import ClassicGroupState
from coordinator_server.group.events import Event
from coordinator_server.group.rebalance_events import RebalanceReason, RemovalReason


class Situation(StrEnum):
    """Where a group can stand: Kafka's states, one of them in two parts, or no group at all."""

    ABSENT = "absent"
    """There is no group under the id; DescribeGroups calls this Dead."""
    EMPTY = "Empty"
    DELAYED = "PreparingRebalance (initial delay)"
    """The first rebalance of an Empty group: only time ends it (KIP-134)."""
    PREPARING = "PreparingRebalance"
    """Any other: it ends when everybody has joined, or at the rebalance timeout."""
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    @property
    def state(self) -> ClassicGroupState | None:
        """The group's state; None if there is no group."""
        return _STATES[self]


_STATES: Final[dict[Situation, ClassicGroupState | None]] = {
    Situation.ABSENT: None,
    Situation.EMPTY: ClassicGroupState.EMPTY,
    Situation.DELAYED: ClassicGroupState.PREPARING_REBALANCE,
    Situation.PREPARING: ClassicGroupState.PREPARING_REBALANCE,
    Situation.COMPLETING: ClassicGroupState.COMPLETING_REBALANCE,
    Situation.STABLE: ClassicGroupState.STABLE,
    Situation.DEAD: ClassicGroupState.DEAD,
}


class Answer(Enum):
    """What whoever asked gets, where it is no error code."""

    PARKED = "parked"
    """Nothing yet: the answer comes with a later event."""


class Written(StrEnum):
    """A kind of record."""

    GROUP = "group"
    GROUP_TOMBSTONE = "group tombstone"
    REBALANCE = "rebalance"
    REBALANCE_TOMBSTONE = "rebalance tombstone"
    OFFSET = "offset"
    OFFSET_TOMBSTONE = "offset tombstone"


@dataclass(frozen=True, slots=True)
class Entry:
    """What an event does in one situation."""

    answer: ErrorCode | Answer | None = None
    """NONE is success; None where nobody asked."""
    then: Situation | None = None
    """The next situation; None for the same."""
    writes: frozenset[Written] = frozenset()
    reason: RebalanceReason | None = None
    """Why a rebalance, or a further round of the one under way, begins."""
    removes: RemovalReason | None = None
    """Why members, or member ids that were handed out, are gone."""
    releases: frozenset[ErrorCode] = frozenset()
    """What requests that were parked before are answered."""
    renews: bool = False
    """Whether the session of the member concerned starts anew."""
    never: str = ""
    """Why this cannot happen."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of event, by who sends it or what makes it."""

    key: str
    event: type[Event]
    occasion: str
    entries: Mapping[Situation, Entry]


def row(
    key: str,
    event: type[Event],
    occasion: str,
    *,
    absent: Entry,
    empty: Entry,
    delayed: Entry,
    preparing: Entry,
    completing: Entry,
    stable: Entry,
) -> Row:
    """A row of the table; a group that ends is absent at once, so that none is ever Dead."""
    return Row(
        key,
        event,
        occasion,
        {
            Situation.ABSENT: absent,
            Situation.EMPTY: empty,
            Situation.DELAYED: delayed,
            Situation.PREPARING: preparing,
            Situation.COMPLETING: completing,
            Situation.STABLE: stable,
            Situation.DEAD: never("a group that ends is absent"),
        },
    )


def alike(
    key: str,
    event: type[Event],
    occasion: str,
    *,
    absent: Entry,
    empty: Entry,
    occupied: Entry,
) -> Row:
    """A row whose outcome is the same wherever the group has, or waits for, members."""
    return row(
        key,
        event,
        occasion,
        absent=absent,
        empty=empty,
        delayed=occupied,
        preparing=occupied,
        completing=occupied,
        stable=occupied,
    )


def same(key: str, event: type[Event], occasion: str, entry: Entry) -> Row:
    """A row whose outcome does not depend on the group."""
    return row(
        key,
        event,
        occasion,
        absent=entry,
        empty=entry,
        delayed=entry,
        preparing=entry,
        completing=entry,
        stable=entry,
    )


def answered(
    answer: ErrorCode | Answer | None,
    *writes: Written,
    then: Situation | None = None,
    reason: RebalanceReason | None = None,
    removes: RemovalReason | None = None,
    releases: ErrorCode | frozenset[ErrorCode] = frozenset(),
    renews: bool = False,
) -> Entry:
    """An outcome, of an event that somebody waits for."""
    return Entry(answer, then, frozenset(writes), reason, removes, _set(releases), renews)


def silent(
    *writes: Written,
    then: Situation | None = None,
    reason: RebalanceReason | None = None,
    removes: RemovalReason | None = None,
    releases: ErrorCode | frozenset[ErrorCode] = frozenset(),
    renews: bool = False,
) -> Entry:
    """An outcome, of an event that nobody waits for."""
    return Entry(None, then, frozenset(writes), reason, removes, _set(releases), renews)


def _set(releases: ErrorCode | frozenset[ErrorCode]) -> frozenset[ErrorCode]:
    return frozenset({releases} if isinstance(releases, ErrorCode) else releases)


def never(why: str) -> Entry:
    """A pair that cannot come about."""
    return Entry(never=why)


NOBODY: Final = never("there are no members")
NO_JOIN_PHASE: Final = never("nobody is waited for")
