"""Connections over real sockets on the loopback interface: what only the event loop can show."""

import asyncio
import resource
import socket
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_server.api import registry
from coordinator_server.group.effects import Joined
from coordinator_server.net.connection import Connection
from coordinator_server.net.fair_scheduler import FairScheduler
from coordinator_server.net.limits import SPARE_FILES
from coordinator_server.net.request_buffer import READ_AHEAD
from coordinator_server.net.session import Session
from coordinator_server.ports import ANONYMOUS, Principal
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.listening_server import Start
from tests.support.session_harness import FIND_COORDINATOR, HEARTBEAT, heartbeat, join, request

JOINED = Joined("m", 1, "consumer", "range", "m", [])


async def test_pipelined_requests_are_answered_in_order(start: Start) -> None:
    world = await start()
    client = await world.connect()
    client.send(*(heartbeat(number) for number in range(1000)))
    ids = [(await client.receive())[:4] for _ in range(1000)]
    assert ids == [struct.pack(">i", number) for number in range(1000)]
    assert world.counters.connections == 1


async def test_a_late_answer_leaves_and_what_waited_behind_it_is_served(start: Start) -> None:
    world = await start()
    client = await world.connect()
    client.send(join(1), heartbeat(2))
    await world.until(lambda: len(world.coordinator.submitted) == 1)
    world.coordinator.resolve(0, JOINED)
    assert (await client.receive())[3] == 1
    assert (await client.receive())[3] == 2


async def test_a_client_that_leaves_while_parked_is_noticed_and_not_answered(start: Start) -> None:
    world = await start()
    client = await world.connect()
    client.send(join())
    await world.until(lambda: len(world.coordinator.submitted) == 1)
    client.close()
    await world.until(lambda: world.server.connections == 0)
    world.coordinator.resolve(0, JOINED)
    assert world.counters.connections_closed == {"client_closed": 1}
    assert world.counters.connections == 0


async def test_a_connection_that_rests_is_read_when_the_rest_is_over(start: Start) -> None:
    world = await start()
    client = await world.connect()
    client.send(heartbeat(1))
    await client.receive()
    (connection,) = world.server._hub.connections
    connection.rest()
    before = world.counters.bytes_in
    client.send(heartbeat(2))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert world.counters.bytes_in == before
    connection.wake_up()
    assert (await client.receive())[3] == 2


async def test_a_client_that_leaves_while_its_connection_rests_is_noticed(start: Start) -> None:
    world = await start()
    client = await world.connect()
    client.send(heartbeat(1))
    await client.receive()
    (connection,) = world.server._hub.connections
    connection.rest()
    client.close()
    connection.wake_up()
    await world.until(lambda: world.server.connections == 0)
    assert world.counters.connections_closed == {"client_closed": 1}


async def test_garbage_closes_its_connection_and_disturbs_nobody_else(start: Start) -> None:
    world = await start()
    healthy, hostile = await world.connect(), await world.connect()
    hostile.send(heartbeat(1), b"GET / HTTP/1.1\r\n\r\n")
    assert (await hostile.receive())[3] == 1
    assert await hostile.is_closed()
    healthy.send(heartbeat(2))
    assert (await healthy.receive())[3] == 2
    assert [event for event, _ in world.reports] == ["session_ended"]
    assert world.counters.connections_closed == {"too_large": 1}


async def test_a_client_that_does_not_read_is_not_served_any_further(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = registry.find_route(FIND_COORDINATOR, 2)
    assert way is not None
    served = []

    def handle(call: Any, *_: Any) -> None:
        served.append(call)
        call.answer_body(bytes(1_000_000))

    monkeypatch.setattr(way, "handle", handle)
    world = await start()
    client = await world.connect()
    total = 80
    client.send(*(request(FIND_COORDINATOR, 2, n, key="g") for n in range(total)))
    before = -1
    while before != len(served):
        before = len(served)
        for _ in range(50):
            await asyncio.sleep(0.001)
    assert 0 < len(served) < total, "kernel and stream buffers hold some of it"
    for number in range(total):
        assert (await client.receive())[:4] == struct.pack(">i", number)


async def test_idle_connections_are_closed_and_busy_ones_are_not(start: Start) -> None:
    world = await start(connections_max_idle_ms=1000)
    idle, busy = await world.connect(), await world.connect()
    for client in (idle, busy):
        client.send(heartbeat(1))
        await client.receive()
    world.clock.now += 900
    busy.send(heartbeat(2))
    await busy.receive()
    world.clock.now += 200
    assert await idle.is_closed()
    assert world.server.connections == 1
    assert world.counters.connections_closed == {"idle": 1}
    busy.send(heartbeat(3))
    assert (await busy.receive())[3] == 3


@pytest.mark.interpreted
async def test_idle_connections_are_closed_though_one_of_them_cannot_be_looked_at(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await start(connections_max_idle_ms=1_000)
    clients = [await world.connect() for _ in range(5)]
    for client in clients:
        client.send(heartbeat(1))
        await client.receive()
    broken = next(iter(world.server._hub.connections))
    look = Connection.close_if_idle

    def fail_for_one(self: Connection, now_ms: int, limit_ms: int) -> None:
        if self is broken:
            raise RuntimeError("planted")
        look(self, now_ms, limit_ms)

    monkeypatch.setattr(Connection, "close_if_idle", fail_for_one)
    world.clock.now += 1_001
    world.server._close_idle()
    for client in clients:
        assert await client.is_closed()
    assert world.counters.connections_closed == {"failed": 1, "idle": 4}


@pytest.mark.interpreted
async def test_idle_connections_are_looked_for_again_after_a_look_has_failed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await start(connections_max_idle_ms=1_000)
    client = await world.connect()
    client.send(heartbeat(1))
    await client.receive()
    before = world.server._sweep

    def fail() -> int:
        raise MemoryError("planted")

    with monkeypatch.context() as patched:
        patched.setattr(world.clock, "monotonic_ms", fail)
        with pytest.raises(MemoryError):
            world.server._close_idle()
    assert world.server._sweep is not before
    world.clock.now += 1_001
    assert await client.is_closed(), "the timer rings after 50 ms"


@pytest.mark.interpreted
async def test_a_late_answer_that_cannot_be_sent_ends_its_connection(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await start()
    parked, healthy = await world.connect(), await world.connect()
    parked.send(join())
    await world.until(lambda: len(world.coordinator.submitted) == 1)
    ((_, event),) = world.coordinator.submitted

    def fail(_turns: FairScheduler, _connection: Connection) -> None:
        raise RuntimeError("planted")

    with monkeypatch.context() as patched:
        patched.setattr(FairScheduler, "add", fail)
        event.token.resolve(JOINED)
    assert await parked.is_closed()
    assert world.counters.connections_closed == {"failed": 1}
    healthy.send(heartbeat(2))
    assert (await healthy.receive())[3] == 2


async def test_connections_above_the_limits_are_refused(start: Start) -> None:
    world = await start(max_connections=2, max_connections_per_ip=1)
    first = await world.connect()
    first.send(heartbeat(1))
    await first.receive()
    assert await (await world.connect()).is_closed()
    assert world.reports[0][1]["limit"] == "max.connections.per.ip"
    first.close()
    await world.until(lambda: world.server.connections == 0)
    again = await world.connect()
    again.send(heartbeat(2))
    assert (await again.receive())[3] == 2


async def test_connections_that_would_take_the_last_files_are_refused_with_one_line_a_second(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as lowest:
        files = (lowest.fileno() + SPARE_FILES + 40, 10**6)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: files)
    world = await start(max_connections=10_000, max_connections_per_ip=10_000)
    clients = [await world.connect() for _ in range(60)]
    clients[0].send(heartbeat(1))
    assert (await clients[0].receive())[3] == 1
    assert await clients[-1].is_closed()
    refused = world.counters.connections_closed["refused"]
    assert refused >= 15
    assert refused + world.server.connections == 60
    ((event, fields),) = world.reports
    assert (event, fields["limit"]) == ("connection_refused", "open files")
    world.clock.now += 1_000
    assert await (await world.connect()).is_closed()
    assert world.reports[1][1]["suppressed"] == refused - 1


async def test_a_peer_that_is_reset_leaves_nothing_behind(start: Start) -> None:
    world = await start()
    client = await world.connect()
    client.send(heartbeat(1))
    await client.receive()
    raw = client.writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()
    await world.until(lambda: world.server.connections == 0)
    assert world.counters.connections == 0


def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn of the loop has lasted long enough when a request comes."""
    monkeypatch.setattr(FairScheduler, "has_time", lambda *_: False)


async def test_requests_that_are_put_off_are_served_in_their_order(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_time(monkeypatch)
    world = await start()
    client = await world.connect()
    frames = [heartbeat(number, number % 2) for number in range(200)]
    client.send(*frames[:3])
    client.send(*frames[3:])
    ids = [(await client.receive())[:4] for _ in frames]
    assert ids == [struct.pack(">i", number) for number in range(200)]


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.data = b""

    def get_extra_info(self, name: str) -> Any:
        return SimpleNamespace(fileno=lambda: 7) if name == "socket" else ("127.0.0.1", 1)

    def write(self, data: bytes) -> None:
        self.data += data

    def is_closing(self) -> bool:
        return False

    def answered(self) -> list[int]:
        """The correlation ids of what was written since the last look."""
        ids, at = [], 0
        while at < len(self.data):
            size, correlation_id = struct.unpack_from(">ii", self.data, at)
            ids.append(correlation_id)
            at += 4 + size
        self.data = b""
        return ids


@pytest.mark.parametrize("cut", [None, 9])
async def test_a_repeated_request_does_not_overtake_one_that_was_put_off(
    start: Start, monkeypatch: pytest.MonkeyPatch, cut: int | None
) -> None:
    world = await start()
    monkeypatch.setattr(FakeCoordinator, "renew", lambda *_: True)
    wire, connection = Wire(), Connection(world.server._hub, "PLAINTEXT")
    connection.connection_made(cast("asyncio.Transport", wire))
    for number in range(3):
        connection.data_received(heartbeat(number))
    assert wire.answered() == [0, 1, 2]
    no_time(monkeypatch)
    other = request(HEARTBEAT, 4, 10, "another", group_id="g", generation_id=1, member_id="m")
    connection.data_received(other[:cut])
    if cut is not None:
        connection.data_received(other[cut:])
    connection.data_received(heartbeat(11))
    connection.flush()
    assert wire.answered() == [10, 11]
    connection.connection_lost(None)


async def test_what_is_put_off_has_a_bound(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    no_time(monkeypatch)
    monkeypatch.setattr(FairScheduler, "add", lambda _self, _connection: None)
    world = await start()
    client = await world.connect()
    for _ in range(64):
        client.send(heartbeat(1) * 1_000)
    (connection,) = world.server._hub.connections
    await world.until(lambda: not connection._is_reading)
    assert READ_AHEAD < len(connection._put_off) < 10 * READ_AHEAD


async def test_an_answer_in_parts_arrives_whole(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = registry.find_route(FIND_COORDINATOR, 2)
    assert way is not None
    parts = [bytes([number]) * 100_000 for number in range(40)]
    monkeypatch.setattr(way, "handle", lambda call, *_: call.answer_parts(parts))
    world = await start()
    client = await world.connect()
    client.send(request(FIND_COORDINATOR, 2, 1, key="g"), request(FIND_COORDINATOR, 2, 2, key="g"))
    for number in (1, 2):
        assert await client.receive() == struct.pack(">i", number) + b"".join(parts)


@pytest.mark.interpreted
async def test_a_connection_that_cannot_begin_is_closed_and_leaves_its_place(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await start(max_connections=1)

    class Failing:
        def principal(self, *_: object) -> None:
            raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(world.server._hub, "authenticator", Failing())
        client = await world.connect()
        assert await client.is_closed()
    assert world.counters.connections == 0
    client = await world.connect()
    client.send(heartbeat(1))
    assert (await client.receive())[3] == 1


class Refusing:
    """An authenticator that raises for the first connection."""

    def __init__(self) -> None:
        self.asked = 0

    def principal(self, _listener: str, _host: str) -> Principal | None:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("planted")
        return ANONYMOUS


async def test_a_connection_that_cannot_begin_is_closed_and_its_place_is_free(start: Start) -> None:
    world = await start(max_connections=1)
    authenticator = world.server._hub.authenticator = Refusing()
    assert await (await world.connect()).is_closed()
    assert [event for event, _ in world.reports] == ["connection_failed"]
    client = await world.connect()
    client.send(heartbeat(1))
    assert (await client.receive())[3] == 1
    assert world.server.connections == 1
    assert authenticator.asked == 2, "not once for each connection"


@pytest.mark.interpreted
async def test_what_raises_for_one_client_ends_its_connection_alone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await start(max_connections=2)
    healthy, hostile = await world.connect(), await world.connect()
    for client in (healthy, hostile):
        client.send(heartbeat(1))
        await client.receive()
    original = Session.receive

    def receive(self: Session, data: bytes, now_ms: int) -> None:
        if b"planted" in data:
            raise MemoryError("planted")
        original(self, data, now_ms)

    monkeypatch.setattr(Session, "receive", receive)
    hostile.send(b"planted")
    assert await hostile.is_closed()
    await world.until(lambda: world.server.connections == 1)
    healthy.send(heartbeat(2))
    assert (await healthy.receive())[3] == 2
    assert world.counters.connections_closed == {"failed": 1}
    ((event, fields),) = world.reports
    assert (event, fields["error"]) == ("connection_failed", "MemoryError('planted')")
    await world.connect()
