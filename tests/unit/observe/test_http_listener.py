"""Which HTTP connections stay when there are too many, and how long they may be silent."""

import asyncio
import socket
from contextlib import ExitStack, closing
from typing import Any

import pytest
from aiohttp import web

from coordinator_server.observe import http_events, http_listener
from coordinator_server.observe.http_events import EventRoutes
from coordinator_server.observe.http_listener import Connections, HttpListener
from coordinator_server.observe.sse import QUEUE_BYTES, EventStream, Subscriber

OK = b"HTTP/1.1 200 OK"
ASKED = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


class Caller:
    """A connection, on which one may ask."""

    def __init__(self, port: int, opened: ExitStack) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        opened.enter_context(closing(self.socket))

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def first_line(self) -> bytes:
        """Of an answer; nothing if the connection is closed."""
        try:
            return self.socket.recv(4_096).partition(b"\r\n")[0]
        except ConnectionError:
            return b""

    def ask(self) -> bytes:
        try:
            self.send(ASKED)
        except ConnectionError:
            return b""
        return self.first_line()


async def listening(*routes: web.RouteDef, most: int, report: Any = None) -> HttpListener:
    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), *routes])
    listener = HttpListener(app, "127.0.0.1", 0, max_connections=most, report=report)
    await listener.start()
    return listener


async def test_the_oldest_silent_connection_gives_way_to_a_new_one() -> None:
    reports: list[tuple[str, Any]] = []
    listener = await listening(most=2, report=lambda event, **f: reports.append((event, f)))

    def ask_in_turn() -> None:
        with ExitStack() as opened:
            first, second = Caller(listener.port, opened), Caller(listener.port, opened)
            assert first.ask() == OK
            second.send(b"GET /healthz HTTP/1.1\r\nHost: ")
            assert Caller(listener.port, opened).ask() == OK
            # The half-sent request went, not the one that has been served.
            assert second.first_line() == b""
            assert first.ask() == OK

    await asyncio.to_thread(ask_in_turn)
    told = {"host": "127.0.0.1", "limit": "http.max.connections", "count": 1}
    assert reports == [("http_connection_refused", told)]
    await listener.stop()


async def test_connections_that_ask_for_nothing_keep_nobody_out() -> None:
    listener = await listening(most=20)

    def ask_in_turn() -> None:
        with ExitStack() as opened:
            for _ in range(50):
                Caller(listener.port, opened).send(b"GET /healthz HTT")
            assert Caller(listener.port, opened).ask() == OK

    await asyncio.to_thread(ask_in_turn)
    await listener.stop()


async def test_answers_that_are_not_read_keep_nobody_out() -> None:
    begun = 0
    never = asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        nonlocal begun
        begun += 1
        await never.wait()
        return web.Response()

    listener = await listening(web.get("/slow", slow), most=5)

    def ask_in_turn() -> None:
        with ExitStack() as opened:
            for _ in range(9):
                Caller(listener.port, opened).send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            assert Caller(listener.port, opened).ask() == OK

    await asyncio.to_thread(ask_in_turn)
    assert begun >= 5
    never.set()
    await listener.stop()


async def test_streams_leave_room_for_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "MAX_CONNECTIONS", 8)
    routes = EventRoutes(EventStream(), max_connections=8).routes()
    listener = await listening(*routes, most=8)

    def ask_in_turn() -> list[bytes]:
        with ExitStack() as opened:
            callers = [Caller(listener.port, opened) for _ in range(8)]
            lines = []
            for caller in callers:
                caller.send(b"GET /api/events HTTP/1.1\r\nHost: x\r\n\r\n")
                lines.append(caller.first_line())
            assert Caller(listener.port, opened).ask() == OK
            return lines

    lines = await asyncio.to_thread(ask_in_turn)
    assert lines == [OK] * 4 + [b"HTTP/1.1 503 Service Unavailable"] * 4
    await listener.stop()


async def test_a_stream_that_is_not_read_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_events, "RETRY_MS", "1" * 30_000_000)
    routes = EventRoutes(EventStream(), patience=0.05)
    listener = await listening(*routes.routes(), most=8)
    with ExitStack() as opened:
        caller = await asyncio.to_thread(Caller, listener.port, opened)
        caller.send(b"GET /api/events HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(20):
            while not routes._streams:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.01)
            while routes._streams:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    await listener.stop()


class FakeProtocol:
    """A connection of aiohttp."""

    def __init__(self) -> None:
        self.transport: Any = self
        self._manager = self
        self.aborted = False

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return "10.0.0.1", 1


def test_a_client_has_some_seconds_for_its_first_request() -> None:
    connections = Connections(10, None)
    early, late = FakeProtocol(), FakeProtocol()
    connections.add(early, 0.0)
    connections.add(late, 5.0)
    connections.close_silent(http_listener.FIRST_REQUEST_SECONDS + 1)
    assert (early.aborted, late.aborted, len(connections)) == (True, False, 1)


@pytest.mark.interpreted
async def test_silent_connections_are_looked_for_again_after_a_look_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener = await listening(most=10)
    before = listener._sweeping

    def fail(_connections: Connections, _now: float) -> None:
        raise MemoryError("planted")

    with monkeypatch.context() as patched:
        patched.setattr(Connections, "close_silent", fail)
        with pytest.raises(MemoryError):
            listener._sweep()
    assert listener._sweeping is not before
    assert before is not None
    before.cancel()
    silent = FakeProtocol()
    long_ago = asyncio.get_running_loop().time() - http_listener.FIRST_REQUEST_SECONDS - 1
    listener._connections.add(silent, long_ago)
    listener._sweep()
    assert silent.aborted
    await listener.stop()


def test_closed_connections_are_reported_once_a_second_with_their_number() -> None:
    reports: list[Any] = []
    connections = Connections(1, lambda _event, **fields: reports.append(fields["count"]))
    for now in (0.0, 0.1, 0.2, 0.3, 2.0):
        assert connections.make_room(now)
        connections.add(FakeProtocol(), now)
    assert reports == [1, 3]


def test_events_of_one_client_take_so_many_bytes_at_most() -> None:
    subscriber = Subscriber(None)
    large = b"x" * (QUEUE_BYTES // 2)
    assert subscriber.put(large)
    assert subscriber.put(large)
    assert not subscriber.put(b"x")
    assert subscriber.overrun


async def test_events_that_were_read_make_room_for_others() -> None:
    subscriber = Subscriber(None)
    for _ in range(10):
        assert subscriber.put(b"x" * QUEUE_BYTES)
        assert await subscriber.next(1.0)
