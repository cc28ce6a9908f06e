"""Opens the listeners, keeps their connections, and closes both in good order."""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import cast

from coordinator_server.clock import Clock
from coordinator_server.net.connection import Connection, Hub
from coordinator_server.net.context import SessionContext
from coordinator_server.net.limits import ConnectionLimits, RefusalLines
from coordinator_server.net.sockets import bind
from coordinator_server.net.turns import Turns
from coordinator_server.ports import Authenticator
from coordinator_server.soon import Soon

BACKLOG = 1024
SWEEPS_PER_IDLE_TIME = 20
LONGEST_SWEEP_SECONDS = 30.0
SHORTEST_SWEEP_SECONDS = 0.05
DRAIN_SECONDS = 5.0


class SocketServer:
    """All listeners of a server with their connections (Kafka's SocketServer)."""

    def __init__(
        self,
        context: SessionContext,
        authenticator: Authenticator,
        clock: Clock,
        soon: Soon,
        sockets: Mapping[str, list[socket.socket]] | None = None,
    ) -> None:
        """`sockets` are those of each listener, if somebody has bound them already."""
        config = context.services.config
        self.ports: dict[str, int] = {}
        """The port of each open listener."""
        self._listeners = config.listeners
        self._idle_ms: int = config.connections_max_idle_ms
        self._hub = Hub(
            context,
            authenticator,
            ConnectionLimits(config.max_connections, config.max_connections_per_ip),
            RefusalLines(context.report),
            clock,
            Turns(soon, clock),
        )
        self._sockets: dict[str, list[socket.socket]] = {}
        self._given = sockets
        self._servers: list[asyncio.Server] = []
        self._sweep: asyncio.TimerHandle | None = None

    def bind(self) -> Mapping[str, int]:
        """Take the addresses of all listeners; returns their ports, known from now on.

        Connections wait until `serve`. Raises OSError that names the listener.
        """
        with ExitStack() as opened:
            for listener in self._listeners:
                sockets = bind(listener) if self._given is None else self._given[listener.name]
                for each in sockets:
                    opened.callback(each.close)
                self._sockets[listener.name] = sockets
                self.ports[listener.name] = sockets[0].getsockname()[1]
            opened.pop_all()
        return self.ports

    async def serve(self) -> None:
        """Accept connections; `bind` has been called, or is now."""
        if not self._sockets:
            self.bind()
        loop = asyncio.get_running_loop()
        for name, sockets in self._sockets.items():
            for each in sockets:
                accept = cast("type[asyncio.Protocol]", partial(Connection, self._hub, name))
                server = await loop.create_server(accept, sock=each, backlog=BACKLOG)
                self._servers.append(server)
        if self._idle_ms >= 0:
            self._schedule_sweep()

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._hub.connections)

    def stop_accepting(self) -> None:
        """Let nobody in any more; those inside are served as before."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for sockets in self._sockets.values():
            for each in sockets:
                each.close()
        self._sockets.clear()

    def begin_drain(self) -> None:
        """Take no further request: connections end when what is in progress is answered."""
        self._hub.is_draining = True
        self.stop_accepting()
        for connection in list(self._hub.connections):
            connection.drain()
        for leaving in list(self._hub.leaving):
            leaving.drain()

    async def close(self, timeout_s: float = DRAIN_SECONDS) -> None:
        """Drain, and after `timeout_s` seconds end what is left."""
        self.begin_drain()
        if self._sweep is not None:
            self._sweep.cancel()
        hub = self._hub
        if hub.connections or hub.leaving:
            with suppress(TimeoutError):
                await asyncio.wait_for(hub.emptied.wait(), timeout_s)
        for connection in list(hub.connections):
            connection.close_now("server_stopping")
        for leaving in list(hub.leaving):
            leaving.end()
        if hub.connections:
            await hub.emptied.wait()

    # --- idle connections ---

    def _schedule_sweep(self) -> None:
        period = self._idle_ms / 1000 / SWEEPS_PER_IDLE_TIME
        period = min(max(period, SHORTEST_SWEEP_SECONDS), LONGEST_SWEEP_SECONDS)
        self._sweep = asyncio.get_running_loop().call_later(period, self._close_idle)

    def _close_idle(self) -> None:
        now_ms = self._hub.clock.monotonic_ms()
        for connection in list(self._hub.connections):
            connection.close_if_idle(now_ms, self._idle_ms)
        self._schedule_sweep()
