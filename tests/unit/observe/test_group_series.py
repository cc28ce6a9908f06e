"""Series of single groups: what is written, for whom, and what a hard number keeps back."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coordinator_server.config import load
from coordinator_server.group.rebalance_events import GroupRemoved, RebalanceEvent, RebalanceReason
from coordinator_server.observe.families import (
    EXPORTER_FAMILIES,
    GROUP_FAMILIES,
    LEFT_OUT,
    PREFIX,
)
from coordinator_server.observe.group_series import (
    GroupChoice,
    GroupSeries,
    GroupTallies,
    TopicSource,
)
from coordinator_server.observe.status import GroupSummary, OffsetStatus
from coordinator_server.server.component_settings import group_choice

Samples = Mapping[tuple[str, ...], float]


class Written:
    """Series over a made-up coordinator."""

    def __init__(self, status: Any) -> None:
        self.status = status
        self.topics: dict[str, int] = {}
        self.ends: dict[tuple[str, int], int] = {}

    def choice(self, *, allow: str = ".*", deny: str = "", most: int = 1_000) -> GroupChoice:
        settings = {"metrics.groups.allow": allow, "metrics.groups.deny": deny}
        settings |= {"metrics.groups.max.series": str(most), "metrics.aliases": "kafka_exporter"}
        return group_choice(load(environ={}, flags=settings).config)

    def text(self, choice: GroupChoice, tallies: GroupTallies | None = None) -> str:
        topics = TopicSource(lambda: self.topics, lambda *place: self.ends.get(place))
        tallies = tallies or GroupTallies(choice)
        return "".join(GroupSeries(self.status, choice, tallies, topics).pieces())

    def samples(self, choice: GroupChoice, tallies: GroupTallies | None = None) -> Samples:
        return {
            (sample.name.removeprefix(PREFIX), *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(self.text(choice, tallies))
            for sample in family.samples
        }

    def groups_of(self, samples: Samples) -> set[str]:
        return {labels[0] for name, *labels in samples if name == "group_generation"}


@pytest.fixture
def written(status: Any) -> Written:
    return Written(status)


def committed(topic: str, partition: int, offset: int, expire_ms: int | None = None) -> Any:
    return OffsetStatus(topic, partition, offset, -1, "", 0, expire_ms)


def groups(written: Written, *ids: str) -> None:
    written.status.summaries = {
        group_id: GroupSummary(group_id, "Stable", "consumer", "range", 7, 1) for group_id in ids
    }


def test_a_group_has_what_the_documentation_says(
    written: Written, make_event: Callable[..., RebalanceEvent]
) -> None:
    choice = written.choice()
    tallies = GroupTallies(choice)
    for _ in range(2):
        tallies.observe(make_event(reason=RebalanceReason.MEMBER_LEFT))
    written.status.committed = [
        committed("orders", 0, 10), committed("orders", 1, 20, 9_000), committed("x", 0, 5, 8_000),
    ]  # fmt: skip
    samples = written.samples(choice, tallies)
    assert samples["group_rebalances_total", "orders", "member_left"] == 2
    assert samples["group_generation", "orders"] == 2
    assert samples["group_state", "orders", "Stable"] == 1
    assert samples["group_state", "orders", "Empty"] == 0
    assert samples["group_waiting_members", "orders", "join"] == 1
    assert samples["group_offsets_expire_timestamp_seconds", "orders"] == 8


def test_every_family_is_one_of_the_tables_with_its_labels(written: Written) -> None:
    written.topics, written.ends = {"orders": 1}, {("orders", 0): 12}
    written.status.committed = [committed("orders", 0, 10, 9_000)]
    own = {PREFIX + name: family for name, family in GROUP_FAMILIES.items()}
    tables = {**own, **EXPORTER_FAMILIES, f"{PREFIX}series_left_out": LEFT_OUT}
    found = list(text_string_to_metric_families(written.text(written.choice())))
    assert {family.name for family in found} == {name.removesuffix("_total") for name in tables}
    for family in found:
        described = tables.get(family.name) or tables[f"{family.name}_total"]
        assert (family.type, family.documentation) == (described.kind, described.help)
        for sample in family.samples:
            assert tuple(sample.labels) == described.labels


def test_lag_is_told_where_the_end_is_known(written: Written) -> None:
    written.topics = {"orders": 3}
    written.ends = {("orders", 0): 15, ("orders", 2): 3}
    written.status.committed = [committed("orders", number, 10) for number in range(3)]
    samples = written.samples(written.choice())
    lag = "kafka_consumergroup_lag"
    assert samples[lag, "orders", "orders", "0"] == 5
    assert (lag, "orders", "orders", "1") not in samples
    assert samples[lag, "orders", "orders", "2"] == 0
    assert samples[f"{lag}_sum", "orders", "orders"] == 5
    assert samples["kafka_consumergroup_current_offset_sum", "orders", "orders"] == 30
    assert samples["kafka_consumergroup_members", "orders"] == 2
    assert samples["kafka_topic_partitions", "orders"] == 3
    assert samples["kafka_topic_partition_current_offset", "orders", "0"] == 15


def test_only_groups_that_were_asked_for_have_series(written: Written) -> None:
    groups(written, "app-1", "app-2", "app-2-test", "other-app-1")
    samples = written.samples(written.choice(allow="app-.*", deny=".*-test"))
    assert written.groups_of(samples) == {"app-1", "app-2"}
    assert samples["series_left_out", "group"] == 0


def test_above_the_limit_the_first_groups_have_series_and_the_others_are_counted(
    written: Written,
) -> None:
    groups(written, *(f"g{number}" for number in range(10)))
    most = 50
    choice = written.choice(most=most)
    samples = written.samples(choice)
    left_out = samples["series_left_out", "group"]
    kept = written.groups_of(samples)
    assert kept == {f"g{number}" for number in range(len(kept))}
    assert 0 < len(kept) < 10
    assert left_out == 10 - len(kept)
    assert len(samples) - 2 <= most


def test_a_group_with_too_many_offsets_is_left_out_whole(written: Written) -> None:
    written.status.committed = [committed("orders", number, 1) for number in range(500)]
    samples = written.samples(written.choice(most=100))
    assert written.groups_of(samples) == set()
    assert samples["series_left_out", "group"] == 1


def test_topics_count_too(written: Written) -> None:
    written.topics = {"a": 5, "b": 500, "c": 1}
    written.ends = {(topic, n): 0 for topic, count in written.topics.items() for n in range(count)}
    samples = written.samples(written.choice(most=100))
    assert samples["kafka_topic_partitions", "a"] == 5
    assert ("kafka_topic_partitions", "b") not in samples
    assert samples["series_left_out", "topic"] == 1


def test_any_group_id_is_written_so_that_it_can_be_read(written: Written) -> None:
    strange = ['quote"back\\slash', "two\nlines", "\N{GREEK SMALL LETTER ALPHA}", "{}=,"]
    groups(written, *strange)
    samples = written.samples(written.choice())
    assert written.groups_of(samples) == set(strange)


def test_an_id_that_utf8_does_not_have_is_written_with_question_marks(written: Written) -> None:
    groups(written, "lone \ud800")
    assert written.groups_of(written.samples(written.choice())) == {"lone ?"}


def test_a_group_that_ends_takes_its_counts_along(
    make_event: Callable[..., RebalanceEvent],
) -> None:
    tallies = GroupTallies(GroupChoice(re.compile("orders"), None, 10))
    tallies.observe(make_event())
    tallies.observe(make_event(group_id="other"))
    assert tallies.of("orders") == {"member_joined": 1}
    assert tallies.of("other") == {}
    tallies.observe(GroupRemoved("orders", ()))
    assert tallies.of("orders") == {}


def test_without_an_expression_no_group_is_wanted() -> None:
    assert not GroupChoice(None, None, 10).wants("orders")


def test_others_may_have_their_turn_between_groups_and_between_offsets(written: Written) -> None:
    groups(written, *(f"g{number}" for number in range(100)))
    written.status.committed = [committed("orders", number, 1) for number in range(100)]
    choice = written.choice(most=100_000)
    topics = TopicSource(dict, lambda *_: None)
    series = GroupSeries(written.status, choice, GroupTallies(choice), topics)
    assert sum(piece == "" for piece in series.pieces()) >= 300


def test_groups_that_have_a_tally_are_bounded(
    monkeypatch: pytest.MonkeyPatch, make_event: Callable[..., RebalanceEvent]
) -> None:
    monkeypatch.setattr("coordinator_server.observe.group_series.MAX_TALLIES", 3)
    tallies = GroupTallies(GroupChoice(re.compile(".*"), None, 1_000))
    for number in range(5):
        tallies.observe(make_event(group_id=f"group-{number}"))
    counts = [sum(tallies.of(f"group-{number}").values()) for number in range(5)]
    assert counts == [0, 0, 1, 1, 1]
