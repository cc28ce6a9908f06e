"""The HTTP side over a made-up coordinator: every route, what it refuses, what it costs."""

import asyncio
import time
from typing import Any

import pytest

from coordinator_server.group.rebalance_events import Counts, RebalanceReason
from coordinator_server.observe.counters import ClientMemory
from coordinator_server.observe.http import HttpServer
from coordinator_server.observe.status import GroupSummary, Unserved
from tests.support.fake_http_server import (
    ALICE,
    CAROL,
    NOW,
    REFUSED,
    STARTED,
    FakeHttpServer,
    rebalance,
    rebalance_history,
)
from tests.support.http_client import HttpClient

# --- health and metrics ---


async def test_the_memory_budget_of_client_data_is_told(served: HttpClient) -> None:
    served.side.memory = ClientMemory(used=5, limit=100, waiting=2)
    expected = {"used_bytes": 5, "limit_bytes": 100, "waiting_connections": 2}
    assert await served.get("/api/status") == (200, {"client_memory": expected})
    served.side.memory = ClientMemory(used=5)
    _, form = await served.get("/api/status")
    assert isinstance(form, dict)
    assert form["client_memory"]["limit_bytes"] is None


async def test_it_is_alive_while_it_loads(served: HttpClient) -> None:
    served.status.states = {"loading": 50}
    assert await served.get("/healthz") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("states", "code", "word"),
    [
        ({"active": 50}, 200, "ready"),
        ({"active": 49, "loading": 1}, 503, "loading"),
        ({"active": 49, "failed": 1}, 503, "loading"),
        ({}, 503, "loading"),
    ],
)
async def test_it_is_ready_when_all_partitions_are_loaded(
    served: HttpClient, states: dict[str, int], code: int, word: str
) -> None:
    served.status.states = states
    assert await served.get("/readyz") == (code, {"status": word, "partitions": states})


async def test_how_far_loads_are_is_told_while_there_are_any(served: HttpClient) -> None:
    served.status.states = {"active": 48, "loading": 2}
    served.status.loads = {7: (300, 1_000), 3: (0, 50)}
    code, form = await served.get("/readyz")
    assert code == 503
    assert isinstance(form, dict)
    assert form["loading"] == [
        {"partition": 3, "bytes": 0, "of": 50},
        {"partition": 7, "bytes": 300, "of": 1_000},
    ]
    _, text = await served.get("/metrics")
    assert "kafka_group_coordinator_partition_load_remaining_bytes 750.0" in str(text)


async def test_partitions_that_do_not_serve_are_named_with_why(served: HttpClient) -> None:
    served.status.states = {"active": 49, "failed": 1}
    served.status.not_serving = [Unserved(7, "failed", "OSError: disk full")]
    code, form = await served.get("/readyz")
    assert code == 503
    assert isinstance(form, dict)
    assert form["unserved"] == [{"partition": 7, "state": "failed", "error": "OSError: disk full"}]


async def test_metrics_are_prometheus_text(served: HttpClient) -> None:
    code, text = await served.get("/metrics")
    assert code == 200
    assert 'kafka_group_coordinator_rebalances_total{reason="member_joined"} 0.0' in text


# --- lists ---


async def test_groups_are_listed_with_their_last_rebalance(served: HttpClient) -> None:
    _, before = await served.get("/api/groups")
    served.side.add_rebalance_history()
    _, after = await served.get("/api/groups")
    assert before == {
        "groups": [
            {
                "group": "orders",
                "state": "PreparingRebalance",
                "protocol_type": "consumer",
                "protocol": "range",
                "generation": 6,
                "members": 2,
                "last_rebalance": None,
                "rebalances_1h": 0,
            }
        ],
        "findings": [],
        "next": None,
    }
    (group,) = after["groups"]
    assert group["last_rebalance"]["reason"] == "admin_rebalance"
    assert group["rebalances_1h"] == 6
    assert {finding["value"] for finding in after["findings"]} == {"alice-1", "carol-1"}


async def test_a_list_counts_whom_a_rebalance_moved_and_has_no_lists_that_would_contradict(
    served: HttpClient,
) -> None:
    event = rebalance(
        RebalanceReason.MEMBER_LEFT, CAROL, NOW, left=(CAROL,), counts=Counts(0, 1, 0, 0, 1)
    )
    served.status.events.append(event)
    _, answer = await served.get("/api/groups")
    last = answer["groups"][0]["last_rebalance"]
    assert last["counts"] == {"joined": 0, "left": 1, "evicted": 0, "waited_for": 0, "rounds": 1}
    assert not last["counts"].keys() & last.keys()
    _, group = await served.get("/api/groups/orders")
    assert group["last_rebalance"] == last | {
        "joined": [],
        "left": [CAROL._asdict()],
        "evicted": [],
        "waited_for": [],
        "rounds": [{"reason": "member_left", "culprit": CAROL._asdict(), "client_reason": None}],
    }


async def test_rebalances_of_the_last_hour_are_those_that_ended_in_it(served: HttpClient) -> None:
    old, new = NOW - 3_600_001, NOW - 3_600_000
    served.status.events += [
        rebalance(RebalanceReason.MEMBER_LEFT, ALICE, at) for at in (old, old, new)
    ]
    _, answer = await served.get("/api/groups")
    assert answer["groups"][0]["rebalances_1h"] == 1


def many(served: HttpClient, count: int) -> list[str]:
    ids = [f"g{number:05}" for number in range(count)]
    served.status.summaries = {
        name: GroupSummary(name, "Stable", "consumer", "range", 1, 3) for name in ids
    }
    return ids


@pytest.mark.parametrize(("count", "limit"), [(7, 3), (6, 3), (2, 3)])
async def test_a_list_comes_in_pages(served: HttpClient, count: int, limit: int) -> None:
    ids, seen, after = many(served, count), [], ""
    for _ in range(count):
        _, page = await served.get(f"/api/groups?limit={limit}{after}")
        seen += [group["group"] for group in page["groups"]]
        assert len(page["groups"]) <= limit
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == ids


async def test_findings_of_all_groups_are_on_the_first_page_alone(served: HttpClient) -> None:
    ids = many(served, 3)
    for number, group_id in enumerate((ids[2], "gone", ids[0]), start=8):
        for sequence in range(number):
            served.side.flapping.observe(
                rebalance(
                    RebalanceReason.MEMBER_LEFT, ALICE, NOW, group_id=group_id, sequence=sequence
                )
            )
    _, first = await served.get("/api/groups?limit=2")
    assert [finding["group"] for finding in first["findings"]] == [ids[0], "gone", ids[2]]
    _, second = await served.get(f"/api/groups?limit=2&after={first['next']}")
    assert [group["group"] for group in second["groups"]] == [ids[2]]
    assert second["findings"] == []


async def test_others_have_their_turn_while_a_thousand_groups_are_looked_at(
    served: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a clock that jumps, between any two groups."""
    for number in range(1_000):
        served.side.flapping.observe(
            rebalance(RebalanceReason.MEMBER_LEFT, ALICE, NOW, group_id=f"g{number}")
        )
    assert (await answered_by_a_clock_that_jumps(served, monkeypatch))[1] > 1_000


async def test_ten_thousand_groups_do_not_stall_the_loop(
    served: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice reads the clock until its time is over: with a clock that jumps, every group."""
    ids = many(served, 10_000)
    answer, turns = await answered_by_a_clock_that_jumps(served, monkeypatch)
    assert [group["group"] for group in answer["groups"]] == ids
    assert turns > len(ids)


async def answered_by_a_clock_that_jumps(
    served: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], int]:
    """The list, and how many turns others had meanwhile."""
    times = iter(range(10**9))
    monkeypatch.setattr(time, "perf_counter", lambda: next(times))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    _, answer = await served.get("/api/groups")
    task.cancel()
    return answer, turns


async def test_a_group_deleted_while_the_list_is_written_is_not_in_it(served: HttpClient) -> None:
    many(served, 3)
    (listed,) = served.status.group_ids()
    del served.status.summaries[listed[1]]
    served.status.group_ids = lambda: iter([listed])  # type: ignore[method-assign]
    _, answer = await served.get("/api/groups")
    assert [group["group"] for group in answer["groups"]] == [listed[0], listed[2]]


@pytest.mark.parametrize(
    ("path", "bounds"),
    [
        ("/api/groups", "of at least 1"),
        ("/api/groups/orders/timeline", "from 1 to 1000"),
        ("/api/groups/orders/why", "from 1 to 1000"),
    ],
)
@pytest.mark.parametrize("value", ["0", "-1", "x", "1e3", "9" * 30, "²", ""])
async def test_a_limit_that_is_none_is_refused(
    served: HttpClient, path: str, bounds: str, value: str
) -> None:
    code, answer = await served.get(f"{path}?limit={value}")
    assert code == 400
    assert answer["error"] == f"limit={value!r}: expected a whole number {bounds}"


@pytest.mark.parametrize("what", ["timeline", "why"])
async def test_as_many_rebalances_are_told_as_the_log_keeps_and_more_are_refused(
    served: HttpClient, what: str
) -> None:
    served.status.events += [
        rebalance(RebalanceReason.MEMBER_LEFT, ALICE, NOW + number, sequence=number)
        for number in range(1_000)
    ]
    for asked, told in (("", 100), ("?limit=7", 7), ("?limit=1000", 1_000)):
        _, answer = await served.get(f"/api/groups/orders/{what}{asked}")
        assert len(answer["rebalances"]) == told
        assert answer["total"] == 1_000
    assert await served.get(f"/api/groups/orders/{what}?limit=1001") == (
        400,
        {"error": "limit='1001': expected a whole number from 1 to 1000"},
    )


# --- one group ---


async def test_a_group_has_members_offsets_and_whom_it_waits_for(served: HttpClient) -> None:
    served.side.add_rebalance_history()
    code, group = await served.get("/api/groups/orders")
    assert code == 200
    assert group["members"][0]["assigned"] == {"orders": [0, 1]}
    assert [offset["expire_ms"] for offset in group["offsets"]] == [None, NOW + 518_400_000]
    assert [entry["kind"] for entry in group["waiting"]["waiting"]] == ["dynamic", "pending"]
    assert group["last_rebalance"]["client_reason"] == "a deploy"
    assert group["state_since_ms"] == NOW - 4_000
    assert (await served.get("/api/groups/orders/waiting"))[1] == group["waiting"]


async def test_a_timeline_has_the_latest_first_and_stops_where_it_is_told(
    served: HttpClient,
) -> None:
    served.side.add_rebalance_history()
    _, whole = await served.get("/api/groups/orders/timeline")
    assert [event["sequence"] for event in whole["rebalances"]] == [6, 5, 4, 3, 2, 1]
    assert whole["current"]["reason"] == STARTED.reason
    assert whole["refusals"][0]["detail"] == REFUSED.detail
    _, two = await served.get("/api/groups/orders/timeline?limit=2")
    assert [event["sequence"] for event in two["rebalances"]] == [6, 5]
    since = rebalance_history()[-1].started_ms
    _, latest = await served.get(f"/api/groups/orders/timeline?since_ms={since}")
    assert [event["sequence"] for event in latest["rebalances"]] == [6]


async def test_why_tells_reason_culprit_and_whom_it_waits_for(served: HttpClient) -> None:
    served.side.add_rebalance_history()
    code, why = await served.get("/api/groups/orders/why")
    assert code == 200
    assert why["waiting"]["waiting"][0]["member_id"] == "alice-1"
    assert why["members"][0]["waits_for"] == "join"
    assert why["current"]["reason"] == "member_joined"
    joined = why["rebalances"][-2]
    assert joined["culprit"]["group_instance_id"] == "bob"
    assert joined["client_reason"] == "rolling upgrade"
    assert joined["waited_for"][0]["waited_ms"] == 35
    expired = why["rebalances"][-3]
    assert [entry["reason"] for entry in expired["rounds"]] == ["session_expired", "member_joined"]


async def test_why_still_tells_of_a_group_that_is_gone(served: HttpClient) -> None:
    served.side.add_rebalance_history()
    served.status.summaries.clear()
    code, why = await served.get("/api/groups/orders/why")
    assert code == 200
    assert why["state"] is None
    assert len(why["rebalances"]) == 6
    assert why["waiting"] is None
    assert (await served.get("/api/groups/orders"))[0] == 404
    assert (await served.get("/api/groups/orders/timeline"))[0] == 200


async def test_what_was_found_is_told_when_it_is_over(served: HttpClient) -> None:
    served.status.events += [
        rebalance(RebalanceReason.MEMBER_LEFT, ALICE, NOW - 2 * 10**9 + number, sequence=number)
        for number in range(8)
    ]
    for what in ("why", "timeline"):
        _, answer = await served.get(f"/api/groups/orders/{what}")
        (past,) = answer["past_findings"]
        assert answer["findings"] == []
        assert (past["value"], past["count"]) == ("alice-1", 8)
        assert past["last_ms"] == NOW - 2 * 10**9 + 7


async def test_group_ids_may_have_any_characters(served: HttpClient) -> None:
    for name in ("a/b c%", "", "../x", "é"):
        served.status.summaries[name] = GroupSummary(name, "Empty", "", "", 0, 0)
    assert (await served.get("/api/groups/a%2Fb%20c%25/why"))[1]["group"] == "a/b c%"
    assert (await served.get("/api/groups//why"))[1]["group"] == ""
    assert (await served.get("/api/groups/"))[1]["group"] == ""
    assert (await served.get("/api/groups/%C3%A9"))[1]["group"] == "é"


@pytest.mark.parametrize("suffix", ["", "/why", "/timeline", "/waiting"])
async def test_errors_are_json_too(served: HttpClient, suffix: str) -> None:
    assert await served.get(f"/api/groups/nope{suffix}") == (404, {"error": "no group 'nope' here"})
    assert await served.get("/nope") == (404, {"error": "GET /nope: Not Found"})


# --- the page's files, the listener ---


async def test_the_page_is_served_with_nothing_from_elsewhere(served: HttpClient) -> None:
    for path, kind in (
        ("/", "text/html"),
        ("/web/page.js", "text/javascript"),
        ("/web/page.css", "text/css"),
        ("/web/icon.svg", "image/svg+xml"),
    ):
        async with served.session.get(f"{served.side.url}{path}") as answer:
            assert (answer.status, answer.content_type) == (200, kind)
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'")
            text = await answer.text()
            assert "https://" not in text
            assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("path", ["/web/../http.py", "/web/..%2Fhttp.py", "/web/", "/web/x.js"])
async def test_no_other_file_is_served(served: HttpClient, path: str) -> None:
    assert (await served.get(path))[0] == 404


async def test_a_port_in_use_is_an_error_and_leaves_nothing_behind(served: HttpClient) -> None:
    side = FakeHttpServer()
    second = HttpServer(
        "127.0.0.1",
        served.side.server.port,
        sources=side.server._sources,
        exposition=side.server._exposition,
    )
    with pytest.raises(OSError, match="in use"):
        await second.start()
    await second.stop()


async def test_who_goes_away_during_a_scrape_leaves_no_trace(
    served: HttpClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def scrape() -> list[bytes]:
        asked.set()
        await gone.wait()
        return [b"x 1\n"] * 2

    monkeypatch.setattr(served.side.server._exposition, "scrape", scrape)
    _, writer = await asyncio.open_connection("127.0.0.1", served.side.server.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    await asked.wait()
    writer.transport.abort()
    await asyncio.sleep(0.05)
    gone.set()
    await served.get("/healthz")
    assert caplog.records == []
