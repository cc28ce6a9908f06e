"""Messages between supervisor and worker: JSON objects over a socket pair."""

import asyncio
import json
import socket
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, Self

Form = Mapping[str, Any]

_SIZE: Final = Struct(">I")


def _packed(form: Form) -> bytes:
    data = json.dumps(form).encode()
    return _SIZE.pack(len(data)) + data


def receive_first(source: socket.socket) -> Form:
    """Receive a message without an event loop. Raises EOFError."""
    with source.makefile("rb", buffering=0) as file:
        size = _SIZE.unpack(_exactly(file.read, _SIZE.size))[0]
        form: Form = json.loads(_exactly(file.read, size))
    return form


def _exactly(read: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = read(size - len(data))
        if not more:
            raise EOFError("the other side has closed the channel")
        data += more
    return data


class Channel:
    """One end of the socket pair on the event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> Self:
        """Wrap a socket, which is closed with the channel."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, form: Form) -> None:
        """Send a message without waiting, unless the channel is closing."""
        if not self._writer.is_closing():
            self._writer.write(_packed(form))

    async def receive(self) -> Form | None:
        """The next message; None when the other side has closed the channel."""
        try:
            (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
            form: Form = json.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return form

    def close(self) -> None:
        """Close the channel after the buffered messages are sent."""
        self._writer.close()
