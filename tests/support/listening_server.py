"""A server with its listeners open, and clients that send it frames over real sockets."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from coordinator_server.api.services import Services
from coordinator_server.clock import Clock
from coordinator_server.group.effects import DONE, Result
from coordinator_server.group.events import Event
from coordinator_server.net.context import SessionContext
from coordinator_server.net.listener import SocketServer
from coordinator_server.observe.counters import Counters
from tests.support.fake_coordinator import FakeCoordinator


def alive(_group_id: str, event: Event) -> Result | None:
    return None if type(event).__name__ == "Join" else DONE


class SettableClock(Clock):
    """A clock that a test sets."""

    now = 1_000

    def monotonic_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return self.now


class ListeningServer(SimpleNamespace):
    """A server with all its listeners open."""

    server: SocketServer
    services: Services
    context: SessionContext
    coordinator: FakeCoordinator
    counters: Counters
    clock: SettableClock
    reports: list[tuple[str, dict[str, Any]]]
    clients: list["Client"]

    async def connect(self, listener: str = "PLAINTEXT") -> "Client":
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.ports[listener])
        client = Client(reader, writer)
        self.clients.append(client)
        return client

    async def end(self) -> None:
        await self.server.close(0)
        for client in self.clients:
            client.close()
            with suppress(OSError):
                await client.writer.wait_closed()

    async def until(self, true: Callable[[], bool]) -> None:
        """Run the event loop until a condition holds."""
        async with asyncio.timeout(10):
            while not true():  # noqa: ASYNC110 - what is waited for tells nobody
                await asyncio.sleep(0.001)


class Client:
    """Sends and receives frames over a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def receive(self) -> bytes:
        async with asyncio.timeout(10):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        async with asyncio.timeout(10):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    def close(self) -> None:
        self.writer.close()


Start = Callable[..., Awaitable[ListeningServer]]
