"""How many HTTP connections are let in."""

import asyncio
import socket
import time
from contextlib import ExitStack
from typing import Any

from aiohttp import web

from coordinator_server.observe.http_listener import HttpListener

OK = b"HTTP/1.1 200 OK"
ASKED = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


async def healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


class Caller:
    """A connection, on which one may ask."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 10)

    def ask(self) -> bytes:
        """The first line of an answer; nothing if the connection is closed."""
        try:
            self.socket.sendall(ASKED)
            return self.socket.recv(4_096).partition(b"\r\n")[0]
        except ConnectionError:
            return b""


async def test_a_connection_too_many_is_closed_and_told_of_and_the_others_are_served() -> None:
    reports: list[tuple[str, Any]] = []
    app = web.Application()
    app.add_routes([web.get("/healthz", healthz)])
    listener = HttpListener(
        app, "127.0.0.1", 0, max_connections=2, report=lambda event, **f: reports.append((event, f))
    )
    await listener.start()

    def ask_in_turn() -> None:
        with ExitStack() as opened:

            def call() -> Caller:
                caller = Caller(listener.port)
                opened.enter_context(caller.socket)
                return caller

            let_in = [call(), call()]
            assert [caller.ask() for caller in let_in] == [OK, OK]
            assert call().ask() == b""
            assert [caller.ask() for caller in let_in] == [OK, OK]
            let_in[0].socket.close()
            deadline = time.monotonic() + 10
            while not call().ask():
                assert time.monotonic() < deadline

    await asyncio.to_thread(ask_in_turn)
    told = {"host": "127.0.0.1", "limit": "http.max.connections"}
    assert reports[0] == ("http_connection_refused", told)
    await listener.stop()
