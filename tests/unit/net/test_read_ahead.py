"""Reading never runs ahead of the requests that are served, on either event loop."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from coordinator_server.clock import SystemClock
from coordinator_server.config.listeners import Listener
from coordinator_server.loop.batching import SoonInLoop
from coordinator_server.net.auth import Anonymous
from coordinator_server.net.context import SessionContext
from coordinator_server.net.listener import SocketServer
from coordinator_server.net.request_buffer import READ_AHEAD
from tests.support.fake_coordinator import FakeCoordinator, group_services
from tests.support.listening_server import alive
from tests.support.session_harness import SessionHarness, heartbeat, join
from tests.unit.net.test_session import JOINED

FRAMES = 40_000
LARGEST_CHUNK = 1 << 18
"""Bytes that either loop reads from a socket at a time."""

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


async def _most_behind() -> tuple[int, int]:
    """Pipeline requests and read all answers; the most bytes behind, and how many were read on.

    The second figure counts the turns of the loop that began with more than `READ_AHEAD` bytes
    behind and a connection that was reading nevertheless.
    """
    services = group_services(
        FakeCoordinator(alive),
        listeners=(Listener("PLAINTEXT", "127.0.0.1", 0),),
        max_connections=100,
        max_connections_per_ip=100,
        connections_max_idle_ms=600_000,
    )
    server = SocketServer(SessionContext(services), Anonymous(), SystemClock(), SoonInLoop())
    await server.serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["PLAINTEXT"])
    # No two alike in a row, so that none is recognised as a repeated one.
    frames = [heartbeat(number, number % 2) for number in range(FRAMES)]
    writer.write(b"".join(frames))
    most = read_on = 0
    answers = asyncio.create_task(reader.readexactly(FRAMES * 14 - FRAMES // 2 * 4))
    async with asyncio.timeout(60):
        while not answers.done():
            await asyncio.sleep(0)
            for connection in server._hub.connections:
                session = connection._session
                assert session is not None
                most = max(most, session._behind)
                read_on += session._behind > READ_AHEAD and connection._is_reading
    writer.close()
    await server.close(1)
    return most, read_on


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_client_that_pipelines_and_reads_is_read_no_further_ahead(
    new_loop: Callable[[], Any],
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        most, read_on = runner.run(_most_behind())
    assert READ_AHEAD < most <= READ_AHEAD + LARGEST_CHUNK
    assert read_on == 0


def test_bytes_behind_a_late_answer_are_forgotten_with_it() -> None:
    talk = SessionHarness()
    frames = b"".join(heartbeat(number) for number in range(10))
    for number in range(READ_AHEAD // len(frames) * 2):
        talk.send(join(number))
        assert talk.wants_more(), "nothing is behind the request in progress"
        talk.coordinator.resolve(number, JOINED)
    assert talk.session._behind == 0


def test_bytes_of_an_incomplete_frame_are_behind_until_it_is_begun() -> None:
    talk = SessionHarness(FakeCoordinator(alive))
    first, second = heartbeat(1), heartbeat(2)
    talk.send(first + second[:20])
    assert talk.session._behind == 20
    talk.send(second[20:-1])
    assert talk.session._behind == len(second) - 1
    talk.send(second[-1:])
    assert talk.session._behind == 0
