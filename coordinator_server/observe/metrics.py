"""The metrics: a table of their names, and the collector that fills them at a scrape.

Member ids, client ids and free text are never labels; every label comes from a closed set.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from coordinator_server.observe.counters import Counters, Histogram
from coordinator_server.observe.status import MEMBER_KINDS, PARTITION_STATES, StatusSource
from coordinator_server.observe.timeline import Timeline

PREFIX = "kafka_group_coordinator_"


class Family(NamedTuple):
    """A metric as documented in `docs/metrics.md`; the name is without the prefix."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


FAMILIES: dict[str, Family] = {
    "groups": Family("gauge", "Groups.", ("state", "protocol_type")),
    "members": Family("gauge", "Members of groups; pending ids have not joined yet.", ("kind",)),
    "offsets": Family("gauge", "Committed offsets that are kept."),
    "rebalances_total": Family(
        "counter", "Rebalances that ended, by what began them.", ("reason",)
    ),
    "rebalances_ended_total": Family(
        "counter", "Rebalances that ended, by how they ended.", ("outcome",)
    ),
    "rebalance_duration_seconds": Family(
        "histogram", "How long rebalances took, by phase; total is join and sync.", ("phase",)
    ),
    "rebalances_in_progress": Family("gauge", "Rebalances under way."),
    "oldest_rebalance_age_seconds": Family(
        "gauge", "Age of the oldest rebalance under way, 0 without one."
    ),
    "member_removals_total": Family(
        "counter", "Members and pending ids that are gone.", ("reason",)
    ),
    "requests_total": Family("counter", "Requests answered, by their error.", ("api", "error")),
    "request_duration_seconds": Family(
        "histogram", "From a request's arrival to its answer.", ("api",)
    ),
    "refusals_total": Family(
        "counter", "Requests that a group refused, by the rule that did.", ("rule",)
    ),
    "frames_refused_total": Family(
        "counter", "Frames that were no request and closed their connection.", ("reason",)
    ),
    "connections": Family("gauge", "Open connections of Kafka clients."),
    "connections_accepted_total": Family("counter", "Connections accepted."),
    "connections_closed_total": Family("counter", "Connections this server closed.", ("reason",)),
    "received_bytes_total": Family("counter", "Bytes received from Kafka clients."),
    "sent_bytes_total": Family("counter", "Bytes sent to Kafka clients."),
    "offset_commits_total": Family("counter", "Offsets committed, one per partition."),
    "offsets_removed_total": Family(
        "counter", "Committed offsets that are gone, by why.", ("reason",)
    ),
    "expiry_sweeps_skipped_total": Family(
        "counter", "Expiry sweeps left out because the wall clock had just jumped."
    ),
    "log_append_duration_seconds": Family(
        "histogram", "From handing records to the log until they are durable."
    ),
    "log_bytes": Family("gauge", "Bytes of the coordinator's log."),
    "log_dirty_bytes": Family("gauge", "Bytes of its closed segments that were not compacted yet."),
    "log_dirty_ratio": Family(
        "gauge", "Share of those in the closed segments of the dirtiest partition, from 0 to 1."
    ),
    "log_compaction_idle_seconds": Family(
        "gauge", "Since the last compaction of a partition, or the start."
    ),
    "log_compactions_total": Family("counter", "Compactions of a partition of the log."),
    "log_compaction_duration_seconds": Family(
        "histogram", "How long compactions took, most of it waiting so as not to disturb."
    ),
    "partitions": Family("gauge", "Partitions of the coordinator's log.", ("state",)),
    "partition_load_duration_seconds": Family(
        "histogram", "How long loading a partition of the log took."
    ),
    "partition_load_remaining_bytes": Family(
        "gauge", "Bytes still to be read of the partitions that are being loaded."
    ),
    "observer_failures_total": Family(
        "counter", "Times the log, the metrics or the timeline failed to take an event."
    ),
    "build_info": Family("gauge", "Always 1.", ("version",)),
}


class Names(NamedTuple):
    """What numbers on the wire are called."""

    apis: Mapping[int, str]
    errors: Mapping[int, str]


class CoordinatorCollector(Collector):
    """Turns counters and the coordinator's state into metric families, on the event loop."""

    def __init__(
        self,
        counters: Counters,
        status: StatusSource,
        timeline: Timeline,
        wall_ms: Callable[[], int],
        names: Names,
        version: str,
        log_sizes: Callable[[], tuple[int, int]] = lambda: (0, 0),
        cleaner_lag: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0),
    ) -> None:
        """`log_sizes` are bytes of the log, and those to be compacted.

        `cleaner_lag` is the dirty share of the dirtiest log, and how long ago one was compacted.
        """
        self._counters = counters
        self._status = status
        self._timeline = timeline
        self._wall_ms = wall_ms
        self._names = names
        self._version = version
        self._log_sizes = log_sizes
        self._cleaner_lag = cleaner_lag

    def collect(self) -> Iterator[Metric]:
        """All families; the values are read now."""
        yield from self._groups()
        yield from self._rebalances()
        yield from self._requests()
        yield from self._connections()
        yield from self._log()
        yield _samples("build_info", [((self._version,), 1)])

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not collect before the server is up."""
        return ()

    def _groups(self) -> Iterator[Metric]:
        members = self._status.member_counts()
        yield _samples("groups", self._status.group_counts().items())
        yield _samples("members", [((kind,), members.get(kind, 0)) for kind in MEMBER_KINDS])
        yield _samples("offsets", [((), self._status.offset_count())])

    def _rebalances(self) -> Iterator[Metric]:
        counters = self._counters
        begun = [started.started_ms for started in self._timeline.in_progress()]
        age_ms = max(0, self._wall_ms() - min(begun)) if begun else 0
        yield _samples("rebalances_total", _by_label(counters.rebalances))
        yield _samples("rebalances_ended_total", _by_label(counters.rebalances_ended))
        yield _histograms("rebalance_duration_seconds", _by_label(counters.rebalance_seconds))
        yield _samples("rebalances_in_progress", [((), len(begun))])
        yield _samples("oldest_rebalance_age_seconds", [((), age_ms / 1000)])
        yield _samples("member_removals_total", _by_label(counters.removals))

    def _requests(self) -> Iterator[Metric]:
        counters, names = self._counters, self._names
        yield _samples(
            "requests_total",
            [
                ((names.apis.get(api, str(api)), names.errors.get(error, str(error))), count)
                for (api, error), count in counters.requests.items()
            ],
        )
        yield _histograms(
            "request_duration_seconds",
            [
                ((names.apis.get(api, str(api)),), histogram)
                for api, histogram in counters.request_seconds.items()
            ],
        )
        yield _samples("refusals_total", _by_label(counters.refusals))
        yield _samples("frames_refused_total", _by_label(counters.frames_refused))

    def _connections(self) -> Iterator[Metric]:
        counters = self._counters
        yield _samples("connections", [((), counters.connections)])
        yield _samples("connections_accepted_total", [((), counters.connections_accepted)])
        yield _samples("connections_closed_total", _by_label(counters.connections_closed))
        yield _samples("received_bytes_total", [((), counters.bytes_in)])
        yield _samples("sent_bytes_total", [((), counters.bytes_out)])

    def _log(self) -> Iterator[Metric]:
        counters = self._counters
        states = self._status.partitions()
        yield _samples("offset_commits_total", [((), counters.offset_commits)])
        yield _samples("offsets_removed_total", _by_label(counters.offsets_removed))
        yield _samples("expiry_sweeps_skipped_total", [((), counters.sweeps_skipped)])
        yield _histograms("log_append_duration_seconds", [((), counters.log_append_seconds)])
        size, dirty = self._log_sizes()
        yield _samples("log_bytes", [((), size)])
        yield _samples("log_dirty_bytes", [((), dirty)])
        ratio, idle = self._cleaner_lag()
        yield _samples("log_dirty_ratio", [((), ratio)])
        yield _samples("log_compaction_idle_seconds", [((), idle)])
        yield _samples("log_compactions_total", [((), counters.log_compactions)])
        yield _histograms(
            "log_compaction_duration_seconds", [((), counters.log_compaction_seconds)]
        )
        yield _samples(
            "partitions", [((state,), states.get(state, 0)) for state in PARTITION_STATES]
        )
        yield _histograms(
            "partition_load_duration_seconds", [((), counters.partition_load_seconds)]
        )
        remaining = sum(total - done for done, total in self._status.loading().values())
        yield _samples("partition_load_remaining_bytes", [((), remaining)])
        yield _samples("observer_failures_total", [((), counters.observer_failures)])


Value = TypeVar("Value")


def _by_label(values: Mapping[Any, Value]) -> list[tuple[tuple[str, ...], Value]]:
    return [((str(label),), value) for label, value in values.items()]


def _samples(name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    """A family of single values, one per combination of labels."""
    kind, text, labels = FAMILIES[name]
    make = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
    family = make(PREFIX + name, text, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _histograms(name: str, values: Iterable[tuple[tuple[str, ...], Histogram]]) -> Metric:
    """A family of histograms, one per combination of labels."""
    _, text, labels = FAMILIES[name]
    family = HistogramMetricFamily(PREFIX + name, text, labels=labels)
    for label_values, histogram in values:
        family.add_metric(label_values, histogram.buckets(), histogram.total)
    return family


def make_registry(collector: Collector) -> CollectorRegistry:
    """A registry of our metrics and those of the process and its Python."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry
