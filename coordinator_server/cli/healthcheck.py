"""Checks over the Kafka protocol whether a server is healthy or ready.

A healthy server answers FindCoordinator. A server is ready when all its nodes also answer
ListGroups without an error, that is when no partition is loading. The requests have version 0,
which needs no ApiVersions request.
"""

import socket
import struct
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_METADATA, _FIND_COORDINATOR, _LIST_GROUPS = 3, 10, 16
_VERSION, _CORRELATION_ID = 0, 1
_CLIENT_ID = "healthcheck"
_GROUP = "coordinator-healthcheck"
MAX_ANSWER_BYTES: Final = 1 << 28
ENOUGH_BYTES: Final = 1 << 16
"""Bytes read of a response: the beginning of a long list is sufficient."""
PAUSE_SECONDS: Final = 0.1
"""Pause between two attempts."""
SHORTEST_SECONDS: Final = 0.05
"""Minimum timeout of a step."""


T = TypeVar("T")


class Unhealthy(Exception):
    """The server did not give a usable response; the message says what happened instead."""


def find_coordinator(host: str, port: int, timeout: float) -> str:
    """The `host:port` a server names as coordinator.

    Args:
        host: of the server.
        port: of the server.
        timeout: seconds for each step of the exchange.

    Raises:
        Unhealthy: if there is no response, or one without a coordinator.
    """
    return _with_connection(host, port, timeout, _coordinator)


def wait_until_ready(host: str, port: int, timeout: float, seconds: float) -> str:
    """Wait until all nodes have loaded their groups; return the coordinator's `host:port`.

    Args:
        host: of the server.
        port: of the server.
        timeout: seconds for each step of an attempt.
        seconds: how long to try; this also limits the last attempt.

    Raises:
        Unhealthy: if it is not ready by then; the message has the last reason.
    """
    deadline = time.monotonic() + seconds
    while True:
        step = max(min(timeout, deadline - time.monotonic()), SHORTEST_SECONDS)
        try:
            return _ready(host, port, step)
        except Unhealthy as error:
            if time.monotonic() + PAUSE_SECONDS > deadline:
                raise Unhealthy(f"the server was not ready within {seconds:g} s: {error}") from None
        time.sleep(PAUSE_SECONDS)


def _with_connection(
    host: str, port: int, timeout: float, use: "Callable[[socket.socket], T]"
) -> T:
    where = f"{host}:{port}"
    try:
        with socket.create_connection((host, port), timeout) as connection:
            return use(connection)
    except Unhealthy as error:
        raise Unhealthy(f"{where}: {error}") from None
    except TimeoutError:
        raise Unhealthy(f"{where} did not answer within {timeout:g} s") from None
    except OSError as error:
        raise Unhealthy(f"{where}: {error.strerror or error}") from None
    except (struct.error, UnicodeDecodeError):
        raise Unhealthy(f"{where} sent something that is not a Kafka response") from None


def _ready(host: str, port: int, timeout: float) -> str:
    coordinator = _with_connection(host, port, timeout, _coordinator)
    nodes = _with_connection(host, port, timeout, _nodes)
    # A single node may advertise an address that is not reachable from here.
    for node in nodes if len(nodes) > 1 else [(host, port)]:
        _with_connection(*node, timeout, _list_groups)
    return coordinator


def _nodes(connection: socket.socket) -> list[tuple[str, int]]:
    """The brokers, with which a Metadata response of version 0 begins."""
    answer = _request(connection, _METADATA, struct.pack(">i", 0))
    (count,), at = struct.unpack_from(">i", answer), 4
    nodes = []
    for _ in range(count):
        host, at = _read_text(answer, at + 4)
        nodes.append((host, *struct.unpack_from(">i", answer, at)))
        at += 4
    return nodes


def _list_groups(connection: socket.socket) -> None:
    (error,) = struct.unpack_from(">h", _request(connection, _LIST_GROUPS, b""))
    if error:
        raise Unhealthy(
            f"ListGroups was answered with error {error}: the server is still loading groups"
        )


def _coordinator(connection: socket.socket) -> str:
    answer = _request(connection, _FIND_COORDINATOR, _text(_GROUP))
    (error,) = struct.unpack_from(">h", answer)
    if error:
        raise Unhealthy(
            f"FindCoordinator was answered with error {error}: no coordinator is available yet"
        )
    host, at = _read_text(answer, 6)
    (port,) = struct.unpack_from(">i", answer, at)
    return f"{host}:{port}"


def _request(connection: socket.socket, api_key: int, body: bytes) -> bytes:
    """The body of the response; raises struct.error if the correlation id differs."""
    head = struct.pack(">hhi", api_key, _VERSION, _CORRELATION_ID) + _text(_CLIENT_ID)
    connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    if not 0 <= size <= MAX_ANSWER_BYTES:
        raise Unhealthy(f"the response has {size} bytes, so this is not a Kafka listener")
    answer = _exactly(connection, min(size, ENOUGH_BYTES))
    if struct.unpack_from(">i", answer) != (_CORRELATION_ID,):
        raise struct.error
    return answer[4:]


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _read_text(answer: bytes, at: int) -> tuple[str, int]:
    """A string and the position after it."""
    (length,) = struct.unpack_from(">h", answer, at)
    end = at + 2 + length
    return answer[at + 2 : end].decode(), end


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise Unhealthy("the server closed the connection instead of answering")
        received += chunk
    return received
