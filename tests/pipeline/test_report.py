"""The report's page from rows, without Spark."""

import pytest

pytest.importorskip("pyspark", reason="needs the extra `pipeline`")

from datetime import UTC, datetime, timedelta
from typing import Any

from coordinator_pipeline import svg
from coordinator_pipeline.report import render
from coordinator_pipeline.report_data import QUERIES, ReportData

BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOSTILE = '<script>alert("x")</script>&\'"'


def data(**rows: list[dict[str, Any]]) -> ReportData:
    """Return report data with the given rows; other queries have none."""
    totals = {"rebalances": 1, "groups": 1, "commits": 5, "flapping": 0, "stalled_s": 2.0}
    totals |= {"gaps": 3, "rewinds": 1}
    times = {"first": BEGIN, "last": BEGIN + timedelta(minutes=9)}
    found: dict[str, Any] = {name: [] for name in QUERIES} | {"totals": [totals | times]}
    return ReportData(found | rows, 60, "/data", BEGIN + timedelta(hours=1))


def stop(name: str) -> dict[str, Any]:
    return {
        "group_id": name,
        "generation": 7,
        "ended_at": BEGIN,
        "duration_ms": 1500,
        "commit_gap_ms": 61_000,
        "reason": name,
        "reason_source": "history",
        "client_reason": name,
        "cause_member": name,
        "cause_client": name,
        "cause_host": name,
        "members_before": 3,
        "members_after": 2,
    }


def test_an_empty_log_gives_a_page_that_says_so_everywhere() -> None:
    page = render(data())

    assert page.count("<section") == 8
    assert "No rebalances." in page
    assert "The end offsets of the topics are unknown" in page


def test_ids_of_clients_cannot_become_markup() -> None:
    life = {
        "group_id": HOSTILE,
        "name": HOSTILE,
        "member_id": HOSTILE,
        "first_seen": BEGIN,
        "until": BEGIN + timedelta(minutes=1),
        "alive": False,
        "end_reason": HOSTILE,
        "lifetime_s": 60.0,
    }
    bar = stop(HOSTILE) | {"started_at": BEGIN}
    busiest = {"group_id": HOSTILE, "rebalances": 1, "stalled_s": 1.5, "cost": 3.0}
    heat = {"group_id": HOSTILE, "reason": HOSTILE, "n": 2}

    page = render(
        data(
            stops=[stop(HOSTILE)], lifetimes=[life], timeline=[bar], busiest=[busiest], heat=[heat]
        )
    )

    assert "<script" not in page
    assert 'alert("x")' not in page
    assert "&lt;script&gt;" in page


def test_a_stop_has_its_duration_reason_and_culprit() -> None:
    page = render(data(stops=[stop("billing") | {"reason": "session_expired"}]))

    assert "1 min 1 s" in page
    assert "session expired" in page
    assert "1.5 s" in page


def test_the_footer_reports_gaps_in_the_history() -> None:
    assert "lacks generations in 3 places" in render(data())


def test_a_line_has_gaps_where_no_value_is_known() -> None:
    def step(begin: int, end: int, value: float) -> svg.Step:
        return svg.Step(BEGIN + timedelta(minutes=begin), BEGIN + timedelta(minutes=end), value)

    span = svg.TimeSpan(BEGIN, BEGIN + timedelta(minutes=10))

    assert svg.area(span, [], 0, 10) == ""
    drawn = svg.area(span, [step(0, 1, 5), step(1, 2, 10), step(4, 5, 0)], 0, 10)
    assert 'points="0.0,10.0 0.0,5.0 100.0,5.0 100.0,0.0 200.0,0.0 200.0,10.0"' in drawn
    assert 'points="400.0,10.0 400.0,10.0 500.0,10.0 500.0,10.0"' in drawn
    assert drawn.count("polygon") == 2


def test_the_commit_rate_of_a_partial_minute_uses_its_seconds() -> None:
    load = [{"at": BEGIN - timedelta(seconds=30), "commits": 60}]

    assert "at most 2.0" in render(data(load=load))


def test_a_legend_has_the_colours_that_are_there() -> None:
    bar = stop("session_expired") | {"group_id": "g", "started_at": BEGIN}
    page = render(data(timeline=[bar], lag_marks=[]))

    of_timeline = page.split('id="timelines"')[1].split("</ul>")[0]
    assert "session expired" in of_timeline
    assert "member left" not in of_timeline
    assert "session expired" not in page.split('id="members"')[1]
