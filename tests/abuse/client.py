"""Requests of attackers: frames from the message classes, and blocking connections."""

import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from coordinator_protocol.codec import request_encoder, response_decoder
from coordinator_protocol.headers import is_flexible, response_header_version
from coordinator_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

CLIENT_ID: Final = b"abuse"
PATIENCE_SECONDS: Final = 20.0
"""How long an attacker waits for one response."""
TOPIC_ALREADY_EXISTS: Final = 36
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST."""


def frame(key: int, version: int, request: Any, correlation_id: int = 1) -> bytes:
    """Encode a request, with its length in front."""
    head = struct.pack(">hhih", key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    tags = b"\0" if is_flexible(key, version) else b""
    body = request_encoder(key, version)(request)
    return struct.pack(">i", len(head) + len(tags) + len(body)) + head + tags + body


def text(value: str) -> bytes:
    """Encode a string of a version that is not flexible."""
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def raw_frame(key: int, version: int, body: bytes, correlation_id: int = 1) -> bytes:
    """Wrap a body of a version that is not flexible."""
    head = struct.pack(">hhih", key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(head) + len(body)) + head + body


@dataclass
class Target:
    """The server under attack, and when the attack has to end."""

    port: int
    http_port: int
    pid: int
    seconds: float
    began: float = field(default_factory=time.monotonic)
    done: dict[str, int] = field(default_factory=dict)
    """Counts for the report."""

    @property
    def left(self) -> float:
        """Seconds until the end of the attack, 0 if it is over."""
        return max(0.0, self.began + self.seconds - time.monotonic())

    def count(self, name: str, more: int = 1) -> None:
        """Add to a count of the report."""
        self.done[name] = self.done.get(name, 0) + more

    def connect(self, port: int | None = None) -> socket.socket:
        """Open a plain connection; raises OSError."""
        opened = socket.create_connection(("127.0.0.1", port or self.port), PATIENCE_SECONDS)
        self.count("connections")
        return opened

    @contextmanager
    def connections(self, number: int, port: int | None = None) -> Iterator[list[socket.socket]]:
        """Open many connections and close them with RST."""
        opened: list[socket.socket] = []
        try:
            for _ in range(number):
                with suppress(OSError):
                    opened.append(self.connect(port))
            yield opened
        finally:
            for each in opened:
                reset(each)

    def ask(self, connection: socket.socket, request: bytes) -> bytes:
        """Send a frame and read its response; raises OSError."""
        connection.sendall(request)
        self.count("requests")
        self.count("bytes sent", len(request))
        answer = receive(connection)
        self.count("bytes received", len(answer))
        return answer

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create topics, each with a request of its own; raises OSError."""
        with self.connect() as connection:
            for name, count in partitions.items():
                topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
                answer = decoded(19, 5, self.ask(connection, frame(19, 5, request)))
                code = answer.topics[0].error_code
                if code not in (0, TOPIC_ALREADY_EXISTS):
                    self.count(f"topics answered {code}")


def reset(connection: socket.socket) -> None:
    """Close a connection with RST."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


def receive(connection: socket.socket) -> bytes:
    """Read one response; raises OSError."""
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray(size)
    view = memoryview(received)
    while view:
        count = connection.recv_into(view, min(len(view), 1 << 20))
        if not count:
            raise ConnectionError("the server closed the connection")
        view = view[count:]
    return bytes(received)


def decoded(key: int, version: int, answer: bytes) -> Any:
    """Decode a response."""
    start = 4 + response_header_version(key, version)
    return response_decoder(key, version)(answer, start, len(answer))
