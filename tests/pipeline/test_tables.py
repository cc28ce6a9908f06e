"""The tables of small logs with known records."""

import pytest

pytest.importorskip("pyspark", reason="needs the extra `pipeline`")

import csv
import json
from pathlib import Path

from pyspark.sql import SparkSession

from coordinator_pipeline import cli
from coordinator_pipeline.report import write_report
from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.history import (
    HistoryCounts,
    HistoryMember,
    RebalanceHistoryKey,
    RebalanceHistoryValue,
    encode_history_key,
)
from coordinator_protocol.history_writer import encode_history
from tests.support.coordinator_log import marker, segment
from tests.support.pipeline_log import (
    BEGIN_MS,
    commit,
    deleted,
    generation,
    ran,
    rows,
    write_log,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def reason_headers(reason: str) -> dict[str, str]:
    """Headers of a group record that name a reason."""
    return {"rb.reason": reason, "rb.member": "b-1", "rb.host": "/10.0.0.9", "rb.start": "x"}


@pytest.fixture(scope="module")
def out(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a log with a bit of everything."""
    home = tmp_path_factory.mktemp("tables")
    transactions = [
        commit("txn", 10, 0, producer=7),
        commit("txn", 20, 1, 1, producer=8),
        marker(7, commit=True),
        marker(8, commit=False),
        commit("txn", 30, 2, 2, producer=7),
        commit("txn", 5, 3),
    ]
    write_log(home / "data", 1, enumerate(transactions))
    compacted = [(0, commit("old", 1, 0)), (1, commit("old", 1, 0, 1)), (5, commit("old", 9, 9))]
    compacted += [(6, commit("old", 4, 10)), (7, commit("old", 3, 11, 1))]
    compacted += [(8, generation("old", 1, ["a-1"], 20)), (9, generation("old", 4, ["a-1"], 30))]
    write_log(home / "data", 2, compacted)
    group_records = [
        generation("why", 1, ["a-1"], 0),
        generation("why", 2, ["a-1", "b-1"], 1_000, reason_headers("member_joined")),
        commit("why", 1, 1_500),
        generation("why", 3, ["a-1"], 2_000),
        commit("why", 2, 4_000),
        generation("why", 4, ["a-1"], 5_000),
        generation("why", 5, ["static/n1#1"], 6_000),
        generation("why", 6, ["static/n1#2"], 7_000),
        deleted("why", 8_000),
    ]
    write_log(home / "data", 3, enumerate(group_records))
    write_log(home / "data", 4, [(0, commit("late", 3, 61_000))])
    (home / "data" / "orders-0").mkdir()
    end = build_batch([commit("x", 0, 60_000)] * 5)
    segment(home / "data" / "orders-0").write_bytes(end)
    summary = ran(spark, home / "data", home / "out")
    assert (summary.records, summary.groups, summary.problems) == (23, 4, 0)
    return home / "out"


def test_a_commit_in_a_transaction_counts_only_with_its_marker(
    spark: SparkSession, out: Path
) -> None:
    found = rows(spark, out, "offset_commits", "log_offset")
    counted = [row["committed_offset"] for row in found if row["group_id"] == "txn"]

    assert counted == [10, 5]


def test_advances_over_a_hole_in_the_log_are_null(spark: SparkSession, out: Path) -> None:
    found = rows(spark, out, "offset_commits", "log_offset")
    old = [row for row in found if row["group_id"] == "old"]

    assert [(row["committed_offset"], row["history_gap"]) for row in old] == [
        (1, False),
        (1, False),
        (9, True),
        (4, False),
        (3, True),
    ]
    assert [row["advance"] for row in old] == [None, None, None, -5, None]
    assert [row["rewind"] for row in old] == [False, False, False, True, False]


def test_missing_generations_are_a_gap(spark: SparkSession, out: Path) -> None:
    found = rows(spark, out, "generations", "log_offset")
    old = [row for row in found if row["group_id"] == "old"]

    assert [(row["generation"], row["history_gap"]) for row in old] == [(1, False), (4, True)]
    assert old[1]["joined"] is None
    assert old[1]["moved_partitions"] is None


def test_reasons_are_recorded_inferred_or_unknown(spark: SparkSession, out: Path) -> None:
    found = rows(spark, out, "rebalances", "log_offset")

    assert [(r["reason"], r["reason_source"]) for r in found if r["group_id"] == "why"] == [
        ("member_joined", "inferred"),
        ("member_joined", "header"),
        ("member_gone", "inferred"),
        ("unknown", "unknown"),
        ("members_changed", "inferred"),
        ("static_replaced", "inferred"),
    ]
    assert [r["reason"] for r in found if r["group_id"] == "old"] == ["member_joined", "unknown"]
    headed = next(row for row in found if row["reason_source"] == "header")
    assert (headed["cause_member"], headed["cause_host"]) == ("b-1", "/10.0.0.9")
    assert headed["started_at"] is None
    gone = next(row for row in found if row["reason"] == "member_gone")
    assert gone["commit_gap_ms"] == 2_500


def test_lag_is_null_where_no_end_is_known(spark: SparkSession, out: Path) -> None:
    found = {row["group_id"]: row for row in rows(spark, out, "lag", "group_id")}
    columns = ("lag_sum", "lag_max", "partitions_known", "partitions_unknown", "end_offset_age_s")

    assert [found["late"][name] for name in columns] == [2, 2, 1, 0, 0]
    assert [found["why"][name] for name in columns] == [None, None, 0, 1, None]


def test_query_and_export_give_the_tables(
    spark: SparkSession,
    out: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["coordinator-pipeline", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        output = capsys.readouterr()
        return f"{ended.value.code or 0}\n{output.out}{output.err}"

    sql = "SELECT reason, count(*) AS n FROM rebalances GROUP BY 1 ORDER BY 2 DESC, 1"
    said = run("query", "--out", str(out), sql).splitlines()
    assert said[:3] == ["0", "reason\tn", "member_joined\t3"]
    wrong = run("query", "--out", str(out), "SELECT nothing FROM rebalances").splitlines()
    assert wrong[0] == "1"
    assert len(wrong) == 2
    assert "nothing" in wrong[1]

    to = tmp_path / "csv"
    export = ("export", "--out", str(out), "--table", "members", "--table", "generations")
    assert run(*export, "--to", str(to), "--format", "csv").startswith("0\n")
    lines = [line for path in to.glob("generations/*.csv") for line in path.read_text().split("\n")]
    assert len([line for line in lines if line.startswith("why,")]) == 7
    (both,) = [
        row for row in csv.DictReader(lines) if (row["group_id"], row["generation"]) == ("why", "2")
    ]
    assert json.loads(both["member_ids"]) == ["a-1", "b-1"]
    to = tmp_path / "parquet"
    assert run(*export, "--to", str(to)).startswith("0\n")
    assert spark.read.parquet(str(to / "members")).count() == 5


def of_years(number: int) -> LogRecord:
    """A rebalance that took as long as no rebalance can."""
    who = HistoryMember("m", None, "c", "h")
    value = RebalanceHistoryValue(
        *(number, number - 1, number, BEGIN_MS, BEGIN_MS + number, 1 << 62, 5),
        *("member_left", "completed", "Stable", who, None),
        HistoryCounts(1, 1, 0, 0, 0, 0, 0),
        *([], [], [], [], []),
    )
    key = encode_history_key(RebalanceHistoryKey("years", number, number))
    return LogRecord(key, encode_history(value), BEGIN_MS + number)


def test_extreme_numbers_and_times_stop_neither_run_nor_report(
    spark: SparkSession, tmp_path: Path
) -> None:
    year_1, year_9999 = -62_135_596_800_000 - BEGIN_MS, 253_402_300_799_999 - BEGIN_MS
    records = [of_years(number) for number in range(1, 7)]
    records += [generation("g", 2**31 - 1, ["a-1"], 0), generation("g", -5, ["a-1"], 1)]
    records += [commit("g", 1, year_1), commit("g", 2, year_9999)]
    records += [commit("g", -(1 << 62), 0, partition) for partition in range(3)]
    records += [commit("h", (1 << 63) - 1, 0), commit("h", -(1 << 63), 1)]
    records += [generation("h", 1, ["a-1"], year_1), generation("h", 2, [], year_9999)]
    write_log(tmp_path / "data", 0, enumerate(records))
    for partition in range(3):
        (tmp_path / "data" / f"orders-{partition}").mkdir()
        end = build_batch([commit("x", 0, 0)])
        segment(tmp_path / "data" / f"orders-{partition}").write_bytes(end)

    ran(spark, tmp_path / "data", tmp_path / "out")

    (flapping,) = rows(spark, tmp_path / "out", "flapping", "group_id")
    assert (flapping["rebalances"], flapping["stalled_ms"]) == (6, None)
    first, *_ = rows(spark, tmp_path / "out", "offset_commits", "log_offset")
    assert (first["committed_offset"], first["ts"]) == (1, None)
    assert write_report(spark, tmp_path / "out", tmp_path / "report.html").exists()


def test_a_damaged_batch_is_skipped_and_reported(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_log(tmp_path / "data", 0, [(n, commit("g", n, n)) for n in range(4)])
    size = len(build_batch([commit("g", 0, 0)]))
    raw = bytearray(path.read_bytes())
    raw[size + 70] ^= 1
    path.write_bytes(raw[: 3 * size] + b"between" + raw[3 * size :])
    out = tmp_path / "out"
    words = ["run", "--log", str(tmp_path / "data"), "--out", str(out), "--no-report"]
    monkeypatch.setattr("sys.argv", ["coordinator-pipeline", *words])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 3
    said = capsys.readouterr()
    assert "3 records of 1 groups" in said.out
    assert "2 batches or records could not be read" in said.err
    assert "partition 0, offset 1" in said.err
    assert "partition 0, offset 3" in said.err
    summary = json.loads((out / "run.json").read_text())["summary"]
    assert (summary["records"], summary["problems"]) == (3, 2)
    found = rows(spark, out, "offset_commits", "log_offset")
    gaps = [(row["log_offset"], row["history_gap"]) for row in found]
    assert gaps == [(0, False), (2, True), (3, True)]
