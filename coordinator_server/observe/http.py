"""The HTTP side: the page, the JSON API of the groups, metrics, health and readiness.

aiohttp takes 200 ms to import: import this module beside the event loop, in a thread, and only if
HTTP is configured.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import web

from coordinator_server.observe.exposition import CONTENT_TYPE, Exposition
from coordinator_server.observe.forms import client_memory_form
from coordinator_server.observe.http_admin import AdminRoutes
from coordinator_server.observe.http_answers import application
from coordinator_server.observe.http_events import EventRoutes
from coordinator_server.observe.http_groups import GroupRoutes
from coordinator_server.observe.http_hosts import AllowedHosts
from coordinator_server.observe.http_listener import MAX_CONNECTIONS, HttpListener
from coordinator_server.observe.http_page import page_routes
from coordinator_server.observe.sources import Sources
from coordinator_server.observe.sse import EventStream

if TYPE_CHECKING:
    from coordinator_server.observe.forms import Form


class HttpServer:
    """Serves what observers and operators ask for, on the event loop."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        sources: Sources,
        exposition: Exposition,
        events: EventStream | None = None,
        token: str | None = None,
        given: socket.socket | None = None,
        max_connections: int = MAX_CONNECTIONS,
        hosts: AllowedHosts | None = None,
        report: Callable[..., None] | None = None,
    ) -> None:
        """Make a server.

        Args:
            host: the address to listen on.
            port: the port; 0 lets the system choose.
            sources: what is known about the groups.
            exposition: what writes the metrics.
            events: an observer's stream, for `/api/events`.
            token: what admin verbs have to present; without one they are off.
            given: a socket to listen on in place of the address.
            max_connections: how many there may be at a time.
            hosts: the names under which it may be asked; any name without them.
            report: told of those that are closed because there are more.
        """
        self._sources = sources
        self._exposition = exposition
        self._events = EventStream() if events is None else events
        self._token = token
        self._hosts = hosts
        self._max_connections = max_connections
        self._listener = HttpListener(
            self.application(),
            host,
            port,
            given=given,
            max_connections=max_connections,
            report=report,
        )

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await self._listener.start()

    @property
    def port(self) -> int:
        """The port it listens on, which the system chose if it was configured as 0."""
        return self._listener.port

    async def stop(self) -> None:
        """Close every connection, those in use after a second."""
        self._events.close()
        await self._listener.stop()

    def application(self) -> web.Application:
        """The routes."""
        return application(
            [
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/api/status", self._status),
                *page_routes(),
                *EventRoutes(self._events, max_connections=self._max_connections).routes(),
                *GroupRoutes(self._sources).routes(),
                *AdminRoutes(self._sources.admin, self._token).routes(),
            ],
            self._hosts,
        )

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
        parts = await self._exposition.scrape()
        await response.prepare(request)
        for part in parts:
            await response.write(part)
            # A client that reads fast is never waited for.
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    async def _status(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {"client_memory": client_memory_form(self._sources.client_memory())}
        )

    async def _healthz(self, _request: web.Request) -> web.Response:
        """Alive: the event loop answers. It says nothing of loading, which may take its time."""
        return web.json_response({"status": "ok"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        """Ready: every partition is loaded."""
        partitions = dict(self._sources.status.partitions())
        waiting = sum(count for state, count in partitions.items() if state != "active")
        ready = waiting == 0 and partitions.get("active", 0) > 0
        form: Form = {"status": "ready" if ready else "loading", "partitions": partitions}
        if loads := self._sources.status.loading():
            form["loading"] = [
                {"partition": partition, "bytes": done, "of": total}
                for partition, (done, total) in sorted(loads.items())
            ]
        if unserved := self._sources.status.unserved():
            form["unserved"] = [each._asdict() for each in unserved]
        return web.json_response(form, status=200 if ready else 503)
