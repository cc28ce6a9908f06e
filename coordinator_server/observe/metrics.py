"""The collector that fills the metrics of the whole process at a scrape."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UnknownMetricFamily,
)
from prometheus_client.registry import Collector

from coordinator_server.group.rebalance_events import OffsetsRemovedReason, Outcome
from coordinator_server.observe.counters import Counters, Histogram
from coordinator_server.observe.families import FAMILIES, GROUP_STATES, JMX_FAMILIES, PREFIX, Family
from coordinator_server.observe.findings import Finding, FindingKind, LikelyCause
from coordinator_server.observe.loop_lag import LoopLag
from coordinator_server.observe.status import (
    MEMBER_KINDS,
    MEMORY_KINDS,
    PARTITION_STATES,
    WAITING_PHASES,
    Census,
    StatusSource,
)
from coordinator_server.observe.timeline import Timeline


class Names(NamedTuple):
    """The names of API keys and error codes."""

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
        log_sizes: Callable[[], Mapping[int, tuple[int, int]]],
        cleaner_lag: Callable[[], tuple[float, float]],
        loop_lag: LoopLag,
        findings: Callable[[], Iterable[Sequence[Finding]]],
    ) -> None:
        """`log_sizes` are bytes of the log, and those to be compacted, by partition.

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
        self._loop_lag = loop_lag
        self._findings = findings
        self._census: Census | None = None
        self._found: Counter[tuple[str, ...]] = Counter()

    def prepare(self) -> Iterator[None]:
        """Count all groups for the next collection, a few at a time."""
        counted: Census | None = None
        for census in self._status.census():
            counted = census
            yield
        found: Counter[tuple[str, ...]] = Counter()
        for findings in self._findings():
            found.update((finding.kind, finding.likely_cause) for finding in findings)
            yield
        self._census, self._found = counted, found

    @property
    def census(self) -> Census:
        """The last count, or a new one if there was none."""
        return self._census or Census.whole(self._status.census())

    def collect(self) -> Iterator[Metric]:
        """All families; the values are read now, but for what was prepared."""
        yield from self._groups()
        yield from self._rebalances()
        yield from self._requests()
        yield from self._connections()
        yield from self._offsets()
        yield from self._log()
        yield from self._partitions()
        yield from self._loop()
        yield _samples("build_info", [((self._version,), 1)])

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not collect before the server is up."""
        return ()

    def _groups(self) -> Iterator[Metric]:
        census = self.census
        oldest = census.oldest_pending_ms
        age_ms = 0 if oldest is None else max(0, self._wall_ms() - oldest)
        yield _samples("groups", census.groups.items())
        yield _samples("members", [((kind,), census.members[kind]) for kind in MEMBER_KINDS])
        yield _samples("offsets", [((), census.offsets)])
        yield _samples("pending_transactional_offsets", [((), census.pending_offsets)])
        yield _samples("oldest_pending_transaction_age_seconds", [((), age_ms / 1000)])
        waiting = [((phase,), census.waiting[phase]) for phase in WAITING_PHASES]
        yield _samples("waiting_members", waiting)
        found = [
            ((kind, cause), self._found[kind, cause])
            for kind in FindingKind
            for cause in LikelyCause
        ]
        yield _samples("findings", found)
        yield _samples("event_queue_size", [((), census.queued_events)])
        yield _samples("groups_limit", [((), self._status.max_groups())])
        estimate = [((kind,), census.memory_bytes[kind]) for kind in MEMORY_KINDS]
        yield _samples("memory_estimate_bytes", estimate)

    def _rebalances(self) -> Iterator[Metric]:
        counters = self._counters
        begun = [started.started_ms for started in self._timeline.in_progress()]
        age_ms = max(0, self._wall_ms() - min(begun)) if begun else 0
        yield _samples("rebalances_total", _by_label(counters.rebalances))
        yield _samples("rebalances_ended_total", _by_label(counters.rebalances_ended))
        completed = counters.rebalances_ended[Outcome.COMPLETED]
        yield _samples("rebalances_completed_total", [((), completed)])
        yield _samples("rebalances_failed_total", _by_label(counters.rebalances_failed))
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
                ((names.apis.get(api, str(api)),), counts.seconds)
                for api, counts in counters.apis.items()
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
        used, limit, waiting = counters.client_memory()
        yield _samples("client_memory_bytes", [((), used)])
        yield _samples("client_memory_limit_bytes", [((), limit)])
        yield _samples("client_memory_waiting_connections", [((), waiting)])

    def _offsets(self) -> Iterator[Metric]:
        counters = self._counters
        expired = counters.offsets_removed[OffsetsRemovedReason.EXPIRED]
        deleted = sum(counters.offsets_removed.values()) - expired
        yield _samples("offset_commits_total", [((), counters.offset_commits)])
        yield _samples("offsets_removed_total", _by_label(counters.offsets_removed))
        yield _samples("offset_expirations_total", [((), expired)])
        yield _samples("offset_deletions_total", [((), deleted)])
        yield _samples("expiry_sweeps_skipped_total", [((), counters.sweeps_skipped)])

    def _log(self) -> Iterator[Metric]:
        counters = self._counters
        yield _histograms("log_append_duration_seconds", [((), counters.log_append_seconds)])
        sizes = sorted(self._log_sizes().items())
        yield _samples("log_bytes", [((str(log),), size) for log, (size, _) in sizes])
        yield _samples("log_dirty_bytes", [((str(log),), dirty) for log, (_, dirty) in sizes])
        ratio, idle = self._cleaner_lag()
        yield _samples("log_dirty_ratio", [((), ratio)])
        yield _samples("log_compaction_idle_seconds", [((), idle)])
        yield _samples("log_compactions_total", [((), counters.log_compactions)])
        yield _histograms(
            "log_compaction_duration_seconds", [((), counters.log_compaction_seconds)]
        )
        yield _samples("storage_damage_total", _by_label(counters.storage_damage))
        files, most, unwritten = counters.storage()
        yield _samples("topic_files_open", [((), files)])
        yield _samples("topic_files_limit", [((), most)])
        yield _samples("unwritten_bytes", [((), unwritten)])

    def _partitions(self) -> Iterator[Metric]:
        states = self._status.partitions()
        yield _samples(
            "partitions", [((state,), states.get(state, 0)) for state in PARTITION_STATES]
        )
        loads = self._counters.partition_load_seconds
        yield _histograms("partition_load_duration_seconds", [((), loads)])
        remaining = sum(total - done for done, total in self._status.loading().values())
        yield _samples("partition_load_remaining_bytes", [((), remaining)])
        counters = self._counters
        yield _samples("partition_failures_total", [((), counters.tenures_failed)])
        yield _samples("partition_stalls_total", [((), counters.tenures_stalled)])

    def _loop(self) -> Iterator[Metric]:
        lag = self._loop_lag
        yield _histograms("event_loop_lag_seconds", [((), lag.seconds)])
        yield _samples("event_loop_lag_max_seconds", [((), lag.take_max())])
        yield _samples("observer_failures_total", [((), self._counters.observer_failures)])
        yield _samples("task_failures_total", _by_label(self._counters.task_failures))
        yield _samples("process_paused_seconds_total", [((), self._counters.paused_ms / 1000)])


class JmxCollector(Collector):
    """The same figures as the JMX exporter names those of a Kafka broker."""

    def __init__(self, counters: Counters, status: StatusSource, own: CoordinatorCollector) -> None:
        """`own` has the count of groups."""
        self._counters = counters
        self._status = status
        self._own = own

    def collect(self) -> Iterator[Metric]:
        """All families; the values are read now."""
        values = self._values()
        states = self._status.partitions()
        for name, family in JMX_FAMILIES.items():
            if family.labels:
                samples = [((state,), states.get(state, 0)) for state in PARTITION_STATES]
                yield _family(name, family, samples)
            else:
                value = next(values[end] for end in values if name.endswith(f"_{end}"))
                yield _family(name, family, [((), value)])

    def describe(self) -> Iterable[Metric]:
        """Nothing, as for our own."""
        return ()

    def _values(self) -> Mapping[str, float]:
        counters, census = self._counters, self._own.census
        expired = counters.offsets_removed[OffsetsRemovedReason.EXPIRED]
        values: dict[str, float] = {
            "numgroups": census.groups.total(),
            "numgroupsdead": 0,
            "numoffsets": census.offsets,
            "group_completed_rebalance_count": counters.rebalances_ended[Outcome.COMPLETED],
            "offset_commit_count": counters.offset_commits,
            "offset_expiration_count": expired,
            "offset_deletion_count": sum(counters.offsets_removed.values()) - expired,
            "event_queue_size": census.queued_events,
        }
        values |= {f"numgroups{state.lower()}": 0 for state in GROUP_STATES}
        for (state, _), count in census.groups.items():
            values[f"numgroups{state.lower()}"] += count
        return values


Value = TypeVar("Value")


def _by_label(values: Mapping[Any, Value]) -> list[tuple[tuple[str, ...], Value]]:
    return [((str(label),), value) for label, value in values.items()]


def _samples(name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    """A family of single values, one per combination of labels."""
    return _family(PREFIX + name, FAMILIES[name], values)


_MAKERS = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "untyped": UnknownMetricFamily,
}


def _family(
    name: str, described: Family, values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    family = _MAKERS[described.kind](name, described.help, labels=described.labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return cast("Metric", family)


def _histograms(name: str, values: Iterable[tuple[tuple[str, ...], Histogram]]) -> Metric:
    """A family of histograms, one per combination of labels."""
    _, text, labels = FAMILIES[name]
    family = HistogramMetricFamily(PREFIX + name, text, labels=labels)
    for label_values, histogram in values:
        family.add_metric(label_values, histogram.buckets(), histogram.total)
    return family


def make_registry(*collectors: Collector) -> CollectorRegistry:
    """A registry of our metrics and those of the process and its Python."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry
