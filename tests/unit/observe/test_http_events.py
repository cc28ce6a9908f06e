"""`/api/events`: what happens, as server-sent events."""

import asyncio
import json

import aiohttp
import pytest

from coordinator_server.group.rebalance_events import RebalanceReason
from coordinator_server.observe.sse import EventStream
from tests.support.fake_http_server import (
    ALICE,
    NOW,
    REFUSED,
    STARTED,
    rebalance,
    rebalance_history,
)
from tests.support.http_client import HttpClient


async def lines(stream: aiohttp.ClientResponse, until: bytes) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(10):
        while until not in found:
            found.append((await stream.content.readline()).rstrip(b"\n"))
    return found


async def test_events_are_told_as_they_happen(served: HttpClient) -> None:
    async with served.session.get(f"{served.side.url}/api/events?group=orders") as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        await lines(stream, b"")
        other = rebalance(RebalanceReason.MEMBER_LEFT, ALICE, NOW, group_id="other")
        for observation in (other, STARTED, rebalance_history()[1], REFUSED):
            served.side.events.observe(observation)
        told = await lines(stream, b"event: refusal")
    assert [line for line in told if line.startswith(b"event")] == [
        b"event: rebalance_started",
        b"event: rebalance",
        b"event: refusal",
    ]
    data = json.loads(next(line for line in told if b"rolling" in line).removeprefix(b"data: "))
    assert data["culprit"]["client_id"] == "bob"


async def test_a_client_that_does_not_read_is_dropped_with_an_overrun(served: HttpClient) -> None:
    events = served.side.events
    async with served.session.get(f"{served.side.url}/api/events") as stream:
        await lines(stream, b"")
        for _ in range(1_000):
            events.observe(STARTED)
        assert len(events) == 0
        told = await lines(stream, b"event: overrun")
        assert told.count(b"event: rebalance_started") < 1_000
        async with asyncio.timeout(10):
            await stream.read()


def test_a_client_that_has_overrun_may_leave() -> None:
    events = EventStream()
    subscriber = events.join(None)
    assert subscriber is not None
    while len(events):
        events.observe(STARTED)
    events.leave(subscriber)
    assert subscriber.overrun


async def test_too_many_listeners_are_refused(
    served: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator_server.observe.sse.MAX_CLIENTS", 1)
    async with served.session.get(f"{served.side.url}/api/events"):
        assert (await served.get("/api/events"))[0] == 503
    async with asyncio.timeout(10):
        while len(served.side.events):
            served.side.events.observe(STARTED)
            await asyncio.sleep(0.01)


async def test_a_stop_ends_the_streams(served: HttpClient) -> None:
    async with served.session.get(f"{served.side.url}/api/events") as stream:
        await lines(stream, b"")
        await served.side.server.stop()
        async with asyncio.timeout(10):
            assert await stream.read() == b""
