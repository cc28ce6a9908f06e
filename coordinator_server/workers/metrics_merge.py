"""The metrics of all workers as those of one server.

Counters and histograms are summed, and never fall: what a worker had counted when it died stays.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

Key = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a sample, and its labels."""

_LARGEST: Final = ("_ratio", "_age_seconds", "_max_seconds", "_info", "avg", "max")
"""How the names of gauges end of which the largest is shown; of the others it is the sum."""
_OF_ALL: Final = ("kafka_topic_", "process_max_fds")
"""How the names of those begin that every worker says alike."""
_LEAST: Final = ("_idle_seconds", "process_start_time_seconds")


class MergedMetrics(Collector):
    """The last scrape of every worker, merged."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}
        """Without samples: their kind and help."""
        self._now: dict[int, dict[Key, float]] = {}
        """By worker, those that run."""
        self._lives: dict[int, int | None] = {}
        """The process each of these belongs to."""
        self._ended: dict[Key, float] = defaultdict(float)
        """The counters of processes that have ended."""

    def take(self, worker: int, pid: int | None, text: str) -> None:
        """The metrics of a worker as it has shown them."""
        self._end_unless(worker, pid)
        self._lives[worker] = pid
        samples = self._now[worker] = {}
        for family in text_string_to_metric_families(text):
            known = Metric(family.name, family.documentation, family.type)
            self._families.setdefault(family.name, known)
            for sample in family.samples:
                samples[sample.name, tuple(sample.labels.items())] = sample.value

    def has(self, worker: int, pid: int | None) -> bool:
        """Whether the metrics of a worker are those of this process."""
        return worker in self._now and self._lives[worker] == pid

    def miss(self, worker: int, pid: int | None) -> None:
        """A worker cannot be asked now; if its process has gone, its gauges have too."""
        self._end_unless(worker, pid)

    def _end_unless(self, worker: int, pid: int | None) -> None:
        if worker not in self._now or self._lives[worker] == pid:
            return
        for key, value in self._now.pop(worker).items():
            if _only_grows(self._family_of(key[0])):
                self._ended[key] += value

    def _family_of(self, sample: str) -> Metric:
        """Histograms and counters name their samples after themselves, with something behind."""
        for end in ("", "_total", "_bucket", "_sum", "_count", "_created"):
            family = self._families.get(sample.removesuffix(end) if end else sample)
            if family is not None and sample.endswith(end):
                return family
        raise KeyError(sample)

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not collect."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every family there is, in the order in which it was seen first."""
        found = {
            name: Metric(name, family.documentation, family.type)
            for name, family in self._families.items()
        }
        for key, value in self._values().items():
            family = found[self._family_of(key[0]).name]
            family.samples.append(Sample(key[0], dict(key[1]), value))
        yield from found.values()

    def _values(self) -> Mapping[Key, float]:
        values: dict[Key, float] = dict(self._ended)
        for samples in self._now.values():
            for key, value in samples.items():
                values[key] = merge_values(key[0], values[key], value) if key in values else value
        return values


def _only_grows(family: Metric) -> bool:
    """Whether it counts; what a JMX exporter counts has no type."""
    counts = family.type == "unknown" and family.name.endswith("_count")
    return counts or family.type in ("counter", "histogram")


def merge_values(name: str, one: float, other: float) -> float:
    """Two workers' values of a sample as one."""
    if name.endswith(_LARGEST) or name.startswith(_OF_ALL):
        return max(one, other)
    return min(one, other) if name.endswith(_LEAST) else one + other
