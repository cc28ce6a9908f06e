from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from coordinator_server.group.rebalance_events import (
    OffsetsRemoved,
    OffsetsRemovedReason,
    Outcome,
    RebalanceEvent,
    RebalanceStarted,
)
from coordinator_server.observe.counters import Counters, StorageFigures
from coordinator_server.observe.families import FAMILIES, PREFIX
from coordinator_server.observe.loop_lag import LoopLag
from coordinator_server.observe.metrics import (
    CoordinatorCollector,
    JmxCollector,
    Names,
    make_registry,
)
from coordinator_server.observe.timeline import Timeline

NOW_MS = 1_700_000_160_000


class Scraped:
    """A coordinator's counters, and what a scrape of them says."""

    def __init__(self, status: Any) -> None:
        self.counters = Counters()
        self.timeline = Timeline()
        names = Names({12: "Heartbeat"}, {0: "NONE", 25: "UNKNOWN_MEMBER_ID"})
        own = CoordinatorCollector(
            self.counters,
            status,
            self.timeline,
            lambda: NOW_MS,
            names,
            "1.2.3",
            log_sizes=dict,
            cleaner_lag=lambda: (0.0, 0.0),
            loop_lag=LoopLag(),
            findings=tuple,
        )
        self.registry = make_registry(own)
        self.jmx = JmxCollector(self.counters, status, own)

    def samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {
            (sample.name.removeprefix(PREFIX), tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families()
            for sample in family.samples
        }

    def families(self) -> Iterator[Any]:
        return iter(text_string_to_metric_families(generate_latest(self.registry).decode()))


@pytest.fixture
def scraped(status: Any) -> Scraped:
    return Scraped(status)


def test_rebalances_are_counted_by_reason_from_zero_on(
    scraped: Scraped, make_event: Callable[..., RebalanceEvent]
) -> None:
    counted = ("rebalances_total", (("reason", "member_joined"),))
    assert scraped.samples()[counted] == 0
    scraped.counters.observe(make_event())
    samples = scraped.samples()
    assert samples[counted] == 1
    assert samples["rebalances_ended_total", (("outcome", "completed"),)] == 1
    bucket = ("rebalance_duration_seconds_bucket", (("le", "0.1"), ("phase", "total")))
    assert samples[bucket] == 1
    assert samples["rebalance_duration_seconds_sum", (("phase", "join"),)] == 0.04


def test_requests_are_counted_by_name_and_error(scraped: Scraped) -> None:
    scraped.counters.apis[12].refused[25] += 3
    scraped.counters.apis[12].seconds.observe(0.001)
    samples = scraped.samples()
    error = (("api", "Heartbeat"), ("error", "UNKNOWN_MEMBER_ID"))
    assert samples["requests_total", error] == 3
    assert samples["request_duration_seconds_count", (("api", "Heartbeat"),)] == 1


def test_numbers_without_a_name_keep_their_number(scraped: Scraped) -> None:
    scraped.counters.apis[12].refused[999] += 1
    scraped.counters.apis[99].accepted += 1
    samples = scraped.samples()
    assert samples["requests_total", (("api", "Heartbeat"), ("error", "999"))] == 1
    assert samples["requests_total", (("api", "99"), ("error", "NONE"))] == 1


def test_states_that_nothing_is_in_are_zero(scraped: Scraped) -> None:
    samples = scraped.samples()
    assert samples["partitions", (("state", "active"),)] == 50
    assert samples["partitions", (("state", "loading"),)] == 0
    assert samples["members", (("kind", "pending"),)] == 0
    assert samples["groups", (("protocol_type", "consumer"), ("state", "Stable"))] == 1
    assert samples["offsets", ()] == 12


def test_the_oldest_rebalance_under_way_has_an_age(
    scraped: Scraped, started: RebalanceStarted, make_event: Callable[..., RebalanceEvent]
) -> None:
    scraped.timeline.observe(started)
    samples = scraped.samples()
    assert samples["rebalances_in_progress", ()] == 1
    assert samples["oldest_rebalance_age_seconds", ()] == 60
    ended = make_event(generation_before=started.generation, started_ms=started.started_ms)
    scraped.timeline.observe(ended)
    assert scraped.samples()["oldest_rebalance_age_seconds", ()] == 0


def test_the_table_of_metrics_is_what_a_scrape_has(scraped: Scraped) -> None:
    scraped.counters.apis[12].accepted += 1
    scraped.counters.apis[12].seconds.observe(0.001)
    found = {
        family.name.removeprefix(PREFIX): family
        for family in scraped.families()
        if family.name.startswith(PREFIX)
    }
    assert set(found) == {name.removesuffix("_total") for name in FAMILIES}
    for name, described in FAMILIES.items():
        family = found[name.removesuffix("_total")]
        assert family.type == described.kind
        assert family.documentation == described.help
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(described.labels)


def test_kafkas_own_figures_are_told_under_the_jmx_exporters_names(
    scraped: Scraped, make_event: Callable[..., RebalanceEvent]
) -> None:
    scraped.counters.offset_commits = 5
    for outcome in (Outcome.COMPLETED, Outcome.COMPLETED, Outcome.EMPTIED, Outcome.ABORTED):
        scraped.counters.observe(make_event(outcome=outcome))
    for offsets, reason in enumerate(OffsetsRemovedReason, start=1):
        scraped.counters.observe(OffsetsRemoved("orders", reason, offsets))
    samples = [sample for family in scraped.jmx.collect() for sample in family.samples]
    told = {(sample.name, *sample.labels.values()): sample.value for sample in samples}
    manager = "kafka_coordinator_group_groupmetadatamanager_"
    coordinator = "kafka_server_group_coordinator_metrics_"
    states = {"initial": 0, "loading": 0, "active": 50, "failed": 0, "closed": 0}
    expected: dict[tuple[str, ...], float] = {
        (f"{manager}numgroups",): 1,
        (f"{manager}numgroupspreparingrebalance",): 0,
        (f"{manager}numgroupscompletingrebalance",): 0,
        (f"{manager}numgroupsstable",): 1,
        (f"{manager}numgroupsdead",): 0,
        (f"{manager}numgroupsempty",): 0,
        (f"{manager}numoffsets",): 12,
        (f"{coordinator}group_completed_rebalance_count",): 2,
        (f"{coordinator}offset_commit_count",): 5,
        (f"{coordinator}offset_expiration_count",): 2,
        (f"{coordinator}offset_deletion_count",): 1 + 3,
        (f"{coordinator}event_queue_size",): 0,
        **{(f"{coordinator}num_partitions", name): count for name, count in states.items()},
    }
    assert told == expected


def test_the_process_itself_is_measured_too(scraped: Scraped) -> None:
    assert scraped.samples()["process_resident_memory_bytes", ()] > 0


def test_lines_that_speak_of_damage_are_counted(scraped: Scraped) -> None:
    for event in ("journal_damaged", "journal_damaged", "log_directory_lost", "server_started"):
        scraped.counters.reported(event)
    samples = scraped.samples()
    damage = {
        dict(labels)["event"]: value
        for (name, labels), value in samples.items()
        if name == "storage_damage_total"
    }
    assert damage.pop("journal_damaged") == 2
    assert damage.pop("log_directory_lost") == 1
    assert set(damage.values()) == {0}


def test_open_files_of_topics_and_unwritten_bytes_are_shown(scraped: Scraped) -> None:
    scraped.counters.storage = lambda: StorageFigures(17, 4096, 8_000_000)
    samples = scraped.samples()
    assert samples["topic_files_open", ()] == 17
    assert samples["topic_files_limit", ()] == 4096
    assert samples["unwritten_bytes", ()] == 8_000_000
