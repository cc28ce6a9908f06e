"""Values that a server must or may hold: acknowledged ones and unanswered ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass
class UncertainValue(Generic[Value]):
    """One value that changes; None is its absence."""

    acknowledged: Value | None = None
    attempted: list[Value | None] = field(default_factory=list)
    """Sent after that, unanswered."""

    def attempt(self, value: Value | None) -> None:
        """It is about to be sent."""
        self.attempted.append(value)

    def acknowledge(self, value: Value | None) -> None:
        """It was answered; what was sent before cannot show up any more."""
        self.acknowledged = value
        self.attempted.clear()

    def found(self, value: Value | None) -> bool:
        """Take what a server shows after a crash for settled; whether it may be shown."""
        allowed = value == self.acknowledged or value in self.attempted
        self.acknowledge(value)
        return allowed

    def __str__(self) -> str:
        sent = f", {self.attempted} sent after it" if self.attempted else ""
        return f"{self.acknowledged} was acknowledged{sent}"


Commit = tuple[int, str]
"""Offset and metadata."""


class Offsets:
    """The offsets of one group, by partition of its topic."""

    def __init__(self, partitions: int) -> None:
        self.values: list[UncertainValue[Commit]] = [UncertainValue() for _ in range(partitions)]

    def attempt(self, changes: Mapping[int, Commit | None]) -> None:
        """They are about to be sent."""
        for partition, change in changes.items():
            self.values[partition].attempt(change)

    def acknowledge(self, changes: Mapping[int, Commit | None]) -> None:
        """They were answered."""
        for partition, change in changes.items():
            self.values[partition].acknowledge(change)

    def found(self, there: Mapping[int, Commit]) -> list[str]:
        """Sentences for each value that a server must not return after a crash."""
        problems = []
        for partition, value in enumerate(self.values):
            owed = str(value)
            if not value.found(there.get(partition)):
                problems.append(f"partition {partition}: {owed}, {there.get(partition)} is there")
        return problems
