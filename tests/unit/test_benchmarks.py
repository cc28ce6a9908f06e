"""What benchmarks make of their measurements; none is run here."""

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import (
    compare,
    flapping,
    instructions,
    micro,
    observability,
    profiling,
    stored,
    tails,
    work,
)
from benchmarks.choice import chosen
from benchmarks.tables import (
    Measured,
    goals_table,
    measured_table,
    ratio,
    start_table,
    table,
)
from benchmarks.work import (
    COMPILED,
    CREATE,
    FULL,
    HEARTBEAT,
    KAFKA,
    KFAKE,
    OURS,
    QUICK,
    Sample,
)
from coordinator_protocol.history import RebalanceHistoryKey
from coordinator_protocol.records import GroupMetadataKey, decode_key
from coordinator_server.observe.flapping import MAX_INCIDENTS

LOAD = Path(work.__file__).parent / "load"


def sample(cpu_seconds: float, operations: int = 1_000_000) -> Sample:
    return Sample(operations, 0, "", 2.0, 100.0, 200.0, 300.0, cpu_seconds, 10**7, 33 * 10**6)


def measured(name: str, samples: Mapping[str, Sample]) -> Measured:
    return Measured(name, 0.25, 40_000_000, {work: [one] for work, one in samples.items()})


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_a_table_has_its_texts_to_the_left_and_its_figures_to_the_right() -> None:
    shown = table(("work", "server", "CPU us"), [("Heartbeat", "ours", "9.5")])
    assert shown.splitlines() == [
        "| work      | server | CPU us |",
        "| --------- | ------ | -----: |",
        "| Heartbeat | ours   |    9.5 |",
    ]


def test_what_is_measured_is_chosen_by_parts_of_names_and_nonsense_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser, names = argparse.ArgumentParser(), ("heartbeat, 1 in flight", "create a group")
    assert chosen(parser, names, []) == list(names)
    assert chosen(parser, names, ["Heartbeat"]) == ["heartbeat, 1 in flight"]
    with pytest.raises(SystemExit):
        chosen(parser, names, ["create", "fetch"])
    assert "'fetch': expected a part of one of: heartbeat, 1 in flight; create" in (
        capsys.readouterr().err
    )


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


def test_servers_are_compared_in_each_round_by_itself() -> None:
    ours, theirs = (1.0, 8.0, 3.0), (2.0, 8.0, 4.0)
    run = {
        name: Measured(name, 0.25, 0, {HEARTBEAT.name: [sample(cpu) for cpu in rounds]})
        for name, rounds in ((OURS, ours), (KFAKE, theirs))
    }
    assert ratio(run, OURS, KFAKE, HEARTBEAT) == 0.75
    assert run[OURS].typical(HEARTBEAT).cpu_us == 3.0


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


def test_the_compiled_server_is_judged_beside_the_other_where_it_was_measured() -> None:
    run = {
        OURS: measured(OURS, {HEARTBEAT.name: sample(9.1), CREATE.name: sample(20.0)}),
        COMPILED: measured(COMPILED, {HEARTBEAT.name: sample(7.5)}),
        KFAKE: measured(KFAKE, {HEARTBEAT.name: sample(12.0), CREATE.name: sample(10.0)}),
    }
    shown = {row[0]: row[3:] for row in rows(goals_table(run))}
    assert shown[HEARTBEAT.name] == ["0.7583", "missed", "0.625", "met"]
    assert shown[CREATE.name] == ["2", "missed", "-", ""]


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


@pytest.mark.parametrize("step", list(micro.steps()), ids=lambda each: each.name)
def test_steps_are_timed_after_both_sides_agree(step: micro.Step) -> None:
    step.ours()()
    if step.theirs is not None:
        step.theirs()()


def test_a_sample_is_put_down_to_the_innermost_function_of_ours() -> None:
    stack = (
        "main (coordinator_server/app.py:1);receive (coordinator_server/net/session.py:150);"
        "Codec.decode (protocol/coordinator_protocol/decoder.py:7);loads (json/__init__.py:299)"
    )
    assert profiling.place_of(stack) == (
        "protocol",
        "coordinator_protocol/decoder.py Codec.decode",
    )
    assert profiling.place_of("decode (<decoder of HeartbeatRequest v4>:1)") == (
        "codec",
        "decode HeartbeatRequest v4",
    )
    assert profiling.place_of("run (uvloop.py:1)").package == profiling.LOOP


def test_shares_of_packages_add_up_to_everything() -> None:
    raw = ["a (coordinator_server/net/a.py:1) 3", "b (coordinator_server/net/b.py:1) 1", "c 4"]
    samples = profiling.counted(raw)
    assert profiling.shares(samples, of_packages=True) == [("net", 50.0), (profiling.LOOP, 50.0)]
    assert profiling.shares(samples, of_packages=False)[1] == ("net/a.py a", 37.5)


@pytest.mark.parametrize(("busy_us", "verdict"), [(21_000.0, "met"), (21_100.0, "missed")])
def test_a_disturbance_is_judged_by_what_it_adds_to_a_quiet_run(
    busy_us: float, verdict: str
) -> None:
    quiet = replace(sample(1.0), p999_us=1_000.0)
    assert tails.row("scrapes", quiet, replace(quiet, p999_us=busy_us))[-1] == verdict


def test_stored_groups_lie_where_the_coordinator_looks_for_them() -> None:
    ids = list(islice(stored.names_in(7), 3))
    assert stored.spread((each, stored.commits(each, 2, 0)) for each in ids).keys() == {7}


def test_stored_groups_that_flap_have_as_many_rebalances_as_are_looked_at() -> None:
    records = [decode_key(record.key or b"") for record in flapping._records("g", 10**12)]
    assert [type(key) for key in records[:2]] == [GroupMetadataKey, RebalanceHistoryKey]
    assert len(records) == 1 + MAX_INCIDENTS
    lost = [flapping._rebalance("g", number, 0).culprit.client_id for number in range(20)]
    assert len(set(lost)) == flapping.CLIENTS


def test_what_observing_costs_is_judged_by_the_runs_beside_it() -> None:
    slower_and_slower = [10.0, 12.0, 14.0]
    assert observability.percent_more(slower_and_slower, [11.55, 13.65]) == pytest.approx(5.0)


CALLGRIND = """\
fn=(1) CPyDef_session___Session____serve'CPyDef_session___Session___receive
12 30
cfn=(2) malloc'list_append'CPyDef_session___Session____serve
calls=2 0
12 500
fn=(2)
7 400
+1 100
fn=(3) epoll_wait'uv_run
5 60
fn=(1)
* 8
"""


def test_instructions_count_for_our_innermost_function_and_not_twice_for_callers() -> None:
    spent = instructions.attributed(CALLGRIND.splitlines(keepends=True))
    assert spent == {"session.Session._serve": 538, "the event loop": 60}
    assert list(instructions.rows_of(spent, 2, 1)) == [
        ("all", "299"),
        ("session.Session._serve", "269"),
    ]


def compared(row: compare.Row, *rounds: tuple[float, float]) -> compare.Compared:
    pairs = [(sample(before), sample(after)) for before, after in rounds]
    return compare.Compared(row, pairs)


def test_two_checkouts_are_compared_by_the_median_of_the_ratios_of_the_rounds() -> None:
    # The machine was twice as slow in the second round, and hiccuped in the third.
    found = compared(compare.ROWS[0], (10.0, 11.0), (20.0, 22.0), (10.0, 30.0))
    assert found.ratio == pytest.approx(1.1)
    assert found.cells()[:5] == ("Heartbeat, 1 in flight", "10.0", "22.0", "1.10", "1.10 to 3.00")


def test_rows_of_a_comparison_have_names_of_their_own() -> None:
    names = [row.name for row in compare.ROWS]
    assert len(set(names)) == len(names)
    assert "OffsetCommit, 1 partition, log.flush=os" in names


def test_every_work_of_a_comparison_is_one_that_the_load_generator_knows() -> None:
    source = (LOAD / "main.go").read_text()
    for row in compare.ROWS:
        assert f'"{row.work.mode}":' in source
        for option in row.work.options:
            assert f'"{option.replace("_", "-")}"' in source


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no checkout"):
        compare.checkout(str(tmp_path))
