"""Asks a server for a coordinator, over the Kafka protocol: healthy is who answers that.

Ready is who lists its groups too: none of its partitions is being loaded any more. Version 0 of
both requests works without knowing anything of the server.
"""

import socket
import struct
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_FIND_COORDINATOR, _LIST_GROUPS, _VERSION, _CORRELATION_ID = 10, 16, 0, 1
_CLIENT_ID = "healthcheck"
_GROUP = "coordinator-healthcheck"
MAX_ANSWER_BYTES: Final = 1 << 28
ENOUGH_BYTES: Final = 1 << 16
"""Of an answer, that are read: a list of groups may be long, and how it begins is enough."""
PAUSE_SECONDS: Final = 0.1
"""Between two attempts."""
SHORTEST_SECONDS: Final = 0.05
"""For each step, however little time is left."""


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
    """The same, as soon as the server has loaded its groups.

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
            return _converse(host, port, step, _ready)
        except Unhealthy as error:
            if time.monotonic() + PAUSE_SECONDS > deadline:
                raise Unhealthy(f"not ready after {seconds:g} s: {error}") from None
        time.sleep(PAUSE_SECONDS)


def _converse(host: str, port: int, timeout: float, ask: "Callable[[socket.socket], str]") -> str:
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
        raise Unhealthy(f"{where}: that is no answer to FindCoordinator or ListGroups") from None


def _ready(connection: socket.socket) -> str:
    coordinator = _coordinator(connection)
    answer = _ask(connection, _LIST_GROUPS, b"")
    (error,) = struct.unpack_from(">h", answer)
    if error:
        raise Unhealthy(f"ListGroups answers error {error}: groups are being loaded")
    return coordinator


def _coordinator(connection: socket.socket) -> str:
    answer = _ask(connection, _FIND_COORDINATOR, _text(_GROUP))
    error, _node_id, length = struct.unpack_from(">hih", answer)
    if error:
        raise Unhealthy(f"FindCoordinator answers error {error}: no coordinator available yet")
    host = answer[8 : 8 + length].decode()
    (port,) = struct.unpack_from(">i", answer, 8 + length)
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


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise Unhealthy("the connection was closed instead of an answer")
        received += chunk
    return received
