"""`/api/events`: the stream of events over HTTP."""

import contextlib
from typing import Any

from aiohttp import web

from coordinator_server.observe.sse import MAX_CLIENTS, EventStream, Subscriber

KEEP_ALIVE_SECONDS = 15.0
RETRY_MS = 2_000
"""How soon a browser asks again when the stream has ended."""

_OVERRUN = b"event: overrun\ndata: {}\n\n"


class EventRoutes:
    """The route of the events."""

    def __init__(self, events: EventStream, keep_alive: float = KEEP_ALIVE_SECONDS) -> None:
        self._events = events
        self._keep_alive = keep_alive

    def routes(self) -> list[web.RouteDef]:
        """What is served."""
        return [web.get("/api/events", self._serve, allow_head=False)]

    async def _serve(self, request: web.Request) -> Any:
        subscriber = self._events.join(request.query.get("group"))
        if subscriber is None:
            message = f"{MAX_CLIENTS} clients listen already"
            return web.json_response({"error": message}, status=503)
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        try:
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):
                await self._write(response, subscriber)
        finally:
            self._events.leave(subscriber)
        return response

    async def _write(self, response: web.StreamResponse, subscriber: Subscriber) -> None:
        await response.write(f"retry: {RETRY_MS}\n\n".encode())
        while (event := await subscriber.next(self._keep_alive)) is not None:
            await response.write(event)
        if subscriber.overrun:
            await response.write(_OVERRUN)
