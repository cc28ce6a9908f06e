"""Counters as plain integers for the request path; the collector reads them at a scrape."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from coordinator_server.group.rebalance_events import (
    MemberRemoved,
    Observation,
    OffsetsRemoved,
    OffsetsRemovedReason,
    Outcome,
    RebalanceEvent,
    RebalanceReason,
    RemovalReason,
)

LATENCY_SECONDS = (
    *(0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005),
    *(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)
"""Bucket bounds for work of the server itself."""

REBALANCE_SECONDS = (
    *(0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5),
    *(5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
"""Bucket bounds for rebalances, which take from a millisecond to ten minutes."""


FAILURES = (
    RebalanceReason.ASSIGNMENT_APPEND_FAILED,
    RebalanceReason.SYNC_TIMEOUT,
    "tenure_ended",
)
"""Causes of failed attempts at a rebalance: the assignment could not be written, the leader did
not send it, or the partition was lost."""


class Histogram:
    """Fixed buckets; `counts[i]` holds values up to `bounds[i]`, the last one those above all."""

    __slots__ = ("_above", "_latest", "_up_to", "bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        self._latest = 0
        """The bucket of the latest value; the next value is often in the same one."""
        self._above, self._up_to = -math.inf, self.bounds[0]
        """Bounds of that bucket."""

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, or one that stands for `times` of them."""
        if not self._above < value <= self._up_to:
            self._select_bucket(value)
        counts, at = self.counts, self._latest
        counts[at] = counts[at] + times
        self.total += value * times

    def _select_bucket(self, value: float) -> None:
        self._latest = at = bisect_left(self.bounds, value)
        self._above = self.bounds[at - 1] if at else -math.inf
        self._up_to = self.bounds[at] if at < len(self.bounds) else math.inf

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, as in Prometheus."""
        cumulated, pairs = 0, []
        for bound, number in zip((*self.bounds, math.inf), self.counts, strict=True):
            cumulated += number
            pairs.append(("+Inf" if bound == math.inf else str(bound), float(cumulated)))
        return pairs


class ApiCounts:
    """Counters of one API."""

    __slots__ = ("accepted", "refused", "seconds")

    def __init__(self) -> None:
        self.accepted = 0
        """Responses without an error."""
        self.refused: defaultdict[int, int] = defaultdict(int)
        """Responses with an error, by error code."""
        self.seconds = Histogram(LATENCY_SECONDS)


class ClientMemory(NamedTuple):
    """Current use of the memory budget for client data."""

    used: int = 0
    """Bytes that connections hold."""
    limit: float = math.inf
    waiting: int = 0
    """Connections that wait for free memory."""


DAMAGE = (
    "journal_damaged",
    "journal_manifest_damaged",
    "journal_out_of_reach",
    "checkpoint_damaged",
    "data_directory_lost",
    "log_directory_lost",
    "log_directory_missing",
)
"""Log events about damaged or lost files of the data directory."""


class StorageFigures(NamedTuple):
    """Open files and unwritten bytes of the storage."""

    topic_files: int = 0
    topic_files_limit: int = 0
    unwritten_bytes: int = 0


class Counters:
    """All counters since the start.

    Code on the event loop increments the attributes directly, because a method call per request
    would cost more than the counting.
    """

    __slots__ = (
        "apis",
        "bytes_in",
        "bytes_out",
        "client_memory",
        "connections",
        "connections_accepted",
        "connections_closed",
        "frames_refused",
        "log_append_seconds",
        "log_compaction_seconds",
        "log_compactions",
        "observer_failures",
        "offset_commits",
        "offsets_removed",
        "partition_load_seconds",
        "paused_ms",
        "rebalance_seconds",
        "rebalances",
        "rebalances_ended",
        "rebalances_failed",
        "refusals",
        "removals",
        "storage",
        "storage_damage",
        "sweeps_skipped",
        "task_failures",
        "tenures_failed",
        "tenures_stalled",
    )

    def __init__(self) -> None:
        self.apis: defaultdict[int, ApiCounts] = defaultdict(ApiCounts)
        """By API key."""
        self.frames_refused: defaultdict[str, int] = defaultdict(int)
        """By reason: `too_large`, `malformed`, ...; a closed set defined by the session."""
        self.refusals: defaultdict[str, int] = defaultdict(int)
        """Requests a group refused, by the name of its rule."""
        self.connections = 0
        self.connections_accepted = 0
        self.connections_closed: defaultdict[str, int] = defaultdict(int)
        """By reason, a closed set defined by the listener."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.client_memory: Callable[[], ClientMemory] = ClientMemory
        self.offset_commits = 0
        self.log_append_seconds = Histogram(LATENCY_SECONDS)
        self.log_compactions = 0
        self.log_compaction_seconds = Histogram(REBALANCE_SECONDS)
        self.storage: Callable[[], StorageFigures] = StorageFigures
        self.storage_damage: dict[str, int] = dict.fromkeys(DAMAGE, 0)
        """Lines of `DAMAGE`."""
        self.partition_load_seconds = Histogram(REBALANCE_SECONDS)
        self.observer_failures = 0
        self.offsets_removed: dict[OffsetsRemovedReason, int] = dict.fromkeys(
            OffsetsRemovedReason, 0
        )
        self.sweeps_skipped = 0
        self.paused_ms = 0
        """Time in which the whole process was stopped."""
        self.tenures_failed = 0
        """Times that a served partition had to be loaded again."""
        self.tenures_stalled = 0
        """Those caused by requests that waited without any answer."""
        self.task_failures: defaultdict[str, int] = defaultdict(int)
        """Failures of long-lived tasks by name, a closed set."""
        self.rebalances: dict[RebalanceReason, int] = dict.fromkeys(RebalanceReason, 0)
        self.rebalances_ended: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self.rebalances_failed: dict[str, int] = dict.fromkeys(FAILURES, 0)
        """Failed attempts by cause, one of `FAILURES`."""
        self.rebalance_seconds = {
            phase: Histogram(REBALANCE_SECONDS) for phase in ("join", "sync", "total")
        }
        self.removals: dict[RemovalReason, int] = dict.fromkeys(RemovalReason, 0)

    @property
    def requests(self) -> dict[tuple[int, int], int]:
        """Number of responses by API key and error code."""
        return {
            (api_key, error): count
            for api_key, counts in self.apis.items()
            for error, count in ((0, counts.accepted), *counts.refused.items())
            if count
        }

    def reported(self, event: str) -> None:
        """Count a log event of `DAMAGE`."""
        if event in self.storage_damage:
            self.storage_damage[event] += 1

    def compacted(self, seconds: float) -> None:
        """Count a finished compaction."""
        self.log_compactions += 1
        self.log_compaction_seconds.observe(seconds)

    def observe(self, observation: Observation) -> None:
        """Count an observation; an observer of the fan-out."""
        match observation:
            case RebalanceEvent():
                self._rebalanced(observation)
            case MemberRemoved():
                self.removals[observation.reason] += 1
            case OffsetsRemoved():
                self.offsets_removed[observation.reason] += observation.offsets

    def _rebalanced(self, event: RebalanceEvent) -> None:
        self.rebalances[event.reason] += 1
        self.rebalances_ended[event.outcome] += 1
        if event.outcome is Outcome.ABORTED:
            self.rebalances_failed["tenure_ended"] += 1
        for cause in event.rounds[1:]:
            if cause.reason in self.rebalances_failed:
                self.rebalances_failed[cause.reason] += 1
        self.rebalance_seconds["join"].observe(event.join_phase_ms / 1000)
        self.rebalance_seconds["sync"].observe(event.sync_phase_ms / 1000)
        self.rebalance_seconds["total"].observe((event.join_phase_ms + event.sync_phase_ms) / 1000)
