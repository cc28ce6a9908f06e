"""Series of single groups, for those that were asked for and up to a hard number in all."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from re import Pattern

from coordinator_server.group.rebalance_events import GroupRemoved, Observation, RebalanceEvent
from coordinator_server.observe.families import EXPORTER_FAMILIES, GROUP_FAMILIES, LEFT_OUT, PREFIX
from coordinator_server.observe.series_lines import (
    Lines,
    OffsetLines,
    escaped,
    exporter_lines,
    family_lines,
    own_lines,
    topic_lines,
)
from coordinator_server.observe.status import GroupGauges, StatusSource

MAX_TALLIES = 100_000
"""Groups whose rebalances are counted: those that are gone are not always told of."""
AT_ONCE = 8
"""Groups or offsets after which others may have their turn."""


@dataclass(frozen=True, slots=True)
class GroupChoice:
    """Which groups have series: those whose whole id `allow` fits, and `deny` does not."""

    allow: Pattern[str] | None
    """None: no group."""
    deny: Pattern[str] | None
    max_series: int
    """Of groups and topics together."""
    exporter_names: bool = False
    """Whether they come under kafka_exporter's names too."""

    def wants(self, group_id: str) -> bool:
        """Whether a group is to have series."""
        if self.allow is None or not self.allow.fullmatch(group_id):
            return False
        return self.deny is None or not self.deny.fullmatch(group_id)


@dataclass(frozen=True, slots=True)
class TopicSource:
    """The facts about topics that need no look into their files."""

    partitions: Callable[[], Mapping[str, int]]
    """How many partitions every topic has."""
    end: Callable[[str, int], int | None]
    """Where a partition ends, None if it was not opened yet or is not here."""


class GroupTallies:
    """Rebalances by group and reason since the start, of groups that have series."""

    def __init__(self, choice: GroupChoice) -> None:
        self._choice = choice
        self._rebalances: dict[str, Counter[str]] = {}

    def observe(self, observation: Observation) -> None:
        """Count; a consumer of the fan-out."""
        match observation:
            case RebalanceEvent() if self._choice.wants(observation.group_id):
                counts = self._rebalances.setdefault(observation.group_id, Counter())
                counts[observation.reason] += 1
                if len(self._rebalances) > MAX_TALLIES:
                    # The first that rebalanced; its counter begins anew if it comes again.
                    del self._rebalances[next(iter(self._rebalances))]
            case GroupRemoved():
                self._rebalances.pop(observation.group_id, None)

    def of(self, group_id: str) -> Mapping[str, int]:
        """How often a group rebalanced, by what began it."""
        return self._rebalances.get(group_id, {})


@dataclass(slots=True)
class _Page:
    """The lines of a scrape, and how many more there may be."""

    left: int
    lines: Lines = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def admit(self, kind: str, lines: Lines) -> bool:
        """Take the lines of a group or topic, all or none; False when there are too many."""
        count = sum(map(len, lines.values()))
        if count > self.left:
            self.left_out[kind] += 1
            return False
        self.left -= count
        for name, more in lines.items():
            self.lines.setdefault(name, []).extend(more)
        return True


class GroupSeries:
    """Writes the series of groups, in the order of their ids: the first ones have them."""

    def __init__(
        self,
        status: StatusSource,
        choice: GroupChoice,
        tallies: GroupTallies,
        topics: TopicSource,
    ) -> None:
        self._status = status
        self._choice = choice
        self._tallies = tallies
        self._topics = topics

    def pieces(self) -> Iterator[str]:
        """The text, in small pieces; empty ones while values are looked up."""
        page = _Page(self._choice.max_series)
        families = {f"{PREFIX}{name}": family for name, family in GROUP_FAMILIES.items()}
        if self._choice.exporter_names:
            families |= EXPORTER_FAMILIES
            page.admit("broker", {"kafka_brokers": ["kafka_brokers 1\n"]})
            yield from self._all_topics(page)
        yield from self._all_groups(page)
        counted = f"{PREFIX}series_left_out"
        families[counted] = LEFT_OUT
        page.lines[counted] = [
            f'{counted}{{kind="{kind}"}} {page.left_out[kind]}\n' for kind in ("group", "topic")
        ]
        for name, family in families.items():
            yield from family_lines(name, family, page.lines.get(name, ()))

    def _all_topics(self, page: _Page) -> Iterator[str]:
        end = self._topics.end
        for topic, partitions in sorted(self._topics.partitions().items()):
            # One line more than there may be tells that there are too many.
            page.admit("topic", topic_lines(topic, partitions, end, page.left + 1))
            yield ""

    def _all_groups(self, page: _Page) -> Iterator[str]:
        ids: list[list[str]] = []
        for some in self._status.group_ids():
            ids.append(some)
            yield ""
        for number, group_id in enumerate(merge(*ids)):
            if number % AT_ONCE == 0:
                yield ""
            if not self._choice.wants(group_id):
                continue
            if page.left_out["group"]:
                # Which groups have series must not depend on how many offsets each has just now.
                page.left_out["group"] += 1
            elif (gauges := self._status.gauges(group_id)) is not None:
                lines: Lines = {}
                yield from self._one_group(group_id, gauges, lines, page.left + 1)
                page.admit("group", lines)

    def _one_group(
        self, group_id: str, gauges: GroupGauges, lines: Lines, at_most: int
    ) -> Iterator[str]:
        label = escaped(group_id)
        lines |= own_lines(label, gauges, self._tallies.of(group_id))
        offsets = OffsetLines(label, self._topics.end)
        names = self._choice.exporter_names
        each = self._status.each_offset(group_id, only_expiring=not names)
        for number, status in enumerate(each, start=1):
            if number % AT_ONCE == 0:
                yield ""
            offsets.expire(status.expire_ms)
            if names and number <= at_most:
                offsets.add(status.topic, status.partition, status.offset)
        lines |= offsets.lines()
        if names:
            lines |= exporter_lines(label, gauges)
