"""The asyncio shell round a session: one TCP connection.

What a chunk of requests brings about leaves with one write; answers that come later, to whichever
connection, leave together in the next turn of the loop.
"""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

from coordinator_server.clock import Clock
from coordinator_server.loop.task_keeper import origin
from coordinator_server.net.address import peer_host
from coordinator_server.net.context import SessionContext
from coordinator_server.net.disconnected_session import LASTING, DisconnectedSession
from coordinator_server.net.fair_scheduler import FairScheduler, Schedulable, SlicedWork
from coordinator_server.net.limits import ConnectionLimits
from coordinator_server.net.memory import UNCOUNTED, ConnectionMemory
from coordinator_server.net.request_buffer import READ_AHEAD
from coordinator_server.net.session import Session
from coordinator_server.ports import Authenticator


@dataclass(slots=True)
class ServerState:
    """The state that all connections of a server share."""

    context: SessionContext
    authenticator: Authenticator
    limits: ConnectionLimits
    clock: Clock
    turns: FairScheduler
    decoding: SlicedWork = field(default_factory=SlicedWork)
    """Decodes large requests."""
    connections: "set[Connection]" = field(default_factory=set)
    leaving: set[DisconnectedSession] = field(default_factory=set)
    """Sessions of disconnected clients that are still being served."""
    emptied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last of both goes."""
    is_draining: bool = False

    def note_if_empty(self) -> None:
        """Tell who waits for the last one to go."""
        if not self.connections and not self.leaving:
            self.emptied.set()


class Connection(Schedulable):
    """Implements SessionTransport, and asyncio.Protocol without its base class, which is slow."""

    __slots__ = (
        "_host",
        "_hub",
        "_is_reading",
        "_is_unread",
        "_listener",
        "_memory",
        "_partial",
        "_partial_ms",
        "_put_off",
        "_rests",
        "_session",
        "_task",
        "_transport",
        "_unsent",
        "active_ms",
        "closing_why",
    )

    def __init__(self, hub: ServerState, listener: str) -> None:
        self._hub = hub
        self._listener = listener
        self._host = ""
        self._session: Session | None = None
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._is_reading = True
        self._rests = False
        self._put_off = b""
        """Bytes that arrived after the time slice for requests was used up."""
        self._unsent = 0
        self._is_unread = False
        """Whether the transport has more than it should of what the client does not read."""
        self._memory: ConnectionMemory | None = None
        """The memory accounting of this connection; None until it holds much."""
        self._partial = -1
        """Which frame was incomplete at the last sweep, by the frames that were complete then."""
        self._partial_ms = 0
        """When a sweep first saw it."""
        self.active_ms = 0
        """When bytes last moved, in monotonic milliseconds."""
        self.closing_why = ""

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a session, unless there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        try:
            self._begin(transport)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - it must not stay unserved
            self.failed(error)

    def _begin(self, transport: asyncio.BaseTransport) -> None:
        hub = self._hub
        self._host = peer_host(transport.get_extra_info("peername"))
        counters = hub.context.counters
        exceeded: str | None = "server is stopping"
        if not hub.is_draining:
            exceeded = hub.limits.admit(self._host, self._descriptor)
        if exceeded:
            counters.connections_closed["refused"] += 1
            hub.context.lines.report("connection_refused", exceeded, self._host, limit=exceeded)
            self._transport.abort()
            return
        try:
            self.active_ms = hub.clock.monotonic_ms()
            session = Session(
                hub.context,
                self,
                listener=self._listener,
                host=self._host,
                principal=hub.authenticator.principal(self._listener, self._host),
            )
        except BaseException:
            hub.limits.release(self._host)
            raise
        counters.connections += 1
        counters.connections_accepted += 1
        hub.connections.add(self)
        hub.emptied.clear()
        self._session = session

    def _descriptor(self) -> int:
        number: int = self._transport.get_extra_info("socket").fileno()
        return number

    def data_received(self, data: bytes) -> None:
        """Serve what a chunk holds, and write all answers at once."""
        session = self._session
        if session is None:
            return
        try:
            hub = self._hub
            self.active_ms = now_ms = hub.clock.monotonic_ms()
            if self._put_off or not hub.turns.has_time(self, now_ms):
                self._put_off_more(session, data)
            else:
                responses, rest = session.express(data, now_ms)
                if responses:
                    self._transport.write(responses)
                if rest < len(data):
                    session.receive(data[rest:] if rest else data, now_ms)
                    self._write(session)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - it is this client's alone
            self.failed(error)

    def _put_off_more(self, session: Session, data: bytes) -> None:
        self._put_off += data
        if len(self._put_off) > UNCOUNTED:
            self._count(session)
        self._adjust_reading(session)
        self._hub.turns.add(self)

    def eof_received(self) -> None:
        """The client sends nothing more; nobody wants to keep the connection half open."""

    def pause_writing(self) -> None:
        """The client does not read: begin no further request, take no further bytes."""
        self._is_unread = True
        if self._session is not None:
            self._session.is_congested = True
            try:
                self._count(self._session)
                self._adjust_reading(self._session)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - it would not be bounded
                self.failed(error)

    def resume_writing(self) -> None:
        """The client has read: go on with what waits."""
        self._is_unread = False
        session = self._session
        if session is not None:
            session.is_congested = session.is_held_back
            try:
                self.active_ms = self._hub.clock.monotonic_ms()
                self._count(session)
                self._hub.turns.add(self)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - it would wait for ever
                self.failed(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Serve the rest of what the client sent before it went, as far as it has an effect."""
        session, self._session = self._session, None
        if session is None:
            return
        hub = self._hub
        why = self.closing_why or session.ended or ("error" if exc else "client_closed")
        hub.connections.discard(self)
        hub.context.counters.connections -= 1
        hub.context.counters.connections_closed[why] += 1
        if self._task is None and session.is_idle and not self._put_off and self._memory is None:
            # As nearly always: nothing is left to be served.
            hub.turns.forget(self)
            hub.limits.release(self._host)
            hub.note_if_empty()
            session.abandon()
            return
        memory, self._memory = self._memory, None
        leaving = DisconnectedSession(
            session, self._task, memory, hub.turns, hub.decoding, hub.clock, self._left
        )
        hub.leaving.add(leaving)
        try:
            self._leave(session, leaving)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - its place must be free again
            leaving.failed(error)

    def _leave(self, session: Session, leaving: DisconnectedSession) -> None:
        hub = self._hub
        hub.turns.forget(self)
        if self.closing_why or session.ended or hub.is_draining:
            leaving.end()
            return
        rest, self._put_off = self._put_off, b""
        session.leave(leaving, rest, LASTING)
        leaving.begin()

    def failed(self, error: BaseException) -> None:
        """Serving this connection has raised: end it, and nothing else."""
        self.closing_why = "failed"
        self._transport.abort()
        self._hub.context.lines.report(
            "connection_failed",
            origin(error),
            self._host,
            listener=self._listener,
            error=repr(error),
            where=origin(error),
        )

    def _left(self, leaving: DisconnectedSession) -> None:
        """It had its place until now: who comes and goes must not leave more than may be there."""
        self._hub.leaving.discard(leaving)
        self._hub.limits.release(self._host)
        self._hub.note_if_empty()

    # --- what the session calls ---

    def wake(self) -> None:
        """An answer has come late."""
        try:
            self._hub.turns.add(self)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - it would wait for ever
            self.failed(error)

    def run(self, handling: Coroutine[Any, Any, None]) -> None:
        """Run the handling of a request as a task."""
        self._task = asyncio.get_running_loop().create_task(handling)

    async def in_slices(self, step: Callable[[], bool]) -> None:
        """See net.context.SessionTransport."""
        await self._hub.decoding.run(step)

    def may_build(self, size: int, go_on: Callable[[], None]) -> bool:
        """See net.context.SessionTransport."""
        session = self._session
        if session is None:
            return False
        memory = self._count(session)
        return not session.is_building or memory.may_build(size, go_on)

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
            session.proceed(self._hub.clock.monotonic_ms(), self._hub.turns.share)
        if self._put_off:
            data, self._put_off = self._put_off, b""
            session.receive(data, self._hub.clock.monotonic_ms())
        self._write(session)
        return session.current is None

    def rest(self) -> int:
        """See Parkable."""
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

    @property
    def waits_for_memory(self) -> bool:
        """Whether the connection is not read, so that the loop does not notice its end."""
        return self._memory is not None and self._memory.is_paused

    def descriptor(self) -> int:
        """The number of its socket, -1 if that is closed."""
        return -1 if self._transport.is_closing() else self._descriptor()

    def close_reset(self) -> None:
        """The client has reset the connection: go on as if the loop had noticed it."""
        self._transport.abort()

    def drain(self) -> None:
        """End the connection when the request in progress has been answered."""
        if self._session is not None:
            self._session.drain()
            self._write(self._session)

    def close_if_idle(self, now_ms: int, limit_ms: int) -> None:
        """End the connection if no byte has moved for too long, in either direction.

        So does a request that is not complete after as long, however often a byte of it comes.
        """
        unsent = self._transport.get_write_buffer_size()
        session = self._session
        if unsent != self._unsent:
            self._unsent = unsent
            self.active_ms = now_ms
        elif now_ms - self.active_ms > limit_ms:
            self.close_now("idle" if not unsent else "not_reading")
            return
        if session is None or not session.is_amid or not session.is_idle:
            self._partial = -1
        elif self._partial != session.completed:
            self._partial, self._partial_ms = session.completed, now_ms
        elif now_ms - self._partial_ms > limit_ms:
            self.close_now("slow_request")

    def close_now(self, why: str) -> None:
        """End the connection at once, without sending what is still to be sent."""
        self.closing_why = why
        self._transport.abort()
        self._hub.context.lines.report(
            "connection_closed", why, self._host, reason=why, listener=self._listener
        )

    # --- the rest ---

    def _write(self, session: Session) -> None:
        parts = session.take()
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif parts:
            self._transport.writelines(parts)
        if self._is_reading and self._memory is None and session.is_light and not session.ended:
            return
        if self._memory is not None or session.is_held_back or session.held > UNCOUNTED:
            self._count(session)
        if session.ended:
            self._transport.close()
            return
        if session.is_ready:
            self._hub.turns.add(self)
        # Also with requests that wait for their turn: they are what reading must not run ahead of.
        if session.wants_more is not self._is_reading:
            self._adjust_reading(session)

    def _count(self, session: Session) -> ConnectionMemory:
        """Tell the memory budget what this connection holds."""
        hub, memory = self._hub, self._memory
        if memory is None:
            memory = ConnectionMemory(hub.context.memory, self._go_on, self.close_now)
            self._memory = memory
        memory.update(
            session.held + len(self._put_off),
            session.announced,
            self._transport.get_write_buffer_size() if self._is_unread else 0,
            hub.clock.monotonic_ms(),
            must_wait=session.is_held_back,
            is_building=session.is_building,
        )
        if session.is_held_back and not memory.is_paused:
            # The budget is not full any more: nobody is going to call `_go_on`.
            self._go_on()
        else:
            self._adjust_reading(session)
        return memory

    def _go_on(self) -> None:
        """There is memory for what this connection has waited with."""
        session = self._session
        if session is not None:
            if session.is_held_back:
                session.is_held_back = False
                session.is_congested = self._is_unread
                self._hub.turns.add(self)
            self._adjust_reading(session)

    def _adjust_reading(self, session: Session) -> None:
        wants_more = (
            session.wants_more
            and not self._rests
            and len(self._put_off) <= READ_AHEAD
            and (self._memory is None or not self._memory.is_paused)
        )
        if wants_more is self._is_reading or self._transport.is_closing():
            return
        self._is_reading = wants_more
        if wants_more:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
