"""Listeners over real sockets: by which name and address they are reached, and how they end."""

import asyncio
import socket
from typing import Any

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.config.listeners import Listener
from coordinator_server.group.effects import Refuse, Rule
from coordinator_server.loop.batching import SoonInLoop
from coordinator_server.net.auth import Anonymous
from coordinator_server.net.listener import SocketServer
from coordinator_server.ports import Caller
from tests.support.listening_server import Start
from tests.support.session_harness import heartbeat, join


async def test_every_listener_is_known_by_its_name(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await start(
        listeners=(Listener("INSIDE", "127.0.0.1", 0), Listener("OUTSIDE", "localhost", 0))
    )
    assert set(world.server.ports) == {"INSIDE", "OUTSIDE"}
    seen = []

    def allowed(caller: Caller, *_: Any) -> bool:
        seen.append(caller.listener)
        return True

    monkeypatch.setattr(world.services.authorizer, "allowed", allowed)
    for name in ("INSIDE", "OUTSIDE"):
        client = await world.connect(name)
        client.send(heartbeat(1))
        await client.receive()
    assert list(dict.fromkeys(seen)) == ["INSIDE", "OUTSIDE"]


async def test_a_listener_on_all_interfaces_is_reached_over_ipv4(start: Start) -> None:
    world = await start(listeners=(Listener("PLAINTEXT", "", 0),))
    client = await world.connect()
    client.send(join())
    await world.until(lambda: len(world.coordinator.submitted) == 1)
    assert world.coordinator.event.client_host == "/127.0.0.1"


async def test_an_address_that_is_taken_is_an_error_that_names_the_listener(start: Start) -> None:
    world = await start()
    taken = world.server.ports["PLAINTEXT"]
    with pytest.raises(OSError, match=f"PLAINTEXT://127.0.0.1:{taken} cannot be opened"):
        await start(listeners=(Listener("PLAINTEXT", "127.0.0.1", taken),))


async def test_a_stop_waits_for_answers_in_progress(start: Start) -> None:
    world = await start()
    parked, idle = await world.connect(), await world.connect()
    parked.send(join(), heartbeat(2))
    idle.send(heartbeat(1))
    await idle.receive()
    await world.until(lambda: len(world.coordinator.submitted) == 2)
    world.server.begin_drain()
    assert await idle.is_closed()
    index = [type(event).__name__ for _, event in world.coordinator.submitted].index("Join")
    closing = asyncio.ensure_future(world.server.close())
    world.coordinator.resolve(index, Refuse(ErrorCode.NOT_COORDINATOR, Rule.SHUTTING_DOWN))
    assert (await parked.receive())[3] == 1
    assert await parked.is_closed(), "the heartbeat behind it is not served any more"
    await closing
    with pytest.raises(ConnectionRefusedError):
        await world.connect()


async def test_a_server_that_was_bound_and_never_served_gives_its_port_back(start: Start) -> None:
    world = await start()
    other = SocketServer(world.context, Anonymous(), world.clock, SoonInLoop())
    port = other.bind()["PLAINTEXT"]
    await other.close()
    with socket.create_server(("127.0.0.1", port)):
        assert other.connections == 0


async def test_a_stop_does_not_wait_for_ever(start: Start) -> None:
    world = await start()
    parked = await world.connect()
    parked.send(join())
    await world.until(lambda: len(world.coordinator.submitted) == 1)
    await world.server.close(0.01)
    assert await parked.is_closed()
    assert world.counters.connections_closed == {"server_stopping": 1}
