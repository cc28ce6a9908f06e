"""A connection's conversation, without any input or output of its own: bytes in, bytes out.

As in Kafka one request of a connection is in progress at a time, so responses leave in the order of
the requests. An unreadable request ends the connection behind them; `ended` then says why.
"""

from asyncio import CancelledError
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode, Malformed, TooManyElements
from coordinator_protocol.frames import SIZE_BYTES
from coordinator_protocol.headers import read_intent
from coordinator_server.api.registry import ROUTES, Route, find_route
from coordinator_server.loop.task_keeper import origin
from coordinator_server.net.body_limits import (
    COUNTED_BODY,
    LARGE_BODY,
    LARGE_RESPONSES,
    REFUSED_AS_A_WHOLE,
    SLICES_AT_ONCE,
    LargeDecoding,
    exceeded_limit,
    size_limit_named,
)
from coordinator_server.net.commit_recognizer import CommitRecognizer
from coordinator_server.net.context import SessionContext, SessionTransport
from coordinator_server.net.express import serve_express
from coordinator_server.net.request_buffer import RequestBuffer
from coordinator_server.net.request_header import HeaderReader
from coordinator_server.net.request_lines import report_broken, report_failed, report_too_large
from coordinator_server.net.request_timing import measure
from coordinator_server.net.response_queue import ResponseQueue
from coordinator_server.net.session_call import SessionCall
from coordinator_server.net.slow_requests import decode_large, handle_async, refuse_large, start
from coordinator_server.ports import ANONYMOUS, Caller, Principal

WRITE_AHEAD: Final = 262_144
"""Bytes of answers above which no further request is begun before they have been taken."""

MOST_AT_ONCE: Final = 64
"""Requests of a connection that are served before others have their turn."""

_seconds: Final = perf_counter  # not looked up every time, when compiled


class Session(RequestBuffer):
    """Serves the requests of one connection."""

    __slots__ = (
        "_began",
        "_context",
        "_familiar",
        "_header",
        "_is_authenticated",
        "_is_draining",
        "_is_working",
        "_memory",
        "_now_ms",
        "_out",
        "_served",
        "_services",
        "_shell",
    )

    def __init__(
        self,
        context: SessionContext,
        shell: SessionTransport,
        *,
        listener: str,
        host: str,
        principal: Principal | None,
    ) -> None:
        limit = min(context.services.config.socket_request_max_bytes, context.memory.limit)
        super().__init__(limit)
        self._context = context
        self._services = context.services
        self._shell = shell
        self._memory = context.memory
        self._out = ResponseQueue()
        self._now_ms = 0
        self._began = 0.0
        self._served: list[int] = []
        """The API keys of what has been answered since then."""
        self._familiar: CommitRecognizer | None = None
        """Made with the first request that may come again."""
        self._is_working = False
        self._is_draining = False
        self._is_authenticated = principal is not None
        self._header = HeaderReader(Caller(principal or ANONYMOUS, host, "", listener))

    # --- for the connection ---

    def receive(self, data: bytes, now_ms: int) -> None:
        """Take a chunk of bytes that came at `now_ms`, and serve its requests."""
        if self.ended or self._broken or self._is_draining:
            return
        self._context.counters.bytes_in += len(data)
        if self._is_at_rest and self._serve_later(data, 0, len(data), now_ms):
            return
        self._feed(data)
        self.proceed(now_ms)

    def express(self, data: bytes, now_ms: int) -> tuple[bytes, int]:
        """Serve requests at the start of a chunk from their bytes alone; see serve_express.

        The rest of the chunk is left to `receive`.
        """
        is_usual = self._is_authenticated and self._context.faults is None
        if not is_usual or not self._is_at_rest or self._out.size:
            return b"", 0
        return serve_express(data, self._header, self._services, now_ms, self._context.counters)

    def proceed(self, now_ms: int, most: int = MOST_AT_ONCE) -> None:
        """Serve requests until one parks, the client does not read, or `most` have been served."""
        if self._is_working:
            return
        self._is_working = True
        self._now_ms = now_ms
        self._began = _seconds()
        waiting, left = self._waiting, most
        try:
            if not waiting and self._unsplit:
                self._split()
            while (
                waiting
                and left
                and self.current is None
                and self._out.size < WRITE_AHEAD
                and not self.is_congested
            ):
                left -= 1
                buffer, start, end = waiting.popleft()
                if not waiting and self._unsplit:
                    self._split()
                self._behind -= end - start + SIZE_BYTES
                self._serve(buffer, start, end)
        finally:
            self._is_working = False
        if self._served:
            measure(self._served, _seconds() - self._began, self._context.counters)
        if (self._broken is not None or self._is_draining) and self.current is None and not waiting:
            self._settle()

    def take(self) -> list[bytes]:
        """The responses to be sent, in one piece unless they are large; they count as sent."""
        if not self._out.size:
            return []
        self._context.counters.bytes_out += self._out.size
        return self._out.take()

    def drain(self) -> None:
        """Begin no further request: the session ends when the one in progress is answered."""
        self._is_draining = True
        self._drop_waiting()
        self._settle()

    def leave(self, shell: SessionTransport, rest: bytes, api_keys: frozenset[bytes]) -> None:
        """The client has gone; `shell` is in the place of its connection from now on.

        Of the requests that wait only those of these API keys, as they are in a frame, remain;
        `rest` are bytes that were still to be received.
        """
        self._shell = shell
        self.is_congested = self.is_held_back = False
        if rest and not (self.ended or self._broken or self._is_draining):
            self._feed(rest)
        self._keep_only(api_keys)

    def drop_current(self) -> None:
        """Answer the request in progress to nobody."""
        self.current = None
        self._held = self._building = 0

    def report_failure(self, error: BaseException) -> None:
        """Write to the log that serving this session has raised."""
        report_broken(self._context.lines, self._header.caller, error)

    def abandon(self) -> None:
        """Serve nothing more: what is still to be answered is answered to nobody."""
        self.ended = self.ended or "client_gone"
        self.current = None
        self._held = self._behind = self._building = 0
        self._drop_waiting()
        self._out.take()
        # The session and its shell refer to each other, and the collector may come much later.
        self._splitter.drop()

    # --- for calls ---

    def send(self, call: SessionCall, body: bytes, error: int) -> None:
        """Send the answer of the request in progress."""
        self._out.add(call.correlation_id, call.route.tags, body)
        self._answered(call, error)

    def send_parts(self, call: SessionCall, parts: list[bytes], error: int) -> None:
        """As `send`, of a body in parts."""
        self._out.add_parts(call.correlation_id, call.route.tags, parts)
        self._answered(call, error)

    def may_grow(self, call: SessionCall, size: int, go_on: Callable[[], None]) -> bool:
        """See api.call.Call.may_grow."""
        if self.current is not call:
            return False
        # Nothing of it is left: it is begun anew later, and others may build theirs meanwhile.
        is_given_up = self._building and not size
        self._building = 0 if is_given_up else max(size, 1)
        return self._shell.may_build(size, go_on)

    def skip(self, call: SessionCall) -> None:
        """The request in progress gets no answer."""
        self._answered(call, ErrorCode.NONE)

    def failed(self, call: SessionCall, bug: BaseException) -> None:
        """A handler, or the encoding of its response, has raised: answer, then report it."""
        if self.current is call:
            self._refuse(call, ErrorCode.UNKNOWN_SERVER_ERROR)
        report_failed(self._context.lines, call, bug)

    def end(self, reason: str, detail: str) -> None:
        """Serve nothing more; `reason` is one of a closed set, `detail` for people."""
        if self.ended:
            return
        self.ended = reason
        self.current = None
        self._held = self._behind = self._building = 0
        self._drop_waiting()
        self._splitter.drop()
        if not self._is_working:
            self._shell.wake()
        self._context.lines.report(
            "session_ended",
            reason,
            self._header.caller.host,
            reason=reason,
            detail=detail,
            client_id=self._header.caller.client_id,
            listener=self._header.caller.listener,
        )

    # --- one request ---

    def _serve(self, buffer: bytes, start: int, end: int) -> None:
        if self._serve_later(buffer, start - SIZE_BYTES, end, self._now_ms):
            return
        try:
            route = ROUTES.get(buffer[start : start + 4]) or self._find_route(buffer, start, end)
            if route is None:
                return
            body = self._header.body_of(route, buffer, start, end)
            if self._memory.is_full and route.api_key in LARGE_RESPONSES:
                self._waiting.appendleft((buffer, start, end))
                self._behind += end - start + SIZE_BYTES
                self.is_congested = self.is_held_back = True
                return
            if not self._is_authenticated and not route.api.before_authentication:
                self._reject("unauthenticated", f"{route.api.key.name} before authentication")
                return
            correlation_id = buffer[start + 4 : start + 8]
            if end - body > COUNTED_BODY:
                self._serve_counted(route, correlation_id, buffer, body, end)
                return
            request = route.decode(buffer, body, end)
        except Exception as error:  # noqa: BLE001 - a decoder's bug is no reason to stop serving
            self.undecodable(error)
            return
        self.current = call = self._call(route, correlation_id, request)
        if route.later is not None and self._context.faults is None:
            if self._familiar is None:
                self._familiar = CommitRecognizer()
            self._familiar.note(call, self._services, buffer, start, end, body)
        self._handle(call, route)

    def _serve_later(self, buffer: bytes, begin: int, end: int, now_ms: int) -> bool:
        """Serve a frame, from its length on, that is a request known from before.

        False: it is none, or is not to be served like this; nothing has happened. One that came in
        pieces has its length elsewhere, and begins before the buffer.
        """
        recognizer = self._familiar
        if begin < 0 or recognizer is None or (later := recognizer.later) is None:
            return False
        frame = buffer[begin:end]
        read = later.recognise(frame)
        if read is None:
            return False
        began, caller = _seconds(), self._header.caller
        self.current = call = SessionCall(
            self, recognizer.route, frame[8:12], caller, later.request, now_ms, began
        )
        try:
            if later.serve(call, read):
                recognizer.recognised()
                return True
        except (Exception, CancelledError) as bug:  # noqa: BLE001 - only this request fails
            self.failed(call, bug)
            return True
        self.current = None
        return False

    def _serve_counted(
        self, route: Route, correlation_id: bytes, buffer: bytes, body: int, end: int
    ) -> None:
        """Serve a request that may hold many elements: at once if it does not. Raises Malformed."""
        self.current = call = self._call(route, correlation_id, None)
        if limit := exceeded_limit(route, end - body, self._services.config):
            self._refuse(call, ErrorCode.INVALID_REQUEST)
            report_too_large(self._context.lines, call, limit, bytes=end - body)
            return
        call.is_large = end - body > LARGE_BODY
        decoding = LargeDecoding(route, buffer, body, end)
        self._held = decoding.object_bytes
        if decoding.step(SLICES_AT_ONCE):
            self.decoded(call, decoding)
        else:
            start(self._shell, decode_large(self, self._shell, call, decoding))

    def decoded(self, call: SessionCall, decoding: LargeDecoding) -> None:
        """Serve a large request, which is complete now, or refuse it."""
        call.request = decoding.request
        self._held = decoding.object_bytes
        if decoding.excess:
            # As in Kafka, where the records of such a commit are more than the log takes.
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            start(self._shell, refuse_large(self, self._shell, call, error))
            report_too_large(self._context.lines, call, decoding.excess)
        else:
            self._handle(call, call.route)

    def undecodable(self, error: BaseException) -> None:
        """Refuse a request that holds too much, if its API can; else end the session."""
        call = self.current
        if call and isinstance(error, TooManyElements) and call.api_key in REFUSED_AS_A_WHOLE:
            self._refuse(call, ErrorCode.INVALID_REQUEST)
            report_too_large(self._context.lines, call, str(error))
        elif isinstance(error, Malformed):
            self._reject("malformed", str(error))
        else:
            self._reject("undecodable", f"{error!r} at {origin(error)}")

    def _call(self, route: Route, correlation_id: bytes, request: Any) -> SessionCall:
        return SessionCall(
            self, route, correlation_id, self._header.caller, request, self._now_ms, self._began
        )

    def _handle(self, call: SessionCall, route: Route) -> None:
        faults = self._context.faults
        if faults is not None:
            fault = faults.take(call)
            if isinstance(fault, ErrorCode):
                self._refuse(call, fault)
                return
            if fault is not None:
                self.current = call = call.late(fault)
        try:
            if route.is_async:
                start(self._shell, handle_async(self, self._shell, call, self._services))
                return
            response = route.handle(call, call.request, self._services)
            if response is not None:
                call.answer(response)
        except (Exception, CancelledError) as bug:  # noqa: BLE001 - only this request fails
            self.failed(call, bug)

    def _find_route(self, buffer: bytes, start: int, end: int) -> Route | None:
        """The route of a request that has not been asked for before, if there is one.

        ApiVersions of a version too new is answered in version 0, all else ends the session.
        """
        api_key, version, _ = read_intent(buffer, start, end)
        route = find_route(api_key, version)
        if route is not None:
            return route
        plainest = find_route(ApiKey.API_VERSIONS, 0)
        if api_key == ApiKey.API_VERSIONS and plainest is not None:
            self.current = call = self._call(plainest, buffer[start + 4 : start + 8], None)
            self._refuse(call, ErrorCode.UNSUPPORTED_VERSION)
        else:
            self._reject("unsupported", f"there is no API {api_key} of version {version}")
        return None

    def _refuse(self, call: SessionCall, error: ErrorCode) -> None:
        """Answer with an error only; end the session where no answer is allowed, or that fails."""
        route = call.route
        try:
            response = route.refuse(call.request, error, call.version)
            if response is None:
                self.end("no_answer", f"{route.api.key.name}: {error.name}")
                return
            body = route.encode(response)
        except (Exception, CancelledError) as bug:  # noqa: BLE001 - nothing is left to be said
            self.end("unanswerable", f"{route.api.key.name}: {bug!r} at {origin(bug)}")
        else:
            self.send(call, body, error)

    def _reject(self, reason: str, detail: str) -> None:
        self._context.counters.frames_refused[reason] += 1
        self.end(reason, detail)

    def _answered(self, call: SessionCall, error: int) -> None:
        self.current = None
        self._held = self._building = 0
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
            self._reject(
                reason,
                f"{self._broken}{size_limit_named(self._services.config, self._memory.limit)}",
            )
