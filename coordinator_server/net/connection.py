"""The asyncio shell round a session: one TCP connection.

What a chunk of requests brings about leaves with one write; answers that come later, to whichever
connection, leave together in the next turn of the loop.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

from coordinator_server.clock import Clock
from coordinator_server.net.context import SessionContext
from coordinator_server.net.leaving import Leaving
from coordinator_server.net.limits import ConnectionLimits, RefusalLines
from coordinator_server.net.peer import peer_host
from coordinator_server.net.session import READ_AHEAD, Session
from coordinator_server.net.turns import Flushed, Turns
from coordinator_server.ports import Authenticator


@dataclass(slots=True)
class Hub:
    """What all connections of a server share."""

    context: SessionContext
    authenticator: Authenticator
    limits: ConnectionLimits
    refusals: RefusalLines
    clock: Clock
    turns: Turns
    connections: "set[Connection]" = field(default_factory=set)
    leaving: set[Leaving] = field(default_factory=set)
    """What is still served of clients that have gone."""
    emptied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last of both goes."""
    is_draining: bool = False

    def note_if_empty(self) -> None:
        """Tell who waits for the last one to go."""
        if not self.connections and not self.leaving:
            self.emptied.set()


class Connection(Flushed):
    """Implements net.context.Shell, and what asyncio.Protocol has: to inherit that takes time."""

    __slots__ = (
        "_host",
        "_hub",
        "_is_reading",
        "_listener",
        "_put_off",
        "_rests",
        "_session",
        "_task",
        "_transport",
        "_unsent",
        "active_ms",
        "closing_why",
    )

    def __init__(self, hub: Hub, listener: str) -> None:
        self._hub = hub
        self._listener = listener
        self._host = ""
        self._session: Session | None = None
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._is_reading = True
        self._rests = False
        self._put_off = b""
        """What came when the turn of the loop was over for requests."""
        self._unsent = 0
        self.active_ms = 0
        """When bytes last moved, in monotonic milliseconds."""
        self.closing_why = ""

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a session, unless there are too many."""
        hub = self._hub
        self._transport = cast("asyncio.Transport", transport)
        self._host = peer_host(transport.get_extra_info("peername"))
        counters = hub.context.counters
        exceeded: str | None = "server is stopping"
        if not hub.is_draining:
            exceeded = hub.limits.admit(self._host, self._descriptor)
        if exceeded:
            counters.connections_closed["refused"] += 1
            hub.refusals.refused(exceeded, self._host, hub.clock.monotonic_ms())
            self._transport.abort()
            return
        counters.connections += 1
        counters.connections_accepted += 1
        self.active_ms = hub.clock.monotonic_ms()
        hub.connections.add(self)
        hub.emptied.clear()
        self._session = Session(
            hub.context,
            self,
            listener=self._listener,
            host=self._host,
            principal=hub.authenticator.principal(self._listener, self._host),
        )

    def _descriptor(self) -> int:
        number: int = self._transport.get_extra_info("socket").fileno()
        return number

    def data_received(self, data: bytes) -> None:
        """Serve what a chunk holds, and write all answers at once."""
        session = self._session
        if session is None:
            return
        self.active_ms = now_ms = self._hub.clock.monotonic_ms()
        # Not ahead of what was put off, or of the rest of a frame in it.
        answers = None if self._put_off else session.repeat(data, now_ms)
        if answers is not None:
            self._transport.write(answers)
        elif self._put_off or not self._hub.turns.has_time(self, now_ms):
            self._put_off += data
            self._adjust_reading(session)
            self._hub.turns.add(self)
        else:
            session.receive(data, now_ms)
            self._write(session)

    def eof_received(self) -> None:
        """The client sends nothing more; nobody wants to keep the connection half open."""

    def pause_writing(self) -> None:
        """The client does not read: begin no further request, take no further bytes."""
        if self._session is not None:
            self._session.is_congested = True
            self._adjust_reading(self._session)

    def resume_writing(self) -> None:
        """The client has read: go on with what waits."""
        if self._session is not None:
            self._session.is_congested = False
            self.active_ms = self._hub.clock.monotonic_ms()
            self._hub.turns.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is left to answer; what the client sent before it went is served nevertheless."""
        session, self._session = self._session, None
        if session is None:
            return
        if self._put_off:
            # It may be a LeaveGroup, of which a client that closes awaits no answer.
            session.receive(self._put_off, self._hub.clock.monotonic_ms())
        why = self.closing_why or session.ended or ("error" if exc else "client_closed")
        hub = self._hub
        hub.turns.forget(self)
        hub.connections.discard(self)
        hub.context.counters.connections -= 1
        hub.context.counters.connections_closed[why] += 1
        is_over = bool(self.closing_why or session.ended or hub.is_draining)
        if is_over or session.is_idle:
            session.abandon()
            if self._task is not None:
                self._task.cancel()
            self._make_room()
            return
        leaving = Leaving(session, self._task, hub.turns, hub.clock, self._left)
        hub.leaving.add(leaving)
        leaving.begin()

    def _left(self, leaving: Leaving) -> None:
        """It had its place until now: who comes and goes must not leave more than may be there."""
        self._hub.leaving.discard(leaving)
        self._make_room()

    def _make_room(self) -> None:
        self._hub.limits.release(self._host)
        self._hub.note_if_empty()

    # --- what the session calls ---

    def wake(self) -> None:
        """An answer has come late."""
        self._hub.turns.add(self)

    def run(self, handling: Coroutine[Any, Any, None]) -> None:
        """Run the handling of a request as a task."""
        self._task = asyncio.get_running_loop().create_task(handling)

    async def aside(self, work: Callable[[], Any]) -> Any:
        """Do work in a thread; the loop gets its turns meanwhile."""
        return await asyncio.to_thread(work)

    # --- what its turns call ---

    def flush(self) -> bool:
        """Go on with what waits, and send what there is; whether nothing is in progress then."""
        session = self._session
        if session is None:
            return False
        if session.is_ready:
            session.proceed(self._hub.clock.monotonic_ms())
        if self._put_off:
            data, self._put_off = self._put_off, b""
            session.receive(data, self._hub.clock.monotonic_ms())
        self._write(session)
        return session.current is None

    def rest(self) -> int:
        """See Resting."""
        if self._transport.is_closing():
            return -1
        self._rests = True
        if self._session is not None:
            self._adjust_reading(self._session)
        return self._descriptor()

    def wake_up(self) -> None:
        """The rest is over."""
        self._rests = False
        if self._session is not None:
            self._adjust_reading(self._session)

    # --- what the server calls ---

    def drain(self) -> None:
        """End the connection when the request in progress has been answered."""
        if self._session is not None:
            self._session.drain()
            self._write(self._session)

    def close_if_idle(self, now_ms: int, limit_ms: int) -> None:
        """End the connection if no byte has moved for too long, in either direction."""
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent = unsent
            self.active_ms = now_ms
        elif now_ms - self.active_ms > limit_ms:
            self.close_now("idle" if not unsent else "not_reading")

    def close_now(self, why: str) -> None:
        """End the connection at once, without sending what is still to be sent."""
        self.closing_why = why
        self._hub.context.report(
            "connection_closed", reason=why, host=self._host, listener=self._listener
        )
        self._transport.abort()

    # --- the rest ---

    def _write(self, session: Session) -> None:
        parts = session.take()
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif parts:
            self._transport.writelines(parts)
        if session.ended:
            self._transport.close()
        elif session.is_ready:
            self._hub.turns.add(self)
        elif session.wants_more is not self._is_reading:
            self._adjust_reading(session)

    def _adjust_reading(self, session: Session) -> None:
        wants_more = session.wants_more and not self._rests and len(self._put_off) <= READ_AHEAD
        if wants_more is self._is_reading or self._transport.is_closing():
            return
        self._is_reading = wants_more
        if wants_more:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
