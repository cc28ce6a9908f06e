"""The memory budget at real connections: reading pauses and resumes, and hogs are closed."""

import asyncio
import gc
import socket
import struct
import tracemalloc
from functools import partial
from typing import Any, cast

import pytest

from coordinator_protocol.frames import framed
from coordinator_protocol.headers import request_header
from coordinator_server.api import registry
from coordinator_server.net.memory import (
    FULL_GRACE_MS,
    RESERVED_FROM,
    UNCOUNTED,
    ConnectionMemory,
    MemoryBudget,
)
from tests.support.listening_server import Client, ListeningServer, Start
from tests.support.session_harness import FIND_COORDINATOR, heartbeat, request

MIB = 1 << 20
LIMIT = 16 * MIB
METADATA, LIST_GROUPS = 3, 16


async def started(start: Start, limit: int = LIMIT, **config: Any) -> ListeningServer:
    return await start(memory=MemoryBudget(limit), **config)


def large(size: int, correlation_id: int = 7) -> bytes:
    """A FindCoordinator of one key with so many bytes of tagged fields behind it."""
    frame = request(FIND_COORDINATOR, 4, correlation_id, coordinator_keys=["g"])
    count = f"{size:028b}"
    varint = bytes(int(count[at : at + 7], 2) | 128 for at in (21, 14, 7)) + bytes(
        [int(count[:7], 2)]
    )
    return framed(frame[4:-1] + b"\x01\x1e" + varint + bytes(size))


async def served(client: Client, correlation_id: int) -> None:
    client.send(heartbeat(correlation_id))
    assert (await client.receive())[3] == correlation_id


async def test_a_large_request_is_served_and_its_memory_returned(start: Start) -> None:
    world = await started(start)
    client = await world.connect()
    client.send(large(2 * MIB))
    assert (await client.receive())[3] == 7
    memory = world.context.memory
    assert memory.peak >= 4 * MIB
    assert (memory.used, memory.holders) == (0, set())


async def test_half_sent_large_requests_wait_and_heartbeats_do_not(start: Start) -> None:
    world = await started(start)
    memory = world.context.memory
    frame = large(3 * MIB)
    hogs = [await world.connect() for _ in range(8)]
    healthy = await world.connect()
    for hog in hogs:
        hog.send(frame[: 2 * MIB])
    await world.until(lambda: memory.waiting == 7)
    for number in range(3):
        await served(healthy, number)
    assert memory.used <= LIMIT
    held = [c._session._behind for c in world.server._hub.connections if c._session]
    assert sum(size > RESERVED_FROM + (1 << 18) for size in held) == 1
    for hog in hogs:
        hog.send(frame[2 * MIB :])
    for hog in hogs:
        assert (await hog.receive())[3] == 7
    assert (memory.used, memory.waiting) == (0, 0)


async def test_a_request_larger_than_the_whole_budget_is_refused_and_the_log_says_why(
    start: Start,
) -> None:
    world = await started(start)
    client = await world.connect()
    client.send(large(LIMIT)[:100])
    assert await client.is_closed()
    ((event, fields),) = world.reports
    assert (event, fields["reason"]) == ("session_ended", "too_large")
    assert f"larger than {LIMIT} bytes" in fields["detail"]
    assert "queued.max.request.bytes" in fields["detail"]


async def test_who_stops_sending_a_large_request_is_closed_when_others_wait_for_it(
    start: Start,
) -> None:
    world = await started(start)
    hog, other = await world.connect(), await world.connect()
    hog.send(large(12 * MIB)[:MIB])
    await world.until(lambda: world.context.memory.used > 2 * MIB)
    other.send(large(MIB))
    await world.until(lambda: world.context.memory.waiting == 1)
    world.clock.now += 60_000
    world.server._check_memory()
    assert await hog.is_closed()
    assert (await other.receive())[3] == 7
    assert world.counters.connections_closed == {"slow_request": 1}


def answers_much(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Have Metadata answered with so many bytes."""
    way = registry.find_route(METADATA, 9)
    assert way is not None
    monkeypatch.setattr(way, "handle", lambda call, *_: call.answer_parts([bytes(size)]))


async def test_unread_responses_count_and_requests_with_large_ones_wait(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers_much(monkeypatch, 2 * LIMIT)
    world = await started(start)
    memory = world.context.memory
    hog, asking, healthy = [await world.connect() for _ in range(3)]
    metadata = request(METADATA, 9, 5)
    hog.send(metadata)
    await world.until(lambda: memory.is_full)
    asking.send(heartbeat(1), metadata, heartbeat(2))
    assert (await asking.receive())[3] == 1
    await world.until(lambda: memory.waiting == 1)
    await served(healthy, 3)
    assert len(await hog.receive()) > 2 * LIMIT
    assert len(await asking.receive()) > 2 * LIMIT
    assert (await asking.receive())[3] == 2
    await world.until(lambda: memory.used == 0)


async def test_a_request_that_was_held_back_is_served_though_its_client_reads_meanwhile(
    start: Start,
) -> None:
    world = await started(start)
    memory = world.context.memory
    asking = await world.connect()
    await served(asking, 1)
    (connection,) = world.server._hub.connections
    hog = ConnectionMemory(memory, lambda: None, lambda _: None)
    hog.keep(LIMIT, 0)
    # So many wait before it that it is not looked at when memory is free.
    others = [ConnectionMemory(memory, lambda: None, lambda _: None) for _ in range(100)]
    for each in others:
        each.update(UNCOUNTED + 1, 0, 0, 0)
    asking.send(request(LIST_GROUPS, 0, 2))
    await world.until(lambda: memory.waiting == 101)
    hog.keep(0, 0)
    assert connection.waits_for_memory
    connection.resume_writing()
    assert (await asking.receive())[3] == 2


async def test_a_client_that_never_reads_is_closed_and_its_memory_returned(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers_much(monkeypatch, 2 * LIMIT)
    world = await started(start)
    hog = await world.connect()
    cast("asyncio.Transport", hog.writer.transport).pause_reading()
    hog.send(request(METADATA, 9, 5))
    await world.until(lambda: world.context.memory.is_full)
    world.clock.now += FULL_GRACE_MS
    world.server._check_memory()
    assert world.server.connections == 1
    world.clock.now += 2 * LIMIT
    world.server._check_memory()
    await world.until(lambda: world.server.connections == 0)
    assert world.context.memory.used == 0
    assert world.counters.connections_closed == {"not_reading": 1}


async def test_an_incomplete_request_takes_no_memory_once_its_client_has_gone(
    start: Start,
) -> None:
    world = await started(start)
    client = await world.connect()
    client.send(large(4 * MIB)[: 2 * MIB])
    await world.until(lambda: world.counters.bytes_in == 2 * MIB)
    gc.collect()
    gc.disable()  # what only the collector frees lingers in a server for minutes
    tracemalloc.start()
    try:
        client.send(bytes(MIB))
        await world.until(lambda: world.counters.bytes_in == 3 * MIB)
        client.close()
        await world.until(lambda: world.server.connections == 0)
        assert tracemalloc.get_traced_memory()[0] < MIB
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.interpreted
async def test_memory_is_returned_to_the_system_after_much_was_used(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(
        "coordinator_server.net.listener.trim", lambda: loop.call_soon_threadsafe(trimmed.set)
    )
    world = await started(start, 1 << 30)
    client = await world.connect()
    client.send(large(40 * MIB))
    await client.receive()
    world.server._check_memory()
    await asyncio.wait_for(trimmed.wait(), 10)
    assert world.context.memory.peak == 0


async def test_a_request_that_comes_byte_by_byte_is_closed_after_the_idle_time(
    start: Start,
) -> None:
    world = await start(connections_max_idle_ms=1_000)
    client = await world.connect()
    frame = framed(request_header(12, 4, 1, "tester") + bytes(10_000))
    client.send(frame[:20])
    (connection,) = world.server._hub.connections
    received = 20
    await world.until(lambda: world.counters.bytes_in == received)
    for _ in range(10):
        connection.close_if_idle(world.clock.now, 1_000)
        world.clock.now += 100
        client.send(b"x")
        received += 1
        await world.until(partial(_has_received, world, received))
    world.clock.now += 1
    connection.close_if_idle(world.clock.now, 1_000)
    assert await client.is_closed()
    assert world.counters.connections_closed == {"slow_request": 1}


def _has_received(world: ListeningServer, size: int) -> bool:
    return world.counters.bytes_in == size


async def test_a_client_that_resets_its_connection_is_noticed_while_it_is_not_read(
    start: Start,
) -> None:
    world = await started(start)
    memory = world.context.memory
    hog, gone, waiting = [await world.connect() for _ in range(3)]
    frame = large(3 * MIB)
    for client in (hog, gone, waiting):
        client.send(frame[: 2 * MIB])
    await world.until(lambda: memory.waiting == 2)
    end = gone.writer.get_extra_info("socket")
    # So the kernel resets the connection, as it does when a process ends with data not read.
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    cast("asyncio.Transport", gone.writer.transport).abort()

    def is_noticed() -> bool:
        world.server._check_memory()
        return world.server.connections == 2

    await world.until(is_noticed)
    assert memory.waiting == 1
    for client in (hog, waiting):
        client.send(frame[2 * MIB :])
        assert (await client.receive())[3] == 7


async def test_a_response_counts_while_it_is_made_and_no_more_when_it_is_dropped(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = registry.find_route(METADATA, 9)
    assert way is not None
    calls: list[Any] = []
    monkeypatch.setattr(way, "is_async", False)
    monkeypatch.setattr(way, "handle", lambda call, *_: calls.append(call))
    world = await started(start)
    memory = world.context.memory
    clients = [await world.connect() for _ in range(2)]
    for number, client in enumerate(clients):
        client.send(request(METADATA, 9, number))
        await world.until(lambda: len(calls) == number + 1)  # noqa: B023 - called at once
    first, second = calls
    gone_on: list[str] = []
    assert first.may_grow(4 * MIB, lambda: gone_on.append("first"))
    assert memory.used == 4 * MIB
    assert not second.may_grow(MIB, lambda: gone_on.append("second"))
    assert first.may_grow(0, lambda: gone_on.append("first"))
    assert (memory.used, gone_on) == (MIB, ["second"])
    assert second.may_grow(2 * MIB, lambda: None)
    assert not first.may_grow(MIB, lambda: gone_on.append("first"))
    second.answer_parts([bytes(2 * MIB)])
    assert len(await clients[1].receive()) > 2 * MIB
    await world.until(lambda: gone_on == ["second", "first"])
    clients[0].close()
    await world.until(lambda: world.server.connections == 1)
    assert not first.may_grow(8 * MIB, lambda: gone_on.append("never"))
    await world.until(lambda: memory.used == 0)
