"""The HTTP side: metrics, health, readiness, and the JSON API of the groups.

aiohttp takes 200 ms to import: import this module before the event loop runs, and only if HTTP is
configured.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from coordinator_server.observe.forms import (
    Form,
    rebalance_form,
    started_form,
    status_form,
    summary_form,
)
from coordinator_server.observe.status import StatusSource
from coordinator_server.observe.timeline import Timeline

SHUTDOWN_SECONDS = 1.0


class HttpServer:
    """Serves what observers ask for; all handlers only read, on the event loop."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        status: StatusSource,
        timeline: Timeline,
        registry: CollectorRegistry,
    ) -> None:
        self._host = host
        self._port = port
        self._status = status
        self._timeline = timeline
        self._registry = registry
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises OSError."""
        runner = web.AppRunner(
            self.application(), access_log=None, shutdown_timeout=SHUTDOWN_SECONDS
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner

    @property
    def port(self) -> int:
        """The port it listens on, which the system chose if it was configured as 0."""
        if self._runner is None:
            return self._port
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close every connection, those in use after a second."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def application(self) -> web.Application:
        """The routes."""
        application = web.Application(middlewares=[_errors_as_json])
        application.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/api/groups", self._groups),
                web.get("/api/groups/{group_id:[^/]*}/why", self._why),
            ]
        )
        return application

    async def _metrics(self, _request: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _healthz(self, _request: web.Request) -> web.Response:
        """Alive: the event loop answers. It says nothing of loading, which may take its time."""
        return web.json_response({"status": "ok"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        """Ready: every partition is loaded."""
        partitions = dict(self._status.partitions())
        waiting = sum(count for state, count in partitions.items() if state != "active")
        ready = waiting == 0 and partitions.get("active", 0) > 0
        form: Form = {"status": "ready" if ready else "loading", "partitions": partitions}
        if loads := self._status.loading():
            form["loading"] = [
                {"partition": partition, "bytes": done, "of": total}
                for partition, (done, total) in sorted(loads.items())
            ]
        return web.json_response(form, status=200 if ready else 503)

    async def _groups(self, _request: web.Request) -> web.Response:
        groups = sorted(self._status.groups(), key=lambda summary: summary.group_id)
        return web.json_response({"groups": [self._listed(summary_form(g)) for g in groups]})

    def _listed(self, form: Form) -> Form:
        latest = self._timeline.latest(form["group"])
        form["last_rebalance"] = rebalance_form(latest, limit=0) if latest else None
        return form

    async def _why(self, request: web.Request) -> web.Response:
        group_id = request.match_info["group_id"]
        status = self._status.group(group_id)
        events = self._timeline.of(group_id)
        current = self._timeline.current(group_id)
        if status is None and current is None and not events:
            return _error(404, f"no group {group_id!r} here")
        form: Form = status_form(status) if status else {"group": group_id, "state": None}
        form["current"] = started_form(current) if current else None
        form["rebalances"] = [rebalance_form(event) for event in events]
        return web.json_response(form)


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> Any:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _error(error.status, f"{request.method} {request.path}: {error.reason}")
