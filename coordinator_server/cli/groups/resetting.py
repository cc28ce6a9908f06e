"""Computes the new offsets of a reset, with the options of kafka-consumer-groups.sh."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Partition = tuple[str, int]
Wanted = Mapping[str, Sequence[int] | None] | None
"""Partitions by topic, None for all of them; None for every topic that is committed."""

LARGEST_OFFSET = (1 << 63) - 1


class InvalidReset(Exception):
    """A reset is impossible; the message says why."""


class PlannedReset(NamedTuple):
    """A partition with its committed offset, if there is one, and its new offset."""

    topic: str
    partition: int
    current: int | None
    new: int


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a reset; exactly one field is set."""

    to_earliest: bool = False
    to_latest: bool = False
    to_offset: int | None = None
    shift_by: int | None = None

    def problem(self) -> str | None:
        """An error in the combination of options, or None."""
        given = [self.to_earliest, self.to_latest, self.to_offset is not None]
        if sum([*given, self.shift_by is not None]) != 1:
            return "expected exactly one of --to-earliest, --to-latest, --to-offset, --shift-by"
        if self.to_offset is not None and not 0 <= self.to_offset <= LARGEST_OFFSET:
            return f"--to-offset {self.to_offset}: expected 0 to {LARGEST_OFFSET}"
        if self.shift_by is not None and abs(self.shift_by) > LARGEST_OFFSET:
            return f"--shift-by {self.shift_by}: expected at most {LARGEST_OFFSET} either way"
        return None


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """Parse `name` or `name:0,1`; None means all partitions, repeated topics are merged.

    Raises InvalidReset.
    """
    topics: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        parts = numbers.split(",") if colon else []
        if not topic or not all(map(_is_partition, parts)):
            raise InvalidReset(f"--topic {text!r}: expected NAME or NAME:PARTITION,PARTITION")
        before = topics.get(topic, [])
        if before is None or not colon:
            topics[topic] = None
        else:
            topics[topic] = list(dict.fromkeys([*before, *map(int, parts)]))
    return topics


def _is_partition(text: str) -> bool:
    if not text.isascii() or not text.isdecimal() or len(text) > 10:
        return False
    return int(text) < 1 << 31


def chosen(
    wanted: Wanted,
    committed: Mapping[Partition, int],
    known: Mapping[str, Sequence[int]],
) -> list[Partition]:
    """The partitions that a command names; `known` has all partitions of topics.

    Raises InvalidReset if there are none.
    """
    if wanted is None:
        found = list(committed)
    else:
        found = []
        for topic, numbers in wanted.items():
            of_topic = [number for name, number in committed if name == topic]
            found += [(topic, each) for each in numbers or known.get(topic, of_topic)]
    if not found:
        raise InvalidReset("the group has no committed offsets there")
    return found


def plan(
    target: Target,
    partitions: Iterable[Partition],
    committed: Mapping[Partition, int],
    bounds: Mapping[Partition, tuple[int, int]] | None,
) -> list[PlannedReset]:
    """The new offset of every partition.

    Args:
        target: the target of the reset.
        partitions: the partitions to reset.
        committed: the committed offsets.
        bounds: the first and the next offset of each log; new offsets are kept within. None if
            they are not known; then only targets that need no log are possible.

    Raises:
        InvalidReset: a partition has no log, or nothing to shift.
    """
    planned = []
    for partition in sorted(partitions):
        current = committed.get(partition)
        wanted = _wanted(target, partition, current, bounds)
        if bounds is not None:
            first, end = _bounds(partition, bounds)
            wanted = min(max(wanted, first), end)
        planned.append(PlannedReset(*partition, current, max(0, wanted)))
    return planned


def _wanted(
    target: Target,
    partition: Partition,
    current: int | None,
    bounds: Mapping[Partition, tuple[int, int]] | None,
) -> int:
    if target.to_offset is not None:
        return target.to_offset
    if target.shift_by is not None:
        if current is None:
            raise InvalidReset(f"{_name(partition)} has no committed offset to shift")
        return current + target.shift_by
    assert bounds is not None, "over HTTP the ends of partitions are unknown"
    first, end = _bounds(partition, bounds)
    return first if target.to_earliest else end


def _bounds(partition: Partition, bounds: Mapping[Partition, tuple[int, int]]) -> tuple[int, int]:
    if partition not in bounds:
        raise InvalidReset(f"{_name(partition)} does not exist or has no leader")
    return bounds[partition]


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
