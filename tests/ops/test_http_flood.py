"""Bad HTTP clients keep nobody from asking whether the server is alive."""

import http.client
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.support.server import ServerProcess

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-"
STREAM = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def get(port: int, path: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


def await_ready(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(ConnectionError):
            if get(port, "/readyz") == 200:
                return
        time.sleep(0.1)
    raise TimeoutError


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_half_sent_requests_and_streams_that_nobody_reads(tmp_path: Path, workers: str) -> None:
    with ServerProcess(tmp_path, {"workers": workers}) as server, ExitStack() as opened:
        await_ready(server.http_port)
        for first in [HALF] * 500 + [STREAM] * 500:
            client = socket.create_connection(("127.0.0.1", server.http_port), 10)
            opened.enter_context(closing(client))
            client.sendall(first)
        assert get(server.http_port, "/healthz") == 200
        assert get(server.http_port, "/readyz") == 200
        assert get(server.http_port, "/metrics") == 200
        assert server.terminate() == 0
        # A line a second, not a line for each.
        lines = server.log.read_text().count("http_connection_refused")
    assert 0 < lines < 60
