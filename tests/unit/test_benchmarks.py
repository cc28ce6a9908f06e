"""What benchmarks make of their measurements; none is run here."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks import codec, work
from benchmarks.tables import Measured, goals_table, measured_table, start_table, table
from benchmarks.work import CREATE, FULL, HEARTBEAT, KAFKA, KFAKE, OURS, QUICK, Sample

LOAD = Path(work.__file__).parent / "load"


def sample(cpu_seconds: float, operations: int = 1_000_000) -> Sample:
    return Sample(operations, 0, "", 2.0, 100.0, 200.0, 300.0, cpu_seconds, 10**7, 33 * 10**6)


def measured(name: str, samples: Mapping[str, Sample]) -> Measured:
    return Measured(name, 0.25, 40_000_000, samples)


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_a_table_has_its_texts_to_the_left_and_its_figures_to_the_right() -> None:
    shown = table(("work", "server", "CPU us"), [("Heartbeat", "ours", "9.5")])
    assert shown.splitlines() == [
        "| work      | server | CPU us |",
        "| --------- | ------ | -----: |",
        "| Heartbeat | ours   |    9.5 |",
    ]


def test_a_server_is_compared_with_kfake_and_kafka_by_cpu_per_operation() -> None:
    run = {
        OURS: measured(OURS, {HEARTBEAT.name: sample(9.0)}),
        KFAKE: measured(KFAKE, {HEARTBEAT.name: sample(12.0)}),
        KAFKA: measured(KAFKA, {HEARTBEAT.name: sample(30.0)}),
    }
    ours = rows(measured_table(run))[2]
    assert ours == [
        *(HEARTBEAT.name, OURS, "500,000", "9.0"),
        *("0.10", "0.20", "0.30", "33", "0.75", "0.30"),
    ]


def test_without_kafka_there_is_no_ratio_to_it() -> None:
    run = {OURS: measured(OURS, {HEARTBEAT.name: sample(9.0)})}
    assert rows(measured_table(run))[2][-2:] == ["-", "-"]


@pytest.mark.parametrize(("cpu", "verdict"), [(9.0, "met"), (9.1, "missed")])
def test_a_goal_is_met_up_to_its_figure(cpu: float, verdict: str) -> None:
    run = {
        OURS: measured(OURS, {HEARTBEAT.name: sample(cpu)}),
        KFAKE: measured(KFAKE, {HEARTBEAT.name: sample(12.0)}),
    }
    shown = {row[0]: row for row in rows(goals_table(run))}
    assert shown[HEARTBEAT.name][-1] == verdict


def test_what_was_not_measured_is_no_goal_met_or_missed() -> None:
    assert goals_table({KFAKE: measured(KFAKE, {HEARTBEAT.name: sample(12.0)})}) == ""


def test_memory_per_group_is_what_creating_them_added() -> None:
    run = {OURS: measured(OURS, {CREATE.name: sample(1.0, operations=10_000)})}
    assert rows(start_table(run))[2] == [OURS, "0.250", "40", "2,300"]


def test_of_several_runs_the_one_with_the_median_cpu_is_shown() -> None:
    middle = sample(2.0)
    assert work.typical([sample(3.0), middle, sample(1.0)]) is middle


def test_a_summary_of_the_load_generator_is_read() -> None:
    values = (7, 1, "why", 1.0, 2, 3, 4, 0.5, 6, 7)
    printed: dict[str, object] = {"mode": "heartbeat", "answers": 7}
    printed |= dict(zip(Sample.__slots__, values, strict=True))
    assert Sample.read(json.dumps(printed)).first_error == "why"
    del printed["first_error"]
    assert Sample.read(json.dumps(printed)).first_error == ""


def test_every_work_is_a_mode_and_options_the_load_generator_has() -> None:
    source = (LOAD / "main.go").read_text()
    options = set(re.findall(r'&o\.\w+, "([a-z-]+)"', source))
    modes = set(re.findall(r'^\t"([a-z]+)":', source, re.MULTILINE))
    for each in work.ALL:
        for pace in (FULL, QUICK):
            given = dict(part[1:].split("=") for part in work.options_of(each, pace))
            assert given.pop("mode") in modes
            assert given.keys() <= options


def test_every_field_of_a_sample_is_one_the_load_generator_prints() -> None:
    printed = set(re.findall(r'json:"(\w+)', (LOAD / "tally.go").read_text()))
    assert set(Sample.__slots__) <= printed


@pytest.mark.parametrize("exchange", codec.exchanges(), ids=lambda each: each.name)
def test_codec_benchmarks_time_what_kio_agrees_with(
    exchange: codec.Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "microseconds", lambda work: 1.0 if work() else 2.0)
    assert codec.read_row(exchange)[-1] == codec.write_row(exchange)[-1] == "1.0"
