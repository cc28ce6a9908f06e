"""Listens for HTTP, and lets in so many connections at a time."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, cast

from aiohttp import web

MAX_CONNECTIONS: Final = 500
SHUTDOWN_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 75.0
"""A connection on which nothing is asked for so long is closed."""


class HttpListener:
    """An application on an address, or on a socket that somebody has bound."""

    def __init__(
        self,
        app: web.Application,
        host: str,
        port: int,
        *,
        given: socket.socket | None = None,
        max_connections: int = MAX_CONNECTIONS,
        report: Callable[..., None] | None = None,
    ) -> None:
        """`report` is told of connections that are closed because there are too many."""
        self._host = host
        self._port = port
        self._given = given
        self._max_connections = max_connections
        self._report = report
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=SHUTDOWN_SECONDS,
            keepalive_timeout=IDLE_SECONDS,
        )
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await self._runner.setup()
        try:
            self._server = await self._listen()
        except OSError:
            await self._runner.cleanup()
            raise

    async def _listen(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        if self._given is not None:
            return await loop.create_server(self._accept, sock=self._given)
        try:
            return await loop.create_server(self._accept, self._host, self._port)
        except OSError as error:
            address = f"{self._host}:{self._port}"
            raise OSError(f"http.listener={address} cannot be opened: {error}") from error

    def _accept(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        assert server is not None
        if len(server.connections) < self._max_connections:
            return server()
        return _Refused(self._report)

    @property
    def port(self) -> int:
        """The port it listens on, which the system chose if it was configured as 0."""
        if self._server is None or self._given is not None or not self._server.sockets:
            return self._port
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close every connection, those in use after a second."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._runner.cleanup()


class _Refused(asyncio.Protocol):
    """One connection too many, closed at once."""

    def __init__(self, report: Callable[..., None] | None) -> None:
        self._report = report

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._report is not None:
            host = (transport.get_extra_info("peername") or ("",))[0]
            self._report("http_connection_refused", host=host, limit="http.max.connections")
        cast("asyncio.Transport", transport).abort()
