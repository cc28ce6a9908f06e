"""The tables of a run over the log of real clients have the rebalances that they caused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra `pipeline`")

import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
SESSION_MS = 3_000


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of tools.pipeline_demo."""
    directory = tmp_path_factory.mktemp("demo")
    ran = subprocess.run(
        [sys.executable, "-m", "tools.pipeline_demo", "--directory", str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return directory


def rows(demo: Path, name: str) -> list[dict[str, Any]]:
    """Read a table with pyarrow."""
    found: list[dict[str, Any]] = pq.read_table(demo / "tables" / name).to_pylist()
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_rebalances_are_those_the_clients_were_made_to_cause(demo: Path) -> None:
    expected = json.loads((demo / "expected.json").read_text())
    found = [row for row in rows(demo, "rebalances") if row["outcome"] == "completed"]
    assert {row["reason_source"] for row in found} == {"history"}

    for group in ("billing", "ledger"):
        recorded = sorted((row for row in found if row["group_id"] == group), key=_order)
        acts = [act for act in expected if act["group"] == group]
        assert [(row["reason"], row["cause_client"]) for row in recorded[: len(acts)]] == [
            (act["reason"], act["client"]) for act in acts
        ]
        for row, act in zip(recorded, acts, strict=False):
            begun = row["started_at"].timestamp() - act["at"]
            ended = row["ended_at"].timestamp() - act["at"]
            assert -1 <= begun <= ended <= act["took_ms"][1] / 1000 + 1
            assert row["duration_ms"] <= act["took_ms"][1] + 1000


def _order(row: dict[str, Any]) -> int:
    return int(row["log_offset"])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_session_expires_when_it_must(demo: Path) -> None:
    expected = json.loads((demo / "expected.json").read_text())
    acts = [act for act in expected if act["reason"] == "session_expired"]
    found = [row for row in rows(demo, "rebalances") if row["reason"] == "session_expired"]

    assert len(found) >= len(acts) == 2
    for row, act in zip(sorted(found, key=_order), acts, strict=False):
        # The last heartbeat was up to its interval before.
        waited = (row["started_at"].timestamp() - act["at"]) * 1000
        assert SESSION_MS - 1_300 <= waited <= SESSION_MS + 1_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_static_member_that_restarts_causes_no_rebalance(demo: Path) -> None:
    members = [row for row in rows(demo, "members") if row["instance_id"] == "node-1"]
    members.sort(key=lambda row: row["first_seen"])
    rebalances = [row for row in rows(demo, "rebalances") if row["group_id"] == "ledger"]

    assert [row["end_reason"] for row in members] == ["static_replaced", None]
    assert members[0]["member_id"] != members[1]["member_id"]
    assert [row["cause_client"] for row in sorted(rebalances, key=_order)][:2] == [
        "ledger-1",
        "ledger-2",
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_lag_is_known_from_the_topics_own_log(demo: Path) -> None:
    lags = [row for row in rows(demo, "lag") if row["group_id"] == "billing"]

    assert lags
    assert all(row["lag_sum"] is not None and row["partitions_unknown"] == 0 for row in lags)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_report_is_one_file_that_asks_no_other_host(demo: Path) -> None:
    page = (demo / "tables" / "report.html").read_text()

    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    for title in ("What stopped my group?", "Culprits", "Rolling restarts", "The coordinator"):
        assert title in page
    assert "session expired" in page
