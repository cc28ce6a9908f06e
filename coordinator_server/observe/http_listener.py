"""Listens for HTTP, and decides which connections stay when there are too many."""

import asyncio
import socket
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from aiohttp import web

from coordinator_server.loop.accepting import RefusedConnection, accepting
from coordinator_server.observe.http_answers import Handler

MAX_CONNECTIONS: Final = 500
SHUTDOWN_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 75.0
"""A connection on which nothing is asked for so long is closed."""

FIRST_REQUEST_SECONDS: Final = 10.0
"""How long a client may take for the first request of a connection, up to the end of its headers.

Where a body is read, `http_answers.read_body` bounds that.
"""

ANSWER_SECONDS: Final = 60.0
"""How long a client may take to read an answer; a stream of events has limits of its own."""

LINGERING_SECONDS: Final = 1.0
"""How long the rest of a body that nobody has read is waited for."""

QUIET_SECONDS: Final = 1.0
"""After a line about closed connections, until the next."""

Report = Callable[..., None]


class HttpListener:
    """An application on an address, or on a socket that is bound already.

    With `max_connections` the oldest connection without a request gives way to a new one, then the
    oldest whose request is not a stream: who opens connections and sends nothing, or half a
    request, or does not read, keeps nobody from asking for `/healthz`.
    """

    def __init__(
        self,
        app: web.Application,
        host: str,
        port: int,
        *,
        given: socket.socket | None = None,
        max_connections: int = MAX_CONNECTIONS,
        report: Report | None = None,
    ) -> None:
        """`report` is told of connections that are closed because there are too many."""
        self._host = host
        self._port = port
        self._given = given
        self._connections = Connections(max_connections, report)
        app.middlewares.insert(0, self._connections.middleware())
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=SHUTDOWN_SECONDS,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGERING_SECONDS,
        )
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await self._runner.setup()
        try:
            self._server = await self._listen()
        except OSError:
            await self._runner.cleanup()
            raise
        self._sweep()

    async def _listen(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        if self._given is not None:
            return await loop.create_server(accepting(self._accept), sock=self._given)
        try:
            accept = accepting(self._accept)
            return await loop.create_server(accept, self._host, self._port)
        except OSError as error:
            address = f"{self._host}:{self._port}"
            raise OSError(f"http.listener={address} cannot be opened: {error}") from error

    def _accept(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        assert server is not None
        loop = asyncio.get_running_loop()
        if not self._connections.make_room(loop.time()):
            return RefusedConnection()
        made = server()
        self._connections.add(made, loop.time())
        return made

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._connections.close_silent(loop.time())
        finally:
            self._sweeping = loop.call_later(1.0, self._sweep)

    @property
    def port(self) -> int:
        """The port it listens on, which the system chose if it was configured as 0."""
        if self._server is None or self._given is not None or not self._server.sockets:
            return self._port
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close every connection, those in use after a second."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._runner.cleanup()


class Connections:
    """The connections of a listener, by what they do and since when."""

    def __init__(self, most: int, report: Report | None) -> None:
        self._most = most
        self._report = report
        self._silent: dict[Any, float] = {}
        """Those that have not sent a request yet, the oldest first."""
        self._idle: dict[Any, float] = {}
        """Those whose last request is answered, the longest idle first."""
        self._busy: dict[Any, float] = {}
        """Those with a request in progress that is no stream, the oldest first."""
        self._streams: dict[Any, float] = {}
        self._told: float | None = None
        self._untold = 0

    def __len__(self) -> int:
        return len(self._silent) + len(self._idle) + len(self._busy) + len(self._streams)

    def add(self, protocol: Any, now: float) -> None:
        """A client has connected."""
        self._silent[protocol] = now

    def make_room(self, now: float) -> bool:
        """Close a connection if there are as many as may be; False if none can be closed."""
        if len(self) < self._most:
            return True
        self._forget_closed()
        if len(self) < self._most:
            return True
        for kind in (self._silent, self._idle, self._busy):
            if kind:
                self._close(kind, next(iter(kind)), now)
                return True
        self._tell("", now)
        return False

    def close_silent(self, now: float) -> None:
        """Close those that take too long for their first request."""
        self._forget_closed()
        for protocol, since in list(self._silent.items()):
            if now - since <= FIRST_REQUEST_SECONDS:
                return
            _abort(protocol)
            del self._silent[protocol]

    def middleware(self) -> Any:
        """Notes when a request begins and ends, and ends those that take too long."""

        @web.middleware
        async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
            protocol = request.protocol
            self._move(protocol, self._busy)
            try:
                async with asyncio.timeout(ANSWER_SECONDS) as limit:
                    _become_stream.set(partial(self._become_stream, protocol, limit))
                    return await handler(request)
            except TimeoutError:
                if not limit.expired():
                    raise
                _abort(protocol)
                return web.Response(status=503)
            finally:
                self._move(protocol, self._idle)

        return note

    def _become_stream(self, protocol: Any, limit: asyncio.Timeout) -> None:
        limit.reschedule(None)
        self._move(protocol, self._streams)

    def _move(self, protocol: Any, to: dict[Any, float]) -> None:
        for kind in (self._silent, self._idle, self._busy, self._streams):
            if kind.pop(protocol, None) is not None:
                to[protocol] = asyncio.get_running_loop().time()
                return

    def _forget_closed(self) -> None:
        for kind in (self._silent, self._idle, self._busy, self._streams):
            for protocol in [each for each in kind if _is_closed(each)]:
                del kind[protocol]

    def _close(self, kind: dict[Any, float], protocol: Any, now: float) -> None:
        del kind[protocol]
        peer = protocol.transport.get_extra_info("peername") if protocol.transport else None
        _abort(protocol)
        self._tell((peer or ("",))[0], now)

    def _tell(self, host: str, now: float) -> None:
        """Report closed connections, once a second at most: clients come again at once."""
        self._untold += 1
        if self._report is None or (self._told is not None and now - self._told < QUIET_SECONDS):
            return
        count, self._untold, self._told = self._untold, 0, now
        self._report(
            "http_connection_refused", host=host, limit="http.max.connections", count=count
        )


_become_stream: ContextVar[Callable[[], None]] = ContextVar("become_stream", default=lambda: None)
"""Of the request that is handled: aiohttp runs each in a task of its own."""


def become_stream() -> None:
    """Let the answer to this request go on until its client leaves, without a limit of time.

    The handler that calls this bounds the number of streams, and the time of every write.
    """
    _become_stream.get()()


def _is_closed(protocol: Any) -> bool:
    if protocol.transport is None:
        # Not connected yet, or not any more: aiohttp takes the manager away at the end.
        return protocol._manager is None  # noqa: SLF001 - there is no public sign of it
    return bool(protocol.transport.is_closing())


def _abort(protocol: Any) -> None:
    if protocol.transport is not None:
        protocol.transport.abort()
