"""What a supervisor and a worker say to each other: JSON objects over a pair of sockets."""

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
    """The first object of the other side, before there is an event loop. Raises EOFError."""
    with source.makefile("rb", buffering=0) as file:
        size = _SIZE.unpack(_exactly(file.read, _SIZE.size))[0]
        form: Form = json.loads(_exactly(file.read, size))
    return form


def _exactly(read: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = read(size - len(data))
        if not more:
            raise EOFError("the other side has gone")
        data += more
    return data


class Channel:
    """One end of the pair, on the event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> Self:
        """Take an end, which is closed with the channel."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, form: Form) -> None:
        """Send an object, unless the other side has gone; nothing waits."""
        if not self._writer.is_closing():
            self._writer.write(_packed(form))

    async def receive(self) -> Form | None:
        """The next object, None when the other side has gone."""
        try:
            (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
            form: Form = json.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return form

    def close(self) -> None:
        """Send what is to be sent, and nothing more."""
        self._writer.close()
