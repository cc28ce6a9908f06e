"""HTTP for all workers: what concerns a group is asked of its worker, the rest is gathered."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    UnixConnector,
    web,
)
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from yarl import URL

from coordinator_protocol.java import partition_for
from coordinator_server.config.listeners import Address
from coordinator_server.observe.families import PREFIX, SUPERVISOR_FAMILIES
from coordinator_server.observe.http_answers import application, error, read_body, whole_number
from coordinator_server.observe.http_events import (
    WRITE_SECONDS,
    most_streams,
    too_many_streams,
)
from coordinator_server.observe.http_groups import MAX_LISTED
from coordinator_server.observe.http_hosts import AllowedHosts
from coordinator_server.observe.http_listener import HttpListener, become_stream
from coordinator_server.observe.http_page import page_routes
from coordinator_server.workers.metrics_merge import MergedMetrics
from coordinator_server.workers.process import WorkerProcess

PATIENCE: Final = ClientTimeout(total=30.0, sock_connect=1.0)
SHORT_PATIENCE: Final = ClientTimeout(total=3.0, sock_connect=1.0)
"""Where all workers are asked, by who does not wait for long: Prometheus gives up after 10 s."""
STREAMING: Final = ClientTimeout(total=None)
_NOT_HANDED_ON: Final = frozenset(
    {"connection", "content-length", "date", "host", "server", "transfer-encoding"}
)


class Unreachable(Exception):
    """A worker that does not answer now; the message says which."""


@dataclass(frozen=True, slots=True)
class WorkerHttp:
    """A worker, and the Unix socket of its HTTP server."""

    worker: WorkerProcess
    path: str


class HttpProxy:
    """The one HTTP server of several workers."""

    def __init__(
        self,
        address: Address,
        workers: Sequence[WorkerHttp],
        partitions: int,
        *,
        max_connections: int,
        report: Callable[..., None],
        hosts: AllowedHosts | None = None,
    ) -> None:
        """Make it, not listening yet.

        Args:
            address: where it will listen.
            workers: the workers, in their order.
            partitions: of the coordinator's log, by which groups belong to workers.
            max_connections: how many there may be at a time.
            report: told of those that are closed because there are more.
            hosts: the names under which it may be asked; any name without them.
        """
        self._workers = workers
        self._partitions = partitions
        self._merged = MergedMetrics()
        self._registry = CollectorRegistry()
        self._registry.register(self._merged)
        self._registry.register(_SupervisorMetrics(workers))
        self._sessions: list[ClientSession] = []
        self._stream_sessions: list[ClientSession] = []
        self._streams = 0
        self._most_streams = most_streams(max_connections)
        self._listener = HttpListener(
            application(self._routes(), hosts),
            address.host,
            address.port,
            max_connections=max_connections,
            report=report,
        )

    async def start(self) -> None:
        """Listen. Raises OSError."""
        self._sessions = [
            ClientSession(connector=UnixConnector(each.path), auto_decompress=False)
            for each in self._workers
        ]
        # Streams hold their connections: out of the pool of the others they would use it up.
        self._stream_sessions = [
            ClientSession(connector=UnixConnector(each.path, limit=0), auto_decompress=False)
            for each in self._workers
        ]
        await self._listener.start()

    async def stop(self) -> None:
        """Close every connection."""
        await self._listener.stop()
        for session in (*self._sessions, *self._stream_sessions):
            await session.close()

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/metrics", self._metrics),
            web.get("/healthz", self._healthz),
            web.get("/readyz", self._readyz),
            *page_routes(),
            web.get("/api/status", self._status),
            web.get("/api/events", self._events, allow_head=False),
            web.get("/api/groups", self._groups),
            web.route("*", "/api/groups/{group_id:[^/]*}", self._group),
            web.route("*", "/api/groups/{group_id:[^/]*}/{what:.*}", self._group),
        ]

    # --- asking workers ---

    async def _text(self, index: int, path: str) -> tuple[int, str]:
        """Status and body of a worker's answer. Raises Unreachable."""
        if not self._workers[index].worker.is_ready:
            raise Unreachable(f"worker {index} is being started")
        try:
            async with self._sessions[index].get(_url(path), timeout=SHORT_PATIENCE) as answer:
                return answer.status, await answer.text()
        except (ClientError, OSError, TimeoutError) as problem:
            raise Unreachable(f"worker {index} does not answer: {problem}") from problem

    async def _texts(self, path: str) -> list[tuple[int, str] | None]:
        """The answers of all workers; None for one that cannot be asked."""

        async def ask(index: int) -> tuple[int, str] | None:
            try:
                return await self._text(index, path)
            except Unreachable:
                return None

        return await asyncio.gather(*(ask(index) for index in range(len(self._workers))))

    # --- health and metrics ---

    async def _metrics(self, _request: web.Request) -> web.Response:
        asked = [each.worker.pid for each in self._workers]
        answers = await self._texts("/metrics")
        for each, pid, answer in zip(self._workers, asked, answers, strict=True):
            worker = each.worker
            # It may have ended since, another life begun, and that have been asked already.
            if answer is not None and (pid == worker.pid or self._merged.has(worker.index, pid)):
                self._merged.take(worker.index, pid, answer[1])
            self._merged.miss(worker.index, worker.pid)
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _healthz(self, _request: web.Request) -> web.Response:
        """Alive: the supervisor answers, and will start again what is not there."""
        return web.json_response({"status": "ok"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        """Ready: every worker is, with every partition loaded."""
        answers = await self._texts("/readyz")
        forms = [None if answer is None else json.loads(answer[1]) for answer in answers]
        partitions: dict[str, int] = {}
        loading: list[Any] = []
        unserved: list[Any] = []
        for form in (form for form in forms if form is not None):
            for state, count in form["partitions"].items():
                partitions[state] = partitions.get(state, 0) + count
            loading += form.get("loading", ())
            unserved += form.get("unserved", ())
        states = ["starting" if form is None else form["status"] for form in forms]
        ready = all(state == "ready" for state in states)
        answer: dict[str, Any] = {
            "status": "ready" if ready else "loading",
            "partitions": partitions,
            "workers": states,
        }
        if loading:
            answer["loading"] = sorted(loading, key=lambda each: each["partition"])
        if unserved:
            answer["unserved"] = sorted(unserved, key=lambda each: each["partition"])
        return web.json_response(answer, status=200 if ready else 503)

    async def _status(self, _request: web.Request) -> web.Response:
        """The budgets of all workers together; of one that does not answer nothing is known."""
        answers = await self._texts("/api/status")
        budgets = [json.loads(answer[1])["client_memory"] for answer in answers if answer]
        limits = [each["limit_bytes"] for each in budgets]
        together = {
            "used_bytes": sum(each["used_bytes"] for each in budgets),
            "limit_bytes": None if None in limits else sum(limits),
            "waiting_connections": sum(each["waiting_connections"] for each in budgets),
        }
        return web.json_response({"client_memory": together})

    # --- groups ---

    async def _groups(self, request: web.Request) -> web.Response:
        """A page of every worker's groups, sorted together."""
        limit = whole_number(request.query, "limit", MAX_LISTED, least=1)
        try:
            answers = await asyncio.gather(
                *(self._text(index, request.raw_path) for index in range(len(self._workers)))
            )
        except Unreachable as problem:
            return error(503, str(problem))
        forms = [json.loads(text) for _, text in answers]
        listed = sorted((g for form in forms for g in form["groups"]), key=lambda g: g["group"])
        is_last = len(listed) <= limit and all(form["next"] is None for form in forms)
        page = listed[:limit]
        found = [finding for form in forms for finding in form["findings"]]
        return web.json_response(
            {
                "groups": page,
                "findings": sorted(found, key=lambda finding: -finding["count"]),
                "next": None if is_last or not page else page[-1]["group"],
            }
        )

    async def _group(self, request: web.Request) -> web.StreamResponse:
        """Whatever it is, the worker of the group answers it."""
        index = self._owner(request.match_info["group_id"])
        if not self._workers[index].worker.is_ready:
            return error(503, f"worker {index}, which has the group, is being started")
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _NOT_HANDED_ON
        }
        try:
            async with self._sessions[index].request(
                request.method,
                _url(request.raw_path),
                headers=headers,
                data=await read_body(request),
                timeout=PATIENCE,
            ) as answer:
                return web.Response(
                    status=answer.status, body=await answer.read(), headers=_kept(answer)
                )
        except (ClientError, OSError, TimeoutError) as problem:
            return error(503, f"worker {index}, which has the group, does not answer: {problem}")

    def _owner(self, group_id: str) -> int:
        return partition_for(group_id, self._partitions) % len(self._workers)

    # --- events ---

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """The streams of all workers, or of the one that has the group; they end together."""
        if self._streams >= self._most_streams:
            return too_many_streams(self._most_streams)
        self._streams += 1
        become_stream()
        try:
            return await self._copied(request)
        finally:
            self._streams -= 1

    async def _copied(self, request: web.Request) -> web.StreamResponse:
        group = request.query.get("group")
        indexes = range(len(self._workers)) if group is None else [self._owner(group)]
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        tasks = [
            asyncio.create_task(self._copy_events(index, request.raw_path, response))
            for index in indexes
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        if request.transport is not None and any(isinstance(e, TimeoutError) for e in ended):
            request.transport.abort()
        return response

    async def _copy_events(self, index: int, path: str, into: web.StreamResponse) -> None:
        async with self._stream_sessions[index].get(_url(path), timeout=STREAMING) as answer:
            async for event in _events_of(answer):
                # A client that does not read ends the stream, and the worker's.
                async with asyncio.timeout(WRITE_SECONDS):
                    await into.write(event)


async def _events_of(answer: ClientResponse) -> AsyncIterator[bytes]:
    """Whole events: those of several streams must not run into each other."""
    begun = b""
    async for data in answer.content.iter_any():
        *whole, begun = (begun + data).split(b"\n\n")
        for event in whole:
            yield event + b"\n\n"


def _url(path: str) -> URL:
    return URL(f"http://worker{path}", encoded=True)


def _kept(answer: ClientResponse) -> Mapping[str, str]:
    return {
        name: value for name, value in answer.headers.items() if name.lower() not in _NOT_HANDED_ON
    }


class _SupervisorMetrics(Collector):
    """The series of the supervisor itself."""

    def __init__(self, workers: Sequence[WorkerHttp]) -> None:
        self._workers = workers

    def describe(self) -> list[Metric]:
        """Nothing: registering must not collect."""
        return []

    def collect(self) -> list[Metric]:
        """The workers, and how often they were started again."""
        workers = [each.worker for each in self._workers]
        ready = sum(worker.is_ready for worker in workers)
        _, text, labels = SUPERVISOR_FAMILIES["workers"]
        states = GaugeMetricFamily(PREFIX + "workers", text, labels=labels)
        states.add_metric(["ready"], ready)
        states.add_metric(["starting"], len(workers) - ready)
        text = SUPERVISOR_FAMILIES["worker_restarts_total"].help
        restarts = CounterMetricFamily(PREFIX + "worker_restarts_total", text)
        restarts.add_metric([], sum(worker.restarts for worker in workers))
        return [states, restarts]
