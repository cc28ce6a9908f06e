"""What a client has sent before it went is served, as in Kafka: with acks=0 nobody waits for it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coordinator_server.api import registry
from coordinator_server.net import leaving
from coordinator_server.net.session import MOST_AT_ONCE
from protocol.api_keys import ApiKey
from tests.support.conversation import (
    FIND,
    FIND_COORDINATOR,
    heartbeat,
    join,
    replaced,
    request,
)
from tests.support.listening import Client, Start, World


class Slow:
    """A handler that ends when it is let go; FindCoordinator's, or another one's."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, api_key: int = FIND_COORDINATOR, version: int = 2
    ) -> None:
        self.begun: list[Any] = []
        self.ended: list[str] = []
        self.may_end = asyncio.Event()
        way = registry.route(api_key, version)
        assert way is not None
        monkeypatch.setattr(way, "handle", self.handle)
        monkeypatch.setattr(way, "is_async", True)

    async def handle(self, call: Any, *_: Any) -> None:
        self.begun.append(call)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("done")
        call.answer_nothing()


async def gone(world: World, client: Client, served: Callable[[], bool]) -> None:
    """Close the client's connection once something has been served."""
    await world.until(served)
    client.close()
    await world.until(lambda: world.server.connections == 0)


def left(world: World) -> int:
    """How many clients that have gone are served still."""
    return len(world.server._hub.leaving)


async def test_a_request_runs_on_and_those_behind_it_are_served_when_their_client_has_gone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, world = Slow(monkeypatch), await start()
    client = await world.connect()
    many = 3 * MOST_AT_ONCE
    client.send(FIND, FIND, *(heartbeat(number) for number in range(many)))
    await gone(world, client, lambda: len(slow.begun) == 1)
    slow.may_end.set()
    await world.until(lambda: left(world) == 0)
    assert slow.ended == ["done", "done"]
    assert len(world.coordinator.submitted) == many
    assert world.counters.connections_closed == {"client_closed": 1}


@pytest.mark.parametrize(
    ("api_key", "version"), [(ApiKey.FETCH, 12), (ApiKey.LIST_OFFSETS, 7), (ApiKey.LIST_GROUPS, 4)]
)
async def test_what_is_of_use_to_its_client_alone_ends_with_it_and_holds_up_nothing_behind_it(
    start: Start, monkeypatch: pytest.MonkeyPatch, api_key: ApiKey, version: int
) -> None:
    slow, world = Slow(monkeypatch, api_key, version), await start()
    client = await world.connect()
    asked = request(api_key, version)
    client.send(asked, join(), heartbeat(3), asked, join(), heartbeat(6))
    await gone(world, client, lambda: len(slow.begun) == 1)
    await world.until(lambda: left(world) == 0 and slow.ended == ["cancelled"])
    assert len(slow.begun) == 1
    assert len(world.coordinator.submitted) == 4


async def test_what_is_left_of_clients_keeps_their_places(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, world = Slow(monkeypatch), await start(max_connections=1)
    client = await world.connect()
    client.send(FIND)
    await gone(world, client, lambda: len(slow.begun) == 1)
    assert await (await world.connect()).is_closed()
    slow.may_end.set()
    await world.until(lambda: left(world) == 0)
    again = await world.connect()
    again.send(heartbeat(2))
    assert (await again.receive())[3] == 2


async def test_what_takes_too_long_after_its_client_has_gone_is_given_up(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "LONGEST_SECONDS", 0.0)
    slow, world = Slow(monkeypatch), await start()
    client = await world.connect()
    client.send(FIND, heartbeat(2))
    await gone(world, client, lambda: len(slow.begun) == 1)
    await world.until(lambda: left(world) == 0 and slow.ended == ["cancelled"])
    assert not world.coordinator.submitted


async def test_a_server_that_stops_begins_no_further_request_of_a_client_that_has_gone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, world = Slow(monkeypatch), await start()
    client = await world.connect()
    client.send(FIND, heartbeat(2))
    await gone(world, client, lambda: len(slow.begun) == 1)
    closing = asyncio.create_task(world.server.close(10))
    await asyncio.sleep(0)
    slow.may_end.set()
    await closing
    assert slow.ended == ["done"]
    assert not world.coordinator.submitted


async def test_a_server_that_stops_gives_up_what_goes_on_too_long(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, world = Slow(monkeypatch), await start()
    client = await world.connect()
    client.send(FIND)
    await gone(world, client, lambda: len(slow.begun) == 1)
    await world.server.close(0)
    await world.until(lambda: slow.ended == ["cancelled"])
    assert left(world) == 0


async def test_nothing_is_served_behind_a_request_that_ended_its_session(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handle(call: Any, *_: Any) -> None:
        await asyncio.sleep(0)
        call.disconnect("a failure that must not be answered")

    replaced(monkeypatch, handle, is_async=True)
    world = await start()
    client = await world.connect()
    client.send(FIND, heartbeat(2))
    client.close()
    await world.until(lambda: world.counters.connections_accepted == 1 and left(world) == 0)
    await world.until(lambda: world.server.connections == 0)
    assert not world.coordinator.submitted
    assert [event for event, _ in world.reports] == ["session_ended"]
