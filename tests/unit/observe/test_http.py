from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from coordinator_server.group.reasons import RebalanceEvent, RebalanceStarted
from coordinator_server.observe.counters import Counters
from coordinator_server.observe.http import HttpServer
from coordinator_server.observe.metrics import CoordinatorCollector, Names, make_registry
from coordinator_server.observe.timeline import Timeline


class Served:
    """A running HTTP server and a client of it."""

    def __init__(self, status: Any, session: aiohttp.ClientSession) -> None:
        self.status = status
        self.timeline = Timeline()
        collector = CoordinatorCollector(
            Counters(), status, self.timeline, lambda: 0, Names({}, {}), "1"
        )
        self.server = HttpServer(
            "127.0.0.1",
            0,
            status=status,
            timeline=self.timeline,
            registry=make_registry(collector),
        )
        self.session = session

    async def get(self, path: str) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with self.session.get(url) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.text())


@pytest.fixture
async def served(status: Any) -> AsyncIterator[Served]:
    async with aiohttp.ClientSession() as session:
        served = Served(status, session)
        await served.server.start()
        yield served
        await served.server.stop()


async def test_it_is_alive_while_it_loads(served: Served) -> None:
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
    served: Served, states: dict[str, int], code: int, word: str
) -> None:
    served.status.states = states
    assert await served.get("/readyz") == (code, {"status": word, "partitions": states})


async def test_how_far_loads_are_is_told_while_there_are_any(served: Served) -> None:
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


async def test_metrics_are_prometheus_text(served: Served) -> None:
    code, text = await served.get("/metrics")
    assert code == 200
    assert 'kafka_group_coordinator_rebalances_total{reason="member_joined"} 0.0' in text


async def test_groups_are_listed_with_their_last_rebalance(
    served: Served, make_event: Callable[..., RebalanceEvent]
) -> None:
    _, before = await served.get("/api/groups")
    served.timeline.observe(make_event())
    _, after = await served.get("/api/groups")
    assert before["groups"] == [
        {
            "group": "orders",
            "state": "Stable",
            "protocol_type": "consumer",
            "protocol": "range",
            "generation": 2,
            "members": 2,
            "last_rebalance": None,
        }
    ]
    assert after["groups"][0]["last_rebalance"]["reason"] == "member_joined"


async def test_why_tells_reason_culprit_and_whom_it_waits_for(
    served: Served, make_event: Callable[..., RebalanceEvent], started: RebalanceStarted
) -> None:
    served.timeline.observe(make_event())
    served.timeline.observe(started)
    code, why = await served.get("/api/groups/orders/why")
    assert code == 200
    assert why["waiting_for"][0]["member_id"] == "alice-1"
    assert why["members"][0]["waits_for"] == "join"
    assert why["current"]["reason"] == "member_left"
    (event,) = why["rebalances"]
    assert event["culprit"]["group_instance_id"] == "bob"
    assert event["client_reason"] == "rolling upgrade"
    assert [entry["reason"] for entry in event["rounds"]] == ["member_joined", "session_expired"]


async def test_why_still_tells_of_a_group_that_is_gone(
    served: Served, make_event: Callable[..., RebalanceEvent]
) -> None:
    served.timeline.observe(make_event(group_id="gone"))
    code, why = await served.get("/api/groups/gone/why")
    assert code == 200
    assert why["state"] is None
    assert len(why["rebalances"]) == 1


async def test_group_ids_may_have_any_characters(
    served: Served, make_event: Callable[..., RebalanceEvent]
) -> None:
    served.timeline.observe(make_event(group_id="a/b c%"))
    served.timeline.observe(make_event(group_id=""))
    assert (await served.get("/api/groups/a%2Fb%20c%25/why"))[1]["group"] == "a/b c%"
    assert (await served.get("/api/groups//why"))[1]["group"] == ""


async def test_errors_are_json_too(served: Served) -> None:
    assert await served.get("/api/groups/nope/why") == (404, {"error": "no group 'nope' here"})
    assert await served.get("/nope") == (404, {"error": "GET /nope: Not Found"})


async def test_a_port_in_use_is_an_error_and_leaves_nothing_behind(
    served: Served, status: Any
) -> None:
    second = HttpServer(
        "127.0.0.1",
        served.server.port,
        status=status,
        timeline=served.timeline,
        registry=make_registry(
            CoordinatorCollector(Counters(), status, Timeline(), lambda: 0, Names({}, {}), "1")
        ),
    )
    with pytest.raises(OSError, match="in use"):
        await second.start()
    await second.stop()
