"""Opens the listeners, keeps their connections, and closes both in good order."""

import asyncio
import select
import socket
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import cast

from coordinator_server.clock import Clock
from coordinator_server.loop.accepting import accepting
from coordinator_server.loop.batching import Soon
from coordinator_server.net.connection import Connection, ServerState
from coordinator_server.net.context import SessionContext
from coordinator_server.net.fair_scheduler import FairScheduler
from coordinator_server.net.heap import trim
from coordinator_server.net.limits import ConnectionLimits
from coordinator_server.net.sockets import bind
from coordinator_server.observe.line_limit import LineLimiter
from coordinator_server.ports import Authenticator

_Factory = Callable[[], asyncio.BaseProtocol]

BACKLOG = 1024
"""Connections that wait in the kernel until they are accepted."""
ACCEPTED_AT_ONCE = 32
"""Connections that asyncio accepts in a turn of the loop; uvloop accepts one."""
CHECK_SECONDS = 1.0
"""Between two looks at who holds memory, and at suppressed log lines."""
TRIMMED_FROM = 1 << 24
"""Bytes that were in use from which on it is worth returning free memory to the system."""
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
        context.lines = LineLimiter(context.report, clock.monotonic_ms)
        self._hub = ServerState(
            context,
            authenticator,
            ConnectionLimits(config.max_connections, config.max_connections_per_ip),
            clock,
            FairScheduler(soon, clock),
        )
        self._sockets: dict[str, list[socket.socket]] = {}
        self._given = sockets
        self._servers: list[asyncio.Server] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._check: asyncio.TimerHandle | None = None
        self._trimming: asyncio.Future[None] | None = None

    def limit_by_files(self, connections: int) -> None:
        """Refuse more connections than this, whatever `max.connections` says."""
        self._hub.limits.most_by_files = connections

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
                accept = accepting(cast("_Factory", partial(Connection, self._hub, name)))
                server = await loop.create_server(accept, sock=each, backlog=ACCEPTED_AT_ONCE)
                self._servers.append(server)
                # Of asyncio the argument is both; the kernel's queue is to be the longer one.
                each.listen(BACKLOG)
        self._schedule_check()
        if self._idle_ms >= 0:
            self._schedule_sweep()

    @property
    def connections(self) -> int:
        """The number of open connections."""
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
        self._each(Connection.drain)
        for leaving in list(self._hub.leaving):
            leaving.drain()

    async def close(self, timeout_s: float = DRAIN_SECONDS) -> None:
        """Drain, and after `timeout_s` seconds end what is left."""
        self.begin_drain()
        for timer in (self._sweep, self._check):
            if timer is not None:
                timer.cancel()
        hub = self._hub
        if hub.connections or hub.leaving:
            with suppress(TimeoutError):
                await asyncio.wait_for(hub.emptied.wait(), timeout_s)
        self._each(lambda connection: connection.close_now("server_stopping"))
        for leaving in list(hub.leaving):
            leaving.end()
        if hub.connections:
            await hub.emptied.wait()

    def _each(self, act: Callable[[Connection], None]) -> None:
        """Have something done to every connection; one for which that raises ends."""
        for connection in list(self._hub.connections):
            try:
                act(connection)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - the others come, too
                connection.failed(error)

    # --- memory and log lines ---

    def _schedule_check(self) -> None:
        loop = asyncio.get_running_loop()
        self._check = loop.call_later(CHECK_SECONDS, self._check_memory)

    def _check_memory(self) -> None:
        """Close who keeps memory for too long, and report suppressed lines."""
        self._schedule_check()
        context = self._hub.context
        context.lines.flush()
        memory = context.memory
        if memory.waiting:
            self._close_reset()
        memory.sweep(self._hub.clock.monotonic_ms())
        if memory.peak > TRIMMED_FROM and memory.used * 8 < memory.peak:
            memory.peak = memory.used
            self._trimming = asyncio.get_running_loop().run_in_executor(None, trim)

    def _close_reset(self) -> None:
        """Close connections that were reset while they are not read: the loop does not notice."""
        poll = select.poll()
        waiting: dict[int, Connection] = {}
        for connection in self._hub.connections:
            if connection.waits_for_memory and (number := connection.descriptor()) >= 0:
                waiting[number] = connection
                # Errors are always reported. What arrives is not asked for: nobody reads it.
                poll.register(number, 0)
        for number, _ in poll.poll(0):
            waiting[number].close_reset()

    # --- idle connections ---

    def _schedule_sweep(self) -> None:
        period = self._idle_ms / 1000 / SWEEPS_PER_IDLE_TIME
        period = min(max(period, SHORTEST_SWEEP_SECONDS), LONGEST_SWEEP_SECONDS)
        self._sweep = asyncio.get_running_loop().call_later(period, self._close_idle)

    def _close_idle(self) -> None:
        try:
            now_ms = self._hub.clock.monotonic_ms()
            self._each(lambda connection: connection.close_if_idle(now_ms, self._idle_ms))
        finally:
            self._schedule_sweep()
