"""The lines of series of single groups and topics, in Prometheus' text format.

Written by hand: a line is one string, and what is the same for all lines of a group is made once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from coordinator_server.observe.families import GROUP_STATES, PREFIX, Family
from coordinator_server.observe.status import GroupGauges

LINES_AT_ONCE = 200
"""Lines that are joined at once."""

Lines = dict[str, list[str]]
"""Lines by the name of their family."""

End = Callable[[str, int], int | None]
"""Where a partition of a topic ends, None if that is not known."""


def escaped(value: str) -> str:
    """A label's value between its quotes; ids may have any character, some none that UTF-8 has."""
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def family_lines(name: str, family: Family, lines: Sequence[str]) -> Iterator[str]:
    """The head of a family and its lines, some at a time."""
    yield f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n"
    for start in range(0, len(lines), LINES_AT_ONCE):
        yield "".join(lines[start : start + LINES_AT_ONCE])


def own_lines(group: str, gauges: GroupGauges, rebalances: Mapping[str, int]) -> Lines:
    """The series of a group under our own names; `group` is escaped."""
    of = f'{{group="{group}"'
    state, waiting = f"{PREFIX}group_state{of}", f"{PREFIX}group_waiting_members{of}"
    counted, ended = f"{PREFIX}group_rebalances_total", gauges.last_rebalance_ms
    at = f"{PREFIX}group_last_rebalance_timestamp_seconds"
    lines: Lines = {
        counted: [f'{counted}{of},reason="{why}"}} {times}\n' for why, times in rebalances.items()],
        f"{PREFIX}group_generation": [f"{PREFIX}group_generation{of}}} {gauges.generation}\n"],
        f"{PREFIX}group_state": _states(state, gauges.state),
        f"{PREFIX}group_waiting_members": [
            f'{waiting},phase="{phase}"}} {count}\n' for phase, count in gauges.waiting.items()
        ],
    }
    if ended is not None:
        lines[at] = [f"{at}{of}}} {ended / 1000}\n"]
    return lines


def exporter_lines(group: str, gauges: GroupGauges) -> Lines:
    """The series of a group under kafka_exporter's names, without its offsets."""
    of = f'{{consumergroup="{group}"'
    return {
        "kafka_consumergroup_members": [f"kafka_consumergroup_members{of}}} {gauges.members}\n"],
        "kafka_consumergroup_group_state": _states(
            f"kafka_consumergroup_group_state{of}", gauges.state
        ),
    }


def _states(start: str, current: str) -> list[str]:
    return [f'{start},state="{state}"}} {int(state == current)}\n' for state in GROUP_STATES]


def topic_lines(topic: str, partitions: int, end: End, at_most: int) -> Lines:
    """The series of a topic under kafka_exporter's names, with the ends of `at_most` partitions."""
    of = f'{{topic="{escaped(topic)}"'
    name = "kafka_topic_partition_current_offset"
    return {
        "kafka_topic_partitions": [f"kafka_topic_partitions{of}}} {partitions}\n"],
        name: [
            f'{name}{of},partition="{partition}"}} {offset}\n'
            for partition in range(min(partitions, at_most))
            if (offset := end(topic, partition)) is not None
        ],
    }


class OffsetLines:
    """The series of a group's offsets, one by one; `group` is escaped."""

    def __init__(self, group: str, end: End) -> None:
        self._group = group
        self._end = end
        self._expires_ms: int | None = None
        self._offsets: list[str] = []
        self._lags: list[str] = []
        self._offset_sums: Counter[str] = Counter()
        self._lag_sums: Counter[str] = Counter()

    def expire(self, at_ms: int | None) -> None:
        """Note when an offset expires, if it does."""
        if at_ms is not None:
            self._expires_ms = at_ms if self._expires_ms is None else min(at_ms, self._expires_ms)

    def add(self, topic: str, partition: int, offset: int) -> None:
        """Write down an offset, and how far it is behind, if that is known."""
        labels = f'{{consumergroup="{self._group}",topic="{escaped(topic)}"'
        self._offsets.append(
            f'kafka_consumergroup_current_offset{labels},partition="{partition}"}} {offset}\n'
        )
        self._offset_sums[labels] += offset
        end = self._end(topic, partition)
        if end is not None:
            # Whoever commits beyond the end is not ahead of anybody.
            lag = max(0, end - offset)
            self._lags.append(f'kafka_consumergroup_lag{labels},partition="{partition}"}} {lag}\n')
            self._lag_sums[labels] += lag

    def lines(self) -> Lines:
        """All there is to write."""
        lines: Lines = {
            "kafka_consumergroup_current_offset": self._offsets,
            "kafka_consumergroup_lag": self._lags,
            **_sums("kafka_consumergroup_current_offset_sum", self._offset_sums),
            **_sums("kafka_consumergroup_lag_sum", self._lag_sums),
        }
        if self._expires_ms is not None:
            name = f"{PREFIX}group_offsets_expire_timestamp_seconds"
            lines[name] = [f'{name}{{group="{self._group}"}} {self._expires_ms / 1000}\n']
        return lines


def _sums(name: str, sums: Mapping[str, int]) -> Lines:
    return {name: [f"{name}{labels}}} {total}\n" for labels, total in sums.items()]}
