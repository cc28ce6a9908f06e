"""A connection's conversation, without any input or output of its own: bytes in, bytes out.

As in Kafka one request of a connection is in progress at a time: what comes behind it waits, so
answers leave in the order of the requests. What cannot be understood ends the connection, after
the requests before it have been answered; `ended` then says why.
"""

from collections import deque
from functools import partial
from time import perf_counter
from typing import Any, Final

from coordinator_server.api.registry import ROUTES, Route, route
from coordinator_server.net.asker import Asker
from coordinator_server.net.bugs import origin
from coordinator_server.net.call import SessionCall
from coordinator_server.net.context import SessionContext, Shell
from coordinator_server.net.familiar import Familiar
from coordinator_server.net.large import COUNTED_BODY, LARGE_BODY, decode_large, refuse_too_many
from coordinator_server.net.measuring import measure
from coordinator_server.net.outbox import Outbox
from coordinator_server.ports import ANONYMOUS, Caller, Principal
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode, Malformed
from protocol.frames import SIZE_BYTES, Frame, FrameError, FrameSplitter
from protocol.headers import read_intent

READ_AHEAD: Final = 65_536
"""Bytes that are taken from the network behind a request that is not answered yet."""

WRITE_AHEAD: Final = 262_144
"""Bytes of answers above which no further request is begun before they have been taken."""

MOST_AT_ONCE: Final = 64
"""Requests of a connection that are served before others have their turn."""

_seconds: Final = perf_counter  # not looked up every time, when compiled


class Session:
    """Serves the requests of one connection."""

    __slots__ = (
        "_asker",
        "_began",
        "_behind",
        "_broken",
        "_context",
        "_familiar",
        "_is_authenticated",
        "_is_draining",
        "_is_working",
        "_now_ms",
        "_out",
        "_served",
        "_services",
        "_shell",
        "_splitter",
        "_waiting",
        "current",
        "ended",
        "is_congested",
    )

    def __init__(
        self,
        context: SessionContext,
        shell: Shell,
        *,
        listener: str,
        host: str,
        principal: Principal | None,
    ) -> None:
        self.current: SessionCall | None = None
        """The request in progress."""
        self.ended: str | None = None
        """Why nothing more is served, in a word; what has been answered is still to be sent."""
        self.is_congested = False
        """Set while the client does not read: no request is begun then."""
        self._context = context
        self._services = context.services
        self._shell = shell
        self._splitter = FrameSplitter(context.services.config.socket_request_max_bytes)
        self._waiting: deque[Frame] = deque()
        self._behind = 0
        """Bytes that have come behind the request in progress."""
        self._broken: FrameError | None = None
        """What is wrong with the bytes behind those that wait."""
        self._out = Outbox()
        self._now_ms = 0
        self._began = 0.0
        self._served: list[int] = []
        """The API keys of what has been answered since then."""
        self._familiar: Familiar | None = None
        """Made with the first request that may come again."""
        self._is_working = False
        self._is_draining = False
        self._is_authenticated = principal is not None
        self._asker = Asker(Caller(principal or ANONYMOUS, host, "", listener))

    # --- for the connection ---

    def receive(self, data: bytes, now_ms: int) -> None:
        """Take a chunk of bytes that came at `now_ms`, and serve what can be served."""
        if self.ended or self._broken or self._is_draining:
            return
        self._context.counters.bytes_in += len(data)
        if self._is_at_rest and self._serve_later(data, 0, len(data), now_ms):
            return
        try:
            self._waiting.extend(self._splitter.feed(data))
        except FrameError as error:
            self._waiting.extend(error.frames)
            self._broken = error
        self._behind += len(data)
        self.proceed(now_ms)

    def repeat(self, data: bytes, now_ms: int) -> bytes | None:
        """The answers to a chunk of nothing but a request that has come before; counted as sent.

        None: `receive` it, nothing has happened.
        """
        familiar = self._familiar
        if familiar is None or familiar.repeat is None or not self._is_at_rest or self._out.size:
            return None
        return familiar.repeat.serve(data, now_ms, self._context.counters)

    def proceed(self, now_ms: int) -> None:
        """Serve requests until one parks, the client does not read, or enough have been served."""
        if self._is_working:
            return
        self._is_working = True
        self._now_ms = now_ms
        self._began = _seconds()
        waiting, left = self._waiting, MOST_AT_ONCE
        try:
            while (
                waiting
                and left
                and self.current is None
                and self._out.size < WRITE_AHEAD
                and not self.is_congested
            ):
                left -= 1
                buffer, start, end = waiting.popleft()
                self._serve(buffer, start, end)
        finally:
            self._is_working = False
        if self._served:
            measure(self._served, _seconds() - self._began, self._context.counters)
        if self.current is None and not waiting:
            self._behind = 0
            if self._broken is not None or self._is_draining:
                self._settle()

    def take(self) -> list[bytes]:
        """What is to be sent, in one piece unless it is much; it counts as sent from now on."""
        if not self._out.size:
            return []
        self._context.counters.bytes_out += self._out.size
        return self._out.take()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in progress, and nothing waits."""
        return self.current is None and not self._waiting

    @property
    def is_ready(self) -> bool:
        """Whether `proceed` would serve a request."""
        return bool(self._waiting) and self.current is None and not self.is_congested

    @property
    def wants_more(self) -> bool:
        """Whether the connection may go on reading."""
        is_behind = self.current is not None or bool(self._waiting)
        return not self.is_congested and not (is_behind and self._behind > READ_AHEAD)

    def drain(self) -> None:
        """Begin no further request: the session ends when the one in progress is answered."""
        self._is_draining = True
        self._waiting.clear()
        self._settle()

    def leave(self, shell: Shell) -> None:
        """The client has gone; `shell` is in the place of its connection from now on."""
        self._shell = shell
        self.is_congested = False

    def abandon(self) -> None:
        """Serve nothing more: what is still to be answered is answered to nobody."""
        self.ended = self.ended or "client_gone"
        self.current = None
        self._waiting.clear()
        self._out.take()

    # --- for calls ---

    def send(self, call: SessionCall, body: bytes, error: int) -> None:
        """Send the answer of the request in progress."""
        self._out.add(call.correlation_id, call.route.tags, body)
        self._answered(call, error)

    def send_parts(self, call: SessionCall, parts: list[bytes], error: int) -> None:
        """As `send`, of a body in parts."""
        self._out.add_parts(call.correlation_id, call.route.tags, parts)
        self._answered(call, error)

    def skip(self, call: SessionCall) -> None:
        """The request in progress gets no answer."""
        self._answered(call, ErrorCode.NONE)

    def failed(self, call: SessionCall, bug: BaseException) -> None:
        """A handler, or the encoding of its response, has raised."""
        self._context.report(
            "request_failed",
            api=call.route.api.key.name,
            version=call.version,
            client_id=call.caller.client_id,
            error=repr(bug),
            where=origin(bug),
        )
        if self.current is call:
            self._refuse(call, ErrorCode.UNKNOWN_SERVER_ERROR)

    def end(self, reason: str, detail: str) -> None:
        """Serve nothing more; `reason` is one of a closed set, `detail` for people."""
        if self.ended:
            return
        self.ended = reason
        self.current = None
        self._waiting.clear()
        self._context.report(
            "session_ended",
            reason=reason,
            detail=detail,
            host=self._asker.caller.host,
            client_id=self._asker.caller.client_id,
            listener=self._asker.caller.listener,
        )
        if not self._is_working:
            self._shell.wake()

    # --- one request ---

    @property
    def _is_at_rest(self) -> bool:
        """Whether a chunk begins with a request that may be served at once."""
        return not (
            self.current is not None
            or self._waiting
            or self.is_congested
            or self.ended
            or self._splitter.is_amid
        )

    def _serve(self, buffer: bytes, start: int, end: int) -> None:
        if self._serve_later(buffer, start - SIZE_BYTES, end, self._now_ms):
            return
        try:
            way = ROUTES.get(buffer[start : start + 4]) or self._way(buffer, start, end)
            if way is None:
                return
            body = self._asker.body_of(way, buffer, start, end)
            if not self._is_authenticated and not way.api.before_authentication:
                self._reject("unauthenticated", f"{way.api.key.name} before authentication")
                return
            correlation_id = buffer[start + 4 : start + 8]
            if end - body > LARGE_BODY:
                self.current = call = self._call(way, correlation_id, None)
                call.is_large = True
                self._shell.run(self._serve_large(call, way, buffer, body, end))
                return
            request = way.decode(buffer, body, end)
            if end - body > COUNTED_BODY:
                refuse_too_many(way, request)
        except Exception as error:  # noqa: BLE001 - a decoder's bug is no reason to stop serving
            self._undecodable(error)
            return
        self.current = call = self._call(way, correlation_id, request)
        if way.may_be_familiar and self._context.faults is None:
            if self._familiar is None:
                self._familiar = Familiar()
            self._familiar.note(call, self._services, buffer, start, end, body)
        self._handle(call, way)

    def _serve_later(self, buffer: bytes, begin: int, end: int, now_ms: int) -> bool:
        """Serve a frame, from its length on, that is a request known from before.

        False: it is none, or is not to be served like this; nothing has happened. One that came in
        pieces has its length elsewhere, and begins before the buffer.
        """
        familiar = self._familiar
        if begin < 0 or familiar is None or (later := familiar.later) is None:
            return False
        frame = buffer[begin:end]
        read = later.recognise(frame)
        if read is None:
            return False
        began, caller = _seconds(), self._asker.caller
        self.current = call = SessionCall(
            self, familiar.way, frame[8:12], caller, later.request, now_ms, began
        )
        try:
            if later.serve(call, read):
                familiar.recognised()
                return True
        except Exception as bug:  # noqa: BLE001 - whatever it is, only this request fails
            self.failed(call, bug)
            return True
        self.current = None
        return False

    async def _serve_large(
        self, call: SessionCall, way: Route, buffer: bytes, body: int, end: int
    ) -> None:
        try:
            request = await self._shell.aside(partial(decode_large, way, buffer, body, end))
        except Exception as error:  # noqa: BLE001 - a decoder's bug is no reason to stop serving
            if self.current is call:
                self._undecodable(error)
            return
        if self.current is call:
            call.request = request
            self._handle(call, way)

    def _undecodable(self, error: Exception) -> None:
        if isinstance(error, Malformed):
            self._reject("malformed", str(error))
        else:
            self._reject("undecodable", f"{error!r} at {origin(error)}")

    def _call(self, way: Route, correlation_id: bytes, request: Any) -> SessionCall:
        return SessionCall(
            self, way, correlation_id, self._asker.caller, request, self._now_ms, self._began
        )

    def _handle(self, call: SessionCall, way: Route) -> None:
        faults = self._context.faults
        if faults is not None:
            fault = faults.take(call)
            if isinstance(fault, ErrorCode):
                self._refuse(call, fault)
                return
            if fault is not None:
                self.current = call = call.late(fault)
        try:
            if way.is_async:
                self._shell.run(self._handle_async(call))
                return
            response = way.handle(call, call.request, self._services)
            if response is not None:
                call.answer(response)
        except Exception as bug:  # noqa: BLE001 - whatever it is, only this request fails
            self.failed(call, bug)

    async def _handle_async(self, call: SessionCall) -> None:
        try:
            response = await call.route.handle(call, call.request, self._services)
            # The answer to a large request is as large: it is encoded beside the loop, too.
            encode = partial(call.encoded, response)
            parts = await self._shell.aside(encode) if response and call.is_large else None
        except Exception as bug:  # noqa: BLE001 - whatever it is, only this request fails
            self.failed(call, bug)
            return
        if parts is not None:
            call.answer_parts(parts, getattr(response, "error_code", 0))
        elif response is not None:
            call.answer(response)

    def _way(self, buffer: bytes, start: int, end: int) -> Route | None:
        """The route of a request that has not been asked for before, if there is one.

        ApiVersions of a version too new is answered in version 0, all else ends the session.
        """
        api_key, version, _ = read_intent(buffer, start, end)
        way = route(api_key, version)
        if way is not None:
            return way
        plainest = route(ApiKey.API_VERSIONS, 0)
        if api_key == ApiKey.API_VERSIONS and plainest is not None:
            self.current = call = self._call(plainest, buffer[start + 4 : start + 8], None)
            self._refuse(call, ErrorCode.UNSUPPORTED_VERSION)
        else:
            self._reject("unsupported", f"there is no API {api_key} of version {version}")
        return None

    def _refuse(self, call: SessionCall, error: ErrorCode) -> None:
        """Answer with an error only; end the session where no answer is allowed, or that fails."""
        way = call.route
        try:
            response = way.refuse(call.request, error, call.version)
            if response is None:
                self.end("no_answer", f"{way.api.key.name}: {error.name}")
                return
            body = way.encode(response)
        except Exception as bug:  # noqa: BLE001 - nothing is left to be said
            self.end("unanswerable", f"{way.api.key.name}: {bug!r} at {origin(bug)}")
        else:
            self.send(call, body, error)

    def _reject(self, reason: str, detail: str) -> None:
        self._context.counters.frames_refused[reason] += 1
        self.end(reason, detail)

    def _answered(self, call: SessionCall, error: int) -> None:
        self.current = None
        counts = self._context.counters.apis[call.api_key]
        if error:
            counts.refused[error] += 1
        else:
            counts.accepted += 1
        if self._is_working:
            self._served.append(call.api_key)
        else:
            counts.seconds.observe(_seconds() - call.began)
            self._shell.wake()
            if self._is_draining or self._broken is not None:
                self._settle()

    def _settle(self) -> None:
        """End what was to end once nothing is in progress any more."""
        if self.current is not None or self._waiting or self.ended:
            return
        if self._is_draining:
            self.ended = "server_stopping"
        elif self._broken is not None:
            reason = "malformed" if self._broken.size < 0 else "too_large"
            self._reject(reason, str(self._broken))
