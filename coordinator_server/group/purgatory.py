"""The purgatory: delayed operations as data.

A delayed operation is a deadline here or on a member. Nothing is scheduled: `wake` is a lower
bound of all deadlines, and whoever owns the group looks again at that time. A deadline that
moves later costs nothing, the look comes early, finds nothing due and sets a later `wake`.
"""

from dataclasses import dataclass
from typing import Final

NEVER: Final = 2**63 - 1
"""The deadline of what is not awaited; monotonic milliseconds stay far below it."""


@dataclass(slots=True, init=False)
class DelayedJoin:
    """When the join phase ends whoever has joined (Kafka's DelayedJoin)."""

    deadline: int
    initial: bool
    """The first rebalance of an Empty group: newcomers extend it (KIP-134)."""
    delay_ms: int
    remaining_ms: int
    """How much further the initial delay may be extended."""

    def __init__(
        self,
        deadline: int,
        initial: bool = False,
        delay_ms: int = 0,
        remaining_ms: int = 0,
    ) -> None:
        self.deadline = deadline
        self.initial = initial
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms


@dataclass(slots=True, init=False)
class DelayedSync:
    """When members that have not sent SyncGroup are removed (KAFKA-12443)."""

    deadline: int

    def __init__(self, deadline: int) -> None:
        self.deadline = deadline


class Purgatory:
    """The deadlines of a group besides the sessions of its members."""

    __slots__ = ("join", "sync", "wake")

    def __init__(self) -> None:
        self.join: DelayedJoin | None = None
        self.sync: DelayedSync | None = None
        self.wake: int = NEVER
        """When to look: no deadline lies before this, but for sessions of large groups."""

    def watch(self, deadline: int) -> int:
        """Make sure that `deadline` is looked at; returns it."""
        self.wake = min(self.wake, deadline)
        return deadline

    def delay_join(self, operation: DelayedJoin) -> None:
        """Await the members' JoinGroups."""
        self.join = operation
        self.watch(operation.deadline)

    def delay_sync(self, operation: DelayedSync) -> None:
        """Await the members' SyncGroups."""
        self.sync = operation
        self.watch(operation.deadline)
