"""Dashboard, alerts and metrics, together in a real Prometheus that scrapes a real server."""

import re
import time
from collections.abc import Iterator, Mapping

import pytest

from coordinator_server.observe.families import (
    EXPORTER_FAMILIES,
    FAMILIES,
    GROUP_FAMILIES,
    JMX_FAMILIES,
    PREFIX,
)
from tests.support.client_processes import ROOT
from tests.support.prometheus import (
    ALERTS,
    CONFIG,
    Prometheus,
    alert_rules,
    dashboard,
    dashboard_expressions,
    needs_prometheus,
    promtool,
)
from tests.support.server import ServerProcess
from tests.support.wire import RawConnection

SETTINGS = {
    "metrics.groups.allow": ".*",
    "metrics.aliases": "jmx,kafka_exporter",
    "topics": "orders:2",
    "rebalance.flapping.max.rebalances": "1",
}

NO_DATA = {"rebalances_failed_total", "offsets_removed_total"}
"""Metrics of the dashboard that stay at 0 in the story of this test."""

GROUP = "billing"
METADATA = b"\0\0\0\0\0\0\xff\xff\xff\xff"


def cause_trouble(server: ServerProcess) -> None:
    """A group whose leader joins three times, is refused once, commits and leaves."""
    with RawConnection(server.bootstrap, timeout=20) as client:
        member: dict[str, object] = {"member_id": ""}
        for _ in range(3):
            joined = client.call(
                "JoinGroup",
                3,
                group_id=GROUP,
                session_timeout=30_000,
                rebalance_timeout=60_000,
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": METADATA}],
                member_id=member["member_id"],
            )
            member = {name: joined[name] for name in ("member_id", "generation_id")}
            given = [{"member_id": member["member_id"], "assignment": b""}]
            client.call("SyncGroup", 1, group_id=GROUP, assignments=given, **member)
        client.call("Heartbeat", 1, group_id=GROUP, **{**member, "generation_id": 99})
        client.call("Heartbeat", 1, group_id=GROUP, **member)
        assert not commit(client, member)
        assert fetch_end(client) == 0
        client.call("LeaveGroup", 1, group_id=GROUP, member_id=member["member_id"])


def abandon_a_member_id(server: ServerProcess) -> None:
    """Ask for a member id and never come back: for its session the group waits for it."""
    with RawConnection(server.bootstrap) as client:
        given = client.call(
            "JoinGroup",
            4,
            group_id=GROUP,
            session_timeout=600_000,
            rebalance_timeout=600_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": METADATA}],
            member_id="",
        )
    assert given["error_code"] == "MEMBER_ID_REQUIRED"


def commit(client: RawConnection, member: Mapping[str, object]) -> bool:
    """Commit offset 7 of `orders`; whether that failed."""
    offset = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    answer = client.call(
        "OffsetCommit",
        6,
        group_id=GROUP,
        generation_id_or_member_epoch=member["generation_id"],
        member_id=member["member_id"],
        topics=[{"name": "orders", "partitions": [{**offset, "committed_leader_epoch": -1}]}],
    )
    return bool(answer["topics"][0]["partitions"][0]["error_code"] != "NONE")


def fetch_end(client: RawConnection) -> int:
    """Ask for the end of partition 0 of `orders`, which opens it."""
    asked = {"partition_index": 0, "timestamp": -1}
    listed = [{"name": "orders", "partitions": [asked]}]
    answer = client.call("ListOffsets", 1, replica_id=-1, topics=listed)
    return int(answer["topics"][0]["partitions"][0]["offset"])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that has seen a server, then its rebalances."""
    folder = tmp_path_factory.mktemp("prometheus")
    with (
        ServerProcess(folder / "server", SETTINGS) as server,
        Prometheus(folder / "prometheus", f"127.0.0.1:{server.http_port}") as scraping,
    ):
        scraping.wait_for("up == 1")
        # What has never been is not there; a rate needs it there twice.
        refused = f'{PREFIX}requests_total{{error="ILLEGAL_GENERATION"}}'
        cause_trouble(server)
        scraping.wait_for(refused)
        cause_trouble(server)
        abandon_a_member_id(server)
        scraping.wait_for(f"rate({refused}[1m]) > 0")
        yield scraping


pytestmark = [needs_prometheus, pytest.mark.slow]


def test_every_expression_of_the_dashboard_has_data_after_a_rebalance(
    prometheus: Prometheus,
) -> None:
    found = dashboard_expressions()
    without = {
        title
        for title, expressions in found.items()
        for expression in expressions
        if not prometheus.query(expression) and not any(word in expression for word in NO_DATA)
    }
    assert without == set()


@pytest.mark.parametrize("absent", sorted(NO_DATA))
def test_what_a_well_server_has_not_is_used_where_only_what_happens_is_shown(absent: str) -> None:
    shown = [each for every in dashboard_expressions().values() for each in every if absent in each]
    assert shown
    assert all(expression.endswith("> 0") for expression in shown)


def test_every_alert_is_evaluated_and_none_fires_at_a_server_that_is_well(
    prometheus: Prometheus,
) -> None:
    deadline = time.monotonic() + 60
    while any(rule["health"] == "unknown" for rule in prometheus.rules()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    rules = {rule["name"]: rule for rule in prometheus.rules()}
    assert rules.keys() == {rule["alert"] for rule in alert_rules()}
    assert {name: rule["lastError"] for name, rule in rules.items() if rule.get("lastError")} == {}
    assert {rule["health"] for rule in rules.values()} == {"ok"}
    for rule in alert_rules():
        prometheus.query(rule["expr"])
    assert {name for name, rule in rules.items() if rule["state"] == "firing"} == set()


def test_every_metric_that_is_documented_has_arrived(prometheus: Prometheus) -> None:
    families = {PREFIX + name: family for name, family in (FAMILIES | GROUP_FAMILIES).items()}
    families |= EXPORTER_FAMILIES | JMX_FAMILIES
    series = {
        name: f"{name}_count" if family.kind == "histogram" else name
        for name, family in families.items()
    }
    missing = {name for name, sample in series.items() if not prometheus.query(sample)}
    # Nothing came that was no request, and no task has failed: these series begin with the first.
    assert missing == {f"{PREFIX}frames_refused_total", f"{PREFIX}task_failures_total"}


def test_prometheus_takes_the_scrape_without_complaint(prometheus: Prometheus) -> None:
    assert prometheus.query("scrape_samples_scraped > 400")
    assert prometheus.query("scrape_samples_post_metric_relabeling == scrape_samples_scraped")


def test_promtool_finds_nothing_wrong_with_configuration_and_rules() -> None:
    for command, file in (("config", CONFIG), ("rules", ALERTS)):
        checked = promtool("check", command, file)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_alerts_fire_when_they_should_and_only_then() -> None:
    tested = promtool("test", "rules", ROOT / "tests" / "ops" / "alerts_test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_alert_is_in_the_tests_of_alerts_and_in_the_documentation() -> None:
    tests = (ROOT / "tests" / "ops" / "alerts_test.yml").read_text()
    documented = (ROOT / "docs" / "operations.md").read_text()
    for rule in alert_rules():
        assert f"alertname: {rule['alert']}\n" in tests
        assert f"`{rule['alert']}`" in documented


def test_the_dashboard_names_only_metrics_that_are_documented() -> None:
    known = {PREFIX + name for name in FAMILIES | GROUP_FAMILIES}
    known |= {name + end for name in known for end in ("_bucket", "_sum", "_count")}
    for expressions in (*dashboard_expressions().values(), [r["expr"] for r in alert_rules()]):
        for expression in expressions:
            named = set(re.findall(rf"{PREFIX}\w+", expression)) - {f"{PREFIX}series_left_out"}
            assert named <= known


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in own) < 24
        assert not own & cells, panel["title"]
        cells |= own
    identities = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(identities)) == len(identities)
