"""Sends payloads over many connections and counts how the server handles them."""

import asyncio
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import cast

from tests.support.mutated_requests import SENTINEL, framed, numbered, sentinel
from tests.support.wire import address

CHUNK = 16
PATIENCE = 2.0
"""Seconds; a request without an answer by then counts as parked, as a JoinGroup may be."""


@dataclass
class Outcomes:
    """Counts of payloads by outcome."""

    answered: int = 0
    closed: int = 0
    """Payloads after which the server closed the connection."""
    left_waiting: int = 0
    connections: int = 0

    def add(self, others: "Outcomes") -> None:
        """Add the counts of other outcomes."""
        self.answered += others.answered
        self.closed += others.closed
        self.left_waiting += others.left_waiting
        self.connections += others.connections


class PayloadConnection(asyncio.Protocol):
    """Sends one chunk after another until the server closes the connection or stops answering."""

    def __init__(self) -> None:
        self.closed = False
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._last = -1
        self._done: asyncio.Future[None] | None = None

    async def send(self, chunk: list[bytes]) -> int:
        """Send payloads; returns how many were answered. `closed`: the server hung up."""
        assert self._transport is not None
        self._last = -1
        self._done = asyncio.get_running_loop().create_future()
        frames = [framed(numbered(payload, at)) for at, payload in enumerate(chunk)]
        self._transport.write(b"".join(frames) + sentinel())
        try:
            async with asyncio.timeout(PATIENCE):
                await self._done
        except TimeoutError:
            return self._last + 1
        return self._last + 1 if self.closed else len(chunk)

    def abort(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= 8:
            size, correlation_id = struct.unpack_from(">ii", self._buffer, at)
            if len(self._buffer) - at < 4 + size:
                break
            at += 4 + size
            if correlation_id == SENTINEL:
                self._finish()
            else:
                self._last = max(self._last, correlation_id)
        del self._buffer[:at]

    def connection_lost(self, _: Exception | None) -> None:
        self.closed = True
        self._finish()

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)


async def _worker(bootstrap: str, payloads: Iterator[bytes], outcomes: Outcomes) -> None:
    loop = asyncio.get_running_loop()
    host, port = address(bootstrap)
    sender: PayloadConnection | None = None
    chunk: list[bytes] = []
    try:
        while True:
            chunk += islice(payloads, CHUNK - len(chunk))
            if not chunk:
                return
            if sender is None:
                _, sender = await loop.create_connection(PayloadConnection, host, port)
                outcomes.connections += 1
            answered = await sender.send(chunk)
            outcomes.answered += answered
            del chunk[:answered]
            if chunk:
                del chunk[0]
                outcomes.closed += sender.closed
                outcomes.left_waiting += not sender.closed
            if chunk or sender.closed:
                sender.abort()
                sender = None
    finally:
        if sender is not None:
            sender.abort()


async def send_payloads(bootstrap: str, payloads: Iterator[bytes], *, connections: int) -> Outcomes:
    """Send all payloads over this number of concurrent connections."""
    outcomes = Outcomes()
    async with asyncio.TaskGroup() as workers:
        for _ in range(connections):
            workers.create_task(_worker(bootstrap, payloads, outcomes))
    return outcomes
