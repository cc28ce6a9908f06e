"""A connection's conversation, without any input or output of its own: bytes in, bytes out.

As in Kafka one request of a connection is in progress at a time: what comes behind it waits, so
answers leave in the order of the requests. What cannot be understood ends the connection, after
the requests before it have been answered; `ended` then says why.
"""

from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from struct import Struct
from time import perf_counter
from typing import Any, Final

from coordinator_server.api.registry import ROUTES, Again, Later, Route, route
from coordinator_server.net.call import SessionCall
from coordinator_server.net.context import SessionContext, Shell
from coordinator_server.net.large import LARGE_BODY, decode_large
from coordinator_server.net.repeat import Repeat
from coordinator_server.ports import ANONYMOUS, Caller, Principal
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode, Malformed
from protocol.frames import Frame, FrameError, FrameSplitter
from protocol.headers import read_intent, read_request_header

READ_AHEAD: Final = 65_536
"""Bytes that are taken from the network behind a request that is not answered yet."""

WRITE_AHEAD: Final = 262_144
"""Bytes of answers above which no further request is begun before they have been taken."""

LONGEST_REPEATED: Final = 16_384
"""Bytes of a request that is remembered, lest it come again."""

_pack_size = Struct(">i").pack
_LAYOUTS: Final = 8
"""How often a connection's requests are laid out for nothing."""


class Session:
    """Serves the requests of one connection."""

    __slots__ = (
        "_began",
        "_behind",
        "_broken",
        "_caller",
        "_clients",
        "_context",
        "_is_authenticated",
        "_is_draining",
        "_is_working",
        "_later",
        "_later_length",
        "_later_way",
        "_layouts_left",
        "_now_ms",
        "_out",
        "_out_bytes",
        "_repeat",
        "_seen",
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
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._now_ms = 0
        self._began = 0.0
        self._served: list[int] = []
        """The API keys of what has been answered since then."""
        self._repeat: Repeat | None = None
        self._seen = 0
        """Hash of the last request that may be repeated, but for its correlation id."""
        self._later: Later | None = None
        self._later_way: Route
        """Of what `_later` serves."""
        self._later_length = 0
        """Of the latest request that might be worth recognising."""
        self._layouts_left = _LAYOUTS
        self._is_working = False
        self._is_draining = False
        self._clients: dict[bool, bytes] = {}
        """The bytes between correlation id and body that `_caller.client_id` was read from.

        By whether the version is flexible: then there are tagged fields among them.
        """
        self._is_authenticated = principal is not None
        self._caller = Caller(principal or ANONYMOUS, host, "", listener)

    # --- for the connection ---

    def receive(self, data: bytes, now_ms: int) -> None:
        """Take a chunk of bytes that came at `now_ms`, and serve what can be served."""
        if self.ended or self._broken or self._is_draining:
            return
        self._context.counters.bytes_in += len(data)
        if self._later is not None and self._serve_later(self._later, data, now_ms):
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
        repeat = self._repeat
        if (
            repeat is None
            or self.current is not None
            or self._waiting
            or self._out
            or self.is_congested
            or self.ended
            or self._splitter.is_amid
        ):
            return None
        began = perf_counter()
        served = repeat.serve(data, now_ms)
        if served is None:
            return None
        answers, times = served
        counters = self._context.counters
        counters.bytes_in += len(data)
        counters.bytes_out += len(answers)
        counters.requests[repeat.counted] += times
        share = (perf_counter() - began) / times
        counters.request_seconds[repeat.api_key].observe(share, times)
        return answers

    def proceed(self, now_ms: int) -> None:
        """Serve requests until one parks, the client does not read, or none is left."""
        if self._is_working:
            return
        self._is_working = True
        self._now_ms = now_ms
        self._began = perf_counter()
        waiting = self._waiting
        try:
            while (
                waiting
                and self.current is None
                and self._out_bytes < WRITE_AHEAD
                and not self.is_congested
            ):
                self._serve(*waiting.popleft())
        finally:
            self._is_working = False
        if self._served:
            self._measure()
        if self.current is None and not waiting:
            self._behind = 0
            if self._broken is not None or self._is_draining:
                self._settle()

    def take(self) -> bytes:
        """What is to be sent; it counts as sent from now on."""
        out = self._out
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        self._out_bytes = 0
        self._context.counters.bytes_out += len(data)
        return data

    @property
    def is_ready(self) -> bool:
        """Whether `proceed` would serve a request."""
        return bool(self._waiting) and self.current is None and not self.is_congested

    @property
    def wants_more(self) -> bool:
        """Whether the connection may go on reading."""
        return not self.is_congested and (self.current is None or self._behind <= READ_AHEAD)

    def drain(self) -> None:
        """Begin no further request: the session ends when the one in progress is answered."""
        self._is_draining = True
        self._waiting.clear()
        self._settle()

    def abandon(self) -> None:
        """The client has gone: what is still to be answered is answered to nobody."""
        self.ended = self.ended or "client_gone"
        self.current = None
        self._waiting.clear()
        self._out.clear()

    # --- for calls ---

    def send(self, call: SessionCall, body: bytes, error: int) -> None:
        """Send the answer of the request in progress."""
        tags = call.route.tags
        answer = _pack_size(4 + len(tags) + len(body)) + call.correlation_id + tags + body
        self._out.append(answer)
        self._out_bytes += len(answer)
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
            where=_origin(bug),
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
            host=self._caller.host,
            client_id=self._caller.client_id,
            listener=self._caller.listener,
        )
        if not self._is_working:
            self._shell.wake()

    # --- one request ---

    def _serve(self, buffer: bytes, start: int, end: int) -> None:
        try:
            way = ROUTES.get(buffer[start : start + 4]) or self._way(buffer, start, end)
            if way is None:
                return
            client = self._clients.get(way.is_flexible)
            if client is not None and buffer.startswith(client, start + 8, end):
                body = start + 8 + len(client)
            else:
                body = self._identify(way, buffer, start, end)
            if not self._is_authenticated and not way.api.before_authentication:
                self._reject("unauthenticated", f"{way.api.key.name} before authentication")
                return
            correlation_id = buffer[start + 4 : start + 8]
            if end - body > LARGE_BODY:
                self.current = call = self._call(way, correlation_id, None)
                self._shell.run(self._serve_large(call, way, buffer, body, end))
                return
            request = way.decode(buffer, body, end)
        except Exception as error:  # noqa: BLE001 - a decoder's bug is no reason to stop serving
            self._undecodable(error)
            return
        self.current = call = self._call(way, correlation_id, request)
        if way.again is not None:
            self._remember(call, way.again, buffer, start, end)
        if way.later is not None and self._context.faults is None:
            self._lay_out(call, way, buffer[start:end], body - start)
        self._handle(call, way)

    def _serve_later(self, later: Later, chunk: bytes, now_ms: int) -> bool:
        """Serve a chunk that is a request known from before; False: nothing has happened."""
        if (
            self.current is not None
            or self._waiting
            or self.is_congested
            or self._splitter.is_amid
            or (read := later.recognise(chunk)) is None
        ):
            return False
        self._now_ms, self._began = now_ms, perf_counter()
        self.current = call = self._call(self._later_way, chunk[8:12], later.request)
        try:
            if later.serve(call, read):
                self._layouts_left = _LAYOUTS
                return True
        except Exception as bug:  # noqa: BLE001 - whatever it is, only this request fails
            self.failed(call, bug)
            return True
        self.current = None
        return False

    def _lay_out(self, call: SessionCall, way: Route, frame: bytes, body: int) -> None:
        """Recognise a request the next time, if one as long as it has come before.

        Where nothing ever comes again, that is given up.
        """
        if len(frame) != self._later_length:
            self._later_length = len(frame)
            return
        if way.later is None or not self._layouts_left:
            return
        self._layouts_left -= 1
        with suppress(ValueError):
            self._later = way.later(call, call.request, self._services, frame, body)
            self._later_way = way

    def _remember(
        self,
        call: SessionCall,
        make: Callable[..., Again | None],
        buffer: bytes,
        start: int,
        end: int,
    ) -> None:
        """Be ready for what has now come twice."""
        seen, self._seen = self._seen, hash(buffer[start + 8 : end])
        if seen != self._seen or end - start > LONGEST_REPEATED or self._context.faults is not None:
            return
        if self._repeat is None or not self._repeat.holds(buffer, start, end):
            again = make(call, call.request, self._services)
            if again is not None:
                self._repeat = Repeat(call.route, again, buffer, start, end)

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
            self._reject("undecodable", f"{error!r} at {_origin(error)}")

    def _call(self, way: Route, correlation_id: bytes, request: Any) -> SessionCall:
        return SessionCall(
            self, way, correlation_id, self._caller, request, self._now_ms, self._began
        )

    def _handle(self, call: SessionCall, way: Route) -> None:
        faults = self._context.faults
        if faults is not None:
            error = faults.take(call.api_key)
            if error is not None:
                self._refuse(call, error)
                return
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
        except Exception as bug:  # noqa: BLE001 - whatever it is, only this request fails
            self.failed(call, bug)
            return
        if response is not None:
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
            self.end("unanswerable", f"{way.api.key.name}: {bug!r} at {_origin(bug)}")
        else:
            self.send(call, body, error)

    def _identify(self, way: Route, buffer: bytes, start: int, end: int) -> int:
        """Note who the client says it is; where the body of its request begins."""
        header, body = read_request_header(buffer, start, end)
        known = self._caller
        self._clients[way.is_flexible] = buffer[start + 8 : body]
        if header.client_id != known.client_id:
            self._caller = Caller(known.principal, known.host, header.client_id, known.listener)
            self._clients = {way.is_flexible: self._clients[way.is_flexible]}
        return body

    def _reject(self, reason: str, detail: str) -> None:
        self._context.counters.frames_refused[reason] += 1
        self.end(reason, detail)

    def _answered(self, call: SessionCall, error: int) -> None:
        self.current = None
        counters = self._context.counters
        counters.requests[call.api_key, error] += 1
        if self._is_working:
            self._served.append(call.api_key)
        else:
            counters.request_seconds[call.api_key].observe(perf_counter() - call.began)
            self._shell.wake()
            self._settle()

    def _measure(self) -> None:
        """Requests of one chunk are measured together: each has taken its share of the time."""
        served = self._served
        share = (perf_counter() - self._began) / len(served)
        seconds = self._context.counters.request_seconds
        if len(served) == 1:
            seconds[served[0]].observe(share)
        else:
            for api_key, times in Counter(served).items():
                seconds[api_key].observe(share, times)
        served.clear()

    def _settle(self) -> None:
        """End what was to end once nothing is in progress any more."""
        if self.current is not None or self._waiting or self.ended:
            return
        if self._is_draining:
            self.ended = "server_stopping"
        elif self._broken is not None:
            reason = "malformed" if self._broken.size < 0 else "too_large"
            self._reject(reason, str(self._broken))


def _origin(bug: BaseException) -> str:
    """Where it was raised, in a word: a log has one line per event."""
    trace = bug.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
