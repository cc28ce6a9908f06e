"""Requests of a client that has disconnected: those with an effect are served, as in Kafka."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.messages.offset_delete import (
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coordinator_server.api import registry
from coordinator_server.net import disconnected_session
from coordinator_server.net.fair_scheduler import FairScheduler
from coordinator_server.net.memory import MemoryBudget
from coordinator_server.net.session import MOST_AT_ONCE
from tests.support.listening_server import Client, ListeningServer, Start
from tests.support.session_harness import (
    FIND,
    heartbeat,
    join,
    replaced,
    request,
)

LEAVE_GROUP, OFFSET_DELETE = 13, 47
SLOW = request(OFFSET_DELETE, 0, group_id="g")
"""A request with an effect, which `Slow` handles."""


def leave(correlation_id: int) -> bytes:
    """A request with an effect, which is served at once."""
    return request(LEAVE_GROUP, 1, correlation_id, group_id="g", member_id="m")


class Slow:
    """A handler that ends when it is let go; OffsetDelete's, or another one's."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, api_key: int = OFFSET_DELETE, version: int = 0
    ) -> None:
        self.begun: list[Any] = []
        self.ended: list[str] = []
        self.may_end = asyncio.Event()
        way = registry.find_route(api_key, version)
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


async def gone(world: ListeningServer, client: Client, served: Callable[[], bool]) -> None:
    """Close the client's connection once something has been served."""
    await world.until(served)
    client.close()
    await world.until(lambda: world.server.connections == 0)


def left(world: ListeningServer) -> int:
    """How many clients that have gone are served still."""
    return len(world.server._hub.leaving)


async def test_a_request_runs_on_and_those_behind_it_are_served_when_their_client_has_gone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, world = Slow(monkeypatch), await start()
    client = await world.connect()
    many = 3 * MOST_AT_ONCE
    client.send(SLOW, SLOW, *(leave(number) for number in range(many)))
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
    client.send(asked, join(), leave(3), asked, heartbeat(5), join(), leave(6))
    await gone(world, client, lambda: len(slow.begun) == 1)
    await world.until(lambda: left(world) == 0 and slow.ended == ["cancelled"])
    assert len(slow.begun) == 1
    assert [type(event).__name__ for _, event in world.coordinator.submitted] == ["Leave"] * 2


async def test_what_is_left_of_clients_keeps_their_places(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, world = Slow(monkeypatch), await start(max_connections=1)
    client = await world.connect()
    client.send(SLOW)
    await gone(world, client, lambda: len(slow.begun) == 1)
    assert await (await world.connect()).is_closed()
    slow.may_end.set()
    await world.until(lambda: left(world) == 0)
    again = await world.connect()
    again.send(heartbeat(2))
    assert (await again.receive())[3] == 2


async def test_a_large_request_counts_until_it_is_served_though_its_client_has_gone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, world = Slow(monkeypatch), await start(memory=MemoryBudget(1 << 24))
    memory = world.context.memory
    indexes = [OffsetDeleteRequestPartition(partition_index=i) for i in range(10_000)]
    topics = [OffsetDeleteRequestTopic(name="t", partitions=indexes)]
    client = await world.connect()
    client.send(request(OFFSET_DELETE, 0, group_id="g", topics=topics), heartbeat(2), leave(3)[:9])
    await gone(world, client, lambda: len(slow.begun) == 1)
    held = memory.used
    assert held > 1 << 20
    slow.may_end.set()
    await world.until(lambda: left(world) == 0)
    assert (memory.used, memory.holders, memory.waiting) == (0, set(), 0)


async def test_what_is_dropped_of_a_client_that_has_gone_counts_no_more(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, world = Slow(monkeypatch), await start(memory=MemoryBudget(1 << 24))
    memory = world.context.memory
    client = await world.connect()
    begun = leave(3)[:9]
    client.send(SLOW, *(heartbeat(number) for number in range(500)), leave(2), begun)
    await world.until(lambda: len(slow.begun) == 1)
    (connection,) = world.server._hub.connections
    assert connection._session is not None
    assert connection._count(connection._session).held > 500 * len(heartbeat(1))
    await gone(world, client, lambda: True)
    await world.until(lambda: memory.used == len(leave(2)))
    slow.may_end.set()
    await world.until(lambda: left(world) == 0)
    assert memory.used == 0


async def test_what_takes_too_long_after_its_client_has_gone_is_given_up(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disconnected_session, "LONGEST_SECONDS", 0.0)
    slow, world = Slow(monkeypatch), await start()
    client = await world.connect()
    client.send(SLOW, leave(2))
    await gone(world, client, lambda: len(slow.begun) == 1)
    await world.until(lambda: left(world) == 0 and slow.ended == ["cancelled"])
    assert not world.coordinator.submitted


async def test_a_server_that_stops_begins_no_further_request_of_a_client_that_has_gone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, world = Slow(monkeypatch), await start()
    client = await world.connect()
    client.send(SLOW, leave(2))
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
    client.send(SLOW)
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


async def test_bytes_that_were_put_off_are_not_served_while_the_connection_is_closed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FairScheduler, "has_time", lambda *_: False)
    monkeypatch.setattr(FairScheduler, "add", lambda _self, _connection: None)
    monkeypatch.setattr(FairScheduler, "add_last", lambda _self, _connection: None)
    world = await start()
    client = await world.connect()
    client.send(leave(1), heartbeat(2), leave(3))
    client.close()
    await world.until(lambda: left(world) == 1)
    assert not world.coordinator.submitted
    (leaving,) = world.server._hub.leaving
    leaving.flush()
    assert [type(event).__name__ for _, event in world.coordinator.submitted] == ["Leave"] * 2
    assert left(world) == 0


async def test_a_client_that_resets_its_connection_leaves_no_work_without_effect(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, world = Slow(monkeypatch), await start()
    client = await world.connect()
    client.send(SLOW, *(heartbeat(number) for number in range(1_000)))
    await world.until(lambda: len(slow.begun) == 1)
    raw = client.writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()
    await world.until(lambda: world.server.connections == 0)
    (leaving,) = world.server._hub.leaving
    assert not leaving._session._waiting
    slow.may_end.set()
    await world.until(lambda: left(world) == 0)
    assert (slow.ended, world.coordinator.submitted) == (["done"], [])


async def test_what_is_left_of_a_client_and_raises_gives_its_place_free(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: Any) -> None:
        raise RuntimeError("planted")

    slow, world = Slow(monkeypatch), await start(max_connections=1)
    client = await world.connect()
    client.send(SLOW, leave(2))
    await world.until(lambda: len(slow.begun) == 1)
    (connection,) = world.server._hub.connections
    monkeypatch.setattr(type(connection._session), "leave", raises)
    client.close()
    await world.until(lambda: world.server.connections == 0)
    assert left(world) == 0
    assert [event for event, _ in world.reports] == ["connection_failed"]
    monkeypatch.undo()
    again = await world.connect()
    again.send(heartbeat(3))
    assert (await again.receive())[3] == 3
