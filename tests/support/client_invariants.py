"""Checks invariants over the events of all clients of one group and topic.

The rules: a partition has one owner per generation and one at a time; generations of answered
SyncGroups rise; every acknowledged record is consumed; no acknowledged commit is lost.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

from tests.support.client_events import Event

Tenure = tuple[float, float, str]
"""Start, end (wall clock, seconds) and member of the ownership of a partition."""

STILL = float("inf")


class ClientInvariants:
    """Takes events of several members in any order; the events of each member in order."""

    def __init__(self, partitions: int) -> None:
        """Check a topic with this number of partitions."""
        self.partitions = partitions
        self.assignments: list[Event] = []
        self.errors: list[Event] = []
        self.holding: dict[str, set[int]] = defaultdict(set)
        self.generation: dict[str, int] = {}
        """The generation of each member's last assignment."""
        self.produced: set[tuple[int, int]] = set()
        self.consumed: set[tuple[int, int]] = set()
        self.acknowledged: dict[int, int] = {}
        """The last acknowledged commit of each partition."""
        self._committed_at: dict[int, float] = {}
        self._started: dict[str, float] = {}
        self._since: dict[tuple[str, int], float] = {}
        self._tenures: dict[int, list[Tenure]] = defaultdict(list)

    def observe(self, event: Event) -> None:
        """Record an event."""
        match event.event:
            case "started":
                self._started[event.member] = event.at
            case "assigned":
                self._assigned(event)
            case "revoked":
                self._released(event, set(event.partitions))
            case "paused" | "killed" | "left":
                self._released(event, set(self.holding[event.member]))
            case "records":
                self.consumed.update((event.partition, offset) for offset in event.offsets)
            case "produced":
                self.produced.update((event.partition, offset) for offset in event.offsets)
            case "commit":
                self._acknowledged(event)
            case "error":
                self.errors.append(event)

    def _assigned(self, event: Event) -> None:
        self.assignments.append(event)
        self.generation[event.member] = event.generation
        if not event.incremental:
            self._released(event, set(self.holding[event.member]))
        for partition in event.partitions:
            self.holding[event.member].add(partition)
            self._since[event.member, partition] = event.at

    def _released(self, event: Event, partitions: set[int]) -> None:
        for partition in partitions & self.holding[event.member]:
            self.holding[event.member].discard(partition)
            since = self._since.pop((event.member, partition))
            self._tenures[partition].append((since, event.at, event.member))

    def _acknowledged(self, event: Event) -> None:
        if event.at >= self._committed_at.get(event.partition, 0.0):
            self._committed_at[event.partition] = event.at
            self.acknowledged[event.partition] = event.offsets[-1]

    def settled(self, members: Collection[str], *, same_generation: bool = True) -> bool:
        """Whether these members hold every partition once, in one generation."""
        held = sorted(partition for name in members for partition in self.holding[name])
        generations = {self.generation.get(name, -1) for name in members}
        return (
            held == list(range(self.partitions))
            and -1 not in generations
            and (len(generations) == 1 or not same_generation)
        )

    def started(self, member: str) -> bool:
        """Whether a client has started."""
        return member in self._started

    def last_generation(self) -> int:
        """The highest generation any member was assigned in, -1 before the first."""
        return max((event.generation for event in self.assignments), default=-1)

    def unread(self) -> set[tuple[int, int]]:
        """(partition, offset) of acknowledged records that no member has consumed."""
        return self.produced - self.consumed

    def violations(self) -> list[str]:
        """A sentence for each violated invariant."""
        return [
            *self._shared_partitions(),
            *self._overlaps(),
            *self._falling_generations(),
            *self._reissued_generations(),
        ]

    def lost_commits(self, committed: Mapping[int, int]) -> list[str]:
        """Partitions whose committed offset is behind the last acknowledged commit."""
        return [
            f"partition {partition}: commit of {offset} was acknowledged, "
            f"{committed.get(partition, -1)} is there"
            for partition, offset in sorted(self.acknowledged.items())
            if committed.get(partition, -1) < offset
        ]

    def _shared_partitions(self) -> Iterator[str]:
        owners: dict[tuple[int, int], str] = {}
        for event in self.assignments:
            if event.incremental:
                continue
            for partition in event.partitions:
                owner = owners.setdefault((event.generation, partition), event.member)
                if owner != event.member:
                    yield (
                        f"generation {event.generation}: partition {partition} "
                        f"belongs to {owner} and {event.member}"
                    )

    def _overlaps(self) -> Iterator[str]:
        held = {partition: list(tenures) for partition, tenures in self._tenures.items()}
        for (member, partition), since in self._since.items():
            held.setdefault(partition, []).append((since, STILL, member))
        for partition, tenures in sorted(held.items()):
            tenures.sort()
            for (_, until, before), (since, _, after) in pairwise(tenures):
                if since < until and before != after:
                    yield (
                        f"partition {partition}: {after} had it at {since:.3f}, "
                        f"{before} until {until:.3f}"
                    )

    def _falling_generations(self) -> Iterator[str]:
        last: dict[str, Event] = {}
        for event in self.assignments:
            before = last.get(event.member, event)
            if event.generation < before.generation:
                yield f"{event.member}: generation {event.generation} after {before.generation}"
            # A follower that rejoins a stable group gets the same assignment again.
            again = event.generation == before.generation and not event.incremental
            if again and event.partitions != before.partitions:
                yield (
                    f"{event.member}: partitions {list(before.partitions)}, then "
                    f"{list(event.partitions)} in generation {event.generation}"
                )
            last[event.member] = event

    def _reissued_generations(self) -> Iterator[str]:
        for event in self.assignments:
            started = self._started.get(event.member, 0.0)
            before = [other.generation for other in self.assignments if other.at < started]
            if before and event.generation <= max(before):
                yield (
                    f"{event.member} started after generation {max(before)} "
                    f"and was assigned in {event.generation}"
                )
