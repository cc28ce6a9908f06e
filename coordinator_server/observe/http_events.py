"""`/api/events`: the stream of events over HTTP."""

import asyncio
import contextlib
from typing import Any, Final

from aiohttp import web

from coordinator_server.observe.http_answers import error
from coordinator_server.observe.http_listener import MAX_CONNECTIONS, become_stream
from coordinator_server.observe.sse import MAX_CLIENTS, EventStream, Subscriber

KEEP_ALIVE_SECONDS = 15.0
RETRY_MS = 2_000
"""How soon a browser asks again when the stream has ended."""

WRITE_SECONDS: Final = 30.0
"""How long a client may take to read what the system's buffers do not hold."""

_OVERRUN = b"event: overrun\ndata: {}\n\n"


def most_streams(max_connections: int) -> int:
    """How many streams there may be: half of the connections are for other requests."""
    return min(MAX_CLIENTS, max(max_connections // 2, 1))


class EventRoutes:
    """The route of the events."""

    def __init__(
        self,
        events: EventStream,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        *,
        max_connections: int = MAX_CONNECTIONS,
        patience: float = WRITE_SECONDS,
    ) -> None:
        """`patience` is how many seconds a write to a client may take."""
        self._events = events
        self._keep_alive = keep_alive
        self._patience = patience
        self._most = most_streams(max_connections)
        self._streams = 0
        """Those that are written to: a subscriber that was dropped may still be."""

    def routes(self) -> list[web.RouteDef]:
        """The routes."""
        return [web.get("/api/events", self._serve, allow_head=False)]

    async def _serve(self, request: web.Request) -> Any:
        joined = self._streams < self._most
        subscriber = self._events.join(request.query.get("group")) if joined else None
        if subscriber is None:
            return too_many_streams(self._most)
        self._streams += 1
        become_stream()
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        try:
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):
                await self._write(response, subscriber)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._streams -= 1
            self._events.leave(subscriber)
        return response

    async def _write(self, response: web.StreamResponse, subscriber: Subscriber) -> None:
        await self._send(response, f"retry: {RETRY_MS}\n\n".encode())
        while (event := await subscriber.next(self._keep_alive)) is not None:
            await self._send(response, event)
        if subscriber.overrun:
            await self._send(response, _OVERRUN)

    async def _send(self, response: web.StreamResponse, data: bytes) -> None:
        """Write; raises TimeoutError if the client does not read."""
        async with asyncio.timeout(self._patience):
            await response.write(data)


def too_many_streams(most: int) -> web.Response:
    """503, and the connection is free for others."""
    refused = error(503, f"{most} clients listen to events already")
    refused.force_close()
    return refused
