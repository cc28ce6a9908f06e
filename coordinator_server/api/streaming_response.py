"""An answer that ends with an array, written element by element.

It is for requests that may name thousands of things: nothing of it is left for the turn in which
the last of them comes.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

from coordinator_protocol.codec import response_encoder
from coordinator_protocol.headers import is_flexible
from coordinator_protocol.varints import uvarint
from coordinator_protocol.writing import fewer_parts
from coordinator_server.api.call import Call
from coordinator_server.api.chunked_work import ChunkedWork

MOST_BYTES: Final = 100 * 1024 * 1024
"""Of an answer. A request of a few bytes may name a large group ten thousand times."""

_AT_ONCE: Final = 256
"""Elements that are joined in one step."""


def around(call: Call, empty: Any, count: int, behind: int = 0) -> tuple[bytes, bytes]:
    """The bytes before and behind an array of `count` elements, given a response without any.

    `behind` is the size of the fields that follow the array, without tagged ones.
    """
    body = response_encoder(call.api_key, call.version)(empty)
    return around_empty(body, is_flexible(call.api_key, call.version), count, behind)


def around_empty(body: bytes, flexible: bool, count: int, behind: int) -> tuple[bytes, bytes]:
    """As `around`, of what ends with an empty array and `behind` bytes of other fields."""
    if flexible:
        # The empty array and no tagged fields take a byte each.
        end = len(body) - behind - 1
        return body[: end - 1] + uvarint(count + 1), body[end:]
    end = len(body) - behind
    return body[: end - 4] + struct.pack(">i", count), body[end:]


class StreamedArray:
    """Collects the encoded elements, which come in any order, and is sent after the last."""

    __slots__ = ("_call", "_elements", "_empty", "_missing", "_size", "_work")

    def __init__(self, call: Call, empty: Any, count: int, work: ChunkedWork) -> None:
        """`empty` is the response without an element; `work` is stopped if it gets too large."""
        self._call = call
        self._empty = empty
        self._work = work
        self._elements = [b""] * count
        self._missing = count
        self._size = 0
        if not count:
            call.answer(empty)

    def put(self, index: int, element: bytes) -> None:
        """An element has come."""
        if self._size > MOST_BYTES:
            return
        self._elements[index] = element
        self._size += len(element)
        self._work.size = self._size
        self._missing -= 1
        if self._size > MOST_BYTES:
            self._elements.clear()
            self._work.stop()
            self._call.disconnect(f"an answer of more than {MOST_BYTES} bytes")
        elif not self._missing:
            self._work.add(self._sending())

    def _sending(self) -> Iterator[None]:
        before, behind = around(self._call, self._empty, len(self._elements))
        parts = [before]
        for at in range(0, len(self._elements), _AT_ONCE):
            parts += fewer_parts(self._elements[at : at + _AT_ONCE])
            yield
        self._call.answer_parts([*parts, behind])
