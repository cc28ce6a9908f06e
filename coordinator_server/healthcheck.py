"""Asks a server for a coordinator, over the Kafka protocol: healthy is who answers that.

FindCoordinator v0 is the one request that works without knowing anything of the server.
"""

import socket
import struct

_FIND_COORDINATOR, _VERSION, _CORRELATION_ID = 10, 0, 1
_CLIENT_ID = "healthcheck"
_GROUP = "coordinator-healthcheck"
MAX_ANSWER_BYTES = 1 << 16


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
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(_request())
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            if not 0 <= size <= MAX_ANSWER_BYTES:
                raise Unhealthy(f"{host}:{port} answers {size} bytes: that is no Kafka listener")
            return _coordinator(_exactly(connection, size))
    except TimeoutError:
        raise Unhealthy(f"{host}:{port} does not answer within {timeout:g} s") from None
    except OSError as error:
        raise Unhealthy(f"{host}:{port}: {error.strerror or error}") from None
    except (struct.error, UnicodeDecodeError):
        raise Unhealthy(f"{host}:{port} answers no FindCoordinator response") from None


def _request() -> bytes:
    body = (
        struct.pack(">hhi", _FIND_COORDINATOR, _VERSION, _CORRELATION_ID)
        + _text(_CLIENT_ID)
        + _text(_GROUP)
    )
    return struct.pack(">i", len(body)) + body


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


def _coordinator(answer: bytes) -> str:
    correlation_id, error, _node_id, length = struct.unpack_from(">ihih", answer)
    if correlation_id != _CORRELATION_ID:
        raise struct.error
    if error:
        raise Unhealthy(f"FindCoordinator answers error {error}: no coordinator available yet")
    host = answer[12 : 12 + length].decode()
    (port,) = struct.unpack_from(">i", answer, 12 + length)
    return f"{host}:{port}"
