"""Asks a server for a coordinator, over the Kafka protocol: healthy is who answers that.

Ready is whose nodes all list their groups too: no partition is being loaded any more. Version 0 of
these requests works without knowing anything of the server.
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
"""Of an answer, that are read: a list may be long, and how it begins is enough."""
PAUSE_SECONDS: Final = 0.1
"""Between two attempts."""
SHORTEST_SECONDS: Final = 0.05
"""For each step, however little time is left."""


T = TypeVar("T")


class Unhealthy(Exception):
    """No usable answer; the message says what came instead."""


def find_coordinator(host: str, port: int, timeout: float) -> str:
    """The `host:port` a server names as coordinator.

    Args:
        host: of the server.
        port: of the server.
        timeout: seconds for each step of the exchange.

    Raises:
        Unhealthy: if there is no answer, or another than a coordinator.
    """
    return _converse(host, port, timeout, _coordinator)


def wait_until_ready(host: str, port: int, timeout: float, seconds: float) -> str:
    """The same, as soon as the server has loaded its groups; with several nodes, all of them.

    Args:
        host: of the server.
        port: of the server.
        timeout: seconds for each step of an attempt.
        seconds: how long to try; what is under way then is cut off.

    Raises:
        Unhealthy: if it is not ready by then; the message says what it lacked at last.
    """
    deadline = time.monotonic() + seconds
    while True:
        step = max(min(timeout, deadline - time.monotonic()), SHORTEST_SECONDS)
        try:
            return _ready(host, port, step)
        except Unhealthy as error:
            if time.monotonic() + PAUSE_SECONDS > deadline:
                raise Unhealthy(f"not ready after {seconds:g} s: {error}") from None
        time.sleep(PAUSE_SECONDS)


def _converse(host: str, port: int, timeout: float, ask: "Callable[[socket.socket], T]") -> T:
    where = f"{host}:{port}"
    try:
        with socket.create_connection((host, port), timeout) as connection:
            return ask(connection)
    except Unhealthy as error:
        raise Unhealthy(f"{where}: {error}") from None
    except TimeoutError:
        raise Unhealthy(f"{where} does not answer within {timeout:g} s") from None
    except OSError as error:
        raise Unhealthy(f"{where}: {error.strerror or error}") from None
    except (struct.error, UnicodeDecodeError):
        raise Unhealthy(f"{where}: that is no answer of a Kafka server") from None


def _ready(host: str, port: int, timeout: float) -> str:
    coordinator = _converse(host, port, timeout, _coordinator)
    nodes = _converse(host, port, timeout, _nodes)
    # Who is alone may have another address for others than for us.
    for node in nodes if len(nodes) > 1 else [(host, port)]:
        _converse(*node, timeout, _list_groups)
    return coordinator


def _nodes(connection: socket.socket) -> list[tuple[str, int]]:
    """Metadata of version 0 begins with the brokers."""
    answer = _ask(connection, _METADATA, struct.pack(">i", 0))
    (count,), at = struct.unpack_from(">i", answer), 4
    nodes = []
    for _ in range(count):
        host, at = _read_text(answer, at + 4)
        nodes.append((host, *struct.unpack_from(">i", answer, at)))
        at += 4
    return nodes


def _list_groups(connection: socket.socket) -> None:
    (error,) = struct.unpack_from(">h", _ask(connection, _LIST_GROUPS, b""))
    if error:
        raise Unhealthy(f"ListGroups answers error {error}: groups are being loaded")


def _coordinator(connection: socket.socket) -> str:
    answer = _ask(connection, _FIND_COORDINATOR, _text(_GROUP))
    (error,) = struct.unpack_from(">h", answer)
    if error:
        raise Unhealthy(f"FindCoordinator answers error {error}: no coordinator available yet")
    host, at = _read_text(answer, 6)
    (port,) = struct.unpack_from(">i", answer, at)
    return f"{host}:{port}"


def _ask(connection: socket.socket, api_key: int, body: bytes) -> bytes:
    """The body of the answer; raises struct.error if it is another's."""
    head = struct.pack(">hhi", api_key, _VERSION, _CORRELATION_ID) + _text(_CLIENT_ID)
    connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    if not 0 <= size <= MAX_ANSWER_BYTES:
        raise Unhealthy(f"answers {size} bytes: that is no Kafka listener")
    answer = _exactly(connection, min(size, ENOUGH_BYTES))
    if struct.unpack_from(">i", answer) != (_CORRELATION_ID,):
        raise struct.error
    return answer[4:]


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _read_text(answer: bytes, at: int) -> tuple[str, int]:
    """A text, and where it ends."""
    (length,) = struct.unpack_from(">h", answer, at)
    end = at + 2 + length
    return answer[at + 2 : end].decode(), end


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise Unhealthy("the connection was closed instead of an answer")
        received += chunk
    return received
