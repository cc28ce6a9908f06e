"""The metrics of several workers as those of one server."""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from coordinator_server.workers.metrics_merge import MergedMetrics

WORKER = """\
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{{api="Heartbeat"}} {requests}
# HELP groups Groups.
# TYPE groups gauge
groups {groups}
# HELP log_dirty_ratio Share.
# TYPE log_dirty_ratio gauge
log_dirty_ratio {ratio}
# HELP seconds Durations.
# TYPE seconds histogram
seconds_bucket{{le="1.0"}} {requests}
seconds_bucket{{le="+Inf"}} {requests}
seconds_count {requests}
seconds_sum {ratio}
# HELP commit_count As a JMX exporter counts.
# TYPE commit_count untyped
commit_count {requests}
"""


def shown(merged: MergedMetrics) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(merged)
    lines = generate_latest(registry).decode().splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in pairs}


def taken(
    merged: MergedMetrics, worker: int, pid: int, requests: int, groups: int, ratio: float
) -> None:
    text = WORKER.format(requests=requests, groups=groups, ratio=ratio)
    merged.take(worker, pid, text)


def test_counts_are_summed_and_of_ratios_the_largest_is_shown() -> None:
    merged = MergedMetrics()
    taken(merged, 0, 100, requests=3, groups=2, ratio=0.25)
    taken(merged, 1, 101, requests=4, groups=5, ratio=0.5)
    assert shown(merged) == {
        'requests_total{api="Heartbeat"}': 7,
        "groups": 7,
        "log_dirty_ratio": 0.5,
        'seconds_bucket{le="1.0"}': 7,
        'seconds_bucket{le="+Inf"}': 7,
        "seconds_count": 7,
        "seconds_sum": 0.75,
        "commit_count": 7,
    }


def test_what_a_dead_worker_had_counted_stays_and_what_it_had_does_not() -> None:
    merged = MergedMetrics()
    taken(merged, 0, 100, requests=3, groups=2, ratio=0.25)
    taken(merged, 1, 101, requests=4, groups=5, ratio=0.5)
    merged.miss(1, None)
    there = shown(merged)
    assert there['requests_total{api="Heartbeat"}'] == 7
    assert there["seconds_count"] == 7
    assert there["commit_count"] == 7
    assert there["groups"] == 2
    taken(merged, 1, 102, requests=1, groups=5, ratio=0.5)
    there = shown(merged)
    assert there['requests_total{api="Heartbeat"}'] == 8
    assert there["groups"] == 7


def test_a_worker_that_is_only_slow_keeps_its_values() -> None:
    merged = MergedMetrics()
    taken(merged, 0, 100, requests=3, groups=2, ratio=0.25)
    merged.miss(0, 100)
    assert shown(merged)["groups"] == 2
