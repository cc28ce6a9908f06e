"""A blocking raw client: requests from plain values by kio, an implementation not ours."""

import os
import socket
import struct
import time
from typing import Any, Self

from tests.oracle.oracle.wire import Reply, decode_response, encode_request, frame

LOADING = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")
"""What a server answers that has just started; kio's names."""


def address(bootstrap: str) -> tuple[str, int]:
    """Host and port of `host:port`."""
    host, port = bootstrap.rsplit(":", 1)
    return host, int(port)


class RawConnection:
    """One connection; requests are answered one after the other."""

    def __init__(self, bootstrap: str, *, timeout: float = 10.0) -> None:
        """Connect; raises OSError where nobody listens."""
        self._socket = socket.create_connection(address(bootstrap), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def call(self, api: str, version: int, /, **values: Any) -> Reply:
        """Send a request and wait for its answer; raises OSError when there is none."""
        self._correlation_id += 1
        self._socket.sendall(
            frame(encode_request(api, version, self._correlation_id, "raw", values))
        )
        reply = decode_response(api, version, self._answer())
        if "observed" in reply:
            raise OSError(f"{api} v{version}: {reply}")
        return reply

    def _answer(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("connection closed before the answer")
            received += chunk
        return bytes(received)


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic; raises AssertionError with the server's answer if that fails."""
    with RawConnection(bootstrap) as connection:
        wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
        reply = connection.call("CreateTopics", 5, topics=[wanted], timeout=10_000)
    codes = [answer["error_code"] for answer in reply["topics"]]
    assert codes == ["NONE"], f"CreateTopics {topic}: {reply}"


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """The committed offset of each partition that has one."""
    wanted = {"name": topic, "partition_indexes": list(range(partitions))}
    deadline = time.monotonic() + 10
    with RawConnection(bootstrap) as connection:
        while True:
            reply = connection.call("OffsetFetch", 5, group_id=group, topics=[wanted])
            if reply["error_code"] not in LOADING or time.monotonic() >= deadline:
                break
            time.sleep(0.02)
    assert reply["error_code"] == "NONE", f"OffsetFetch of {group}: {reply}"
    answers = [answer for asked in reply["topics"] for answer in asked["partitions"]]
    return {
        answer["partition_index"]: answer["committed_offset"]
        for answer in answers
        if answer["committed_offset"] >= 0
    }


def unique(name: str) -> str:
    """A group or topic name nobody else uses."""
    return f"{name}-{os.urandom(4).hex()}"
