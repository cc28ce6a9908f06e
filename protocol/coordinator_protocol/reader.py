"""Reads the primitive types of Kafka's wire format, for what no message schema describes."""

import struct
from typing import Final

from coordinator_protocol.errors import Malformed

Tag = tuple[int, bytes]
"""A tagged field: its number and its bytes."""

_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


class Reader:
    """Reads from a buffer and never past its end; `what` names it in errors."""

    def __init__(self, buffer: bytes, what: str) -> None:
        self._buffer = buffer
        self._at = 0
        self._what = what

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self._at + size
        if size < 0 or end > len(self._buffer):
            raise Malformed(f"{self._what}: {size} bytes expected at {self._at}")
        raw = self._buffer[self._at : end]
        self._at = end
        return raw

    def int16(self) -> int:
        """An int16."""
        return int(_SHORT.unpack(self.take(2))[0])

    def int32(self) -> int:
        """An int32."""
        return int(_INT.unpack(self.take(4))[0])

    def int64(self) -> int:
        """An int64."""
        return int(_LONG.unpack(self.take(8))[0])

    def version(self, newest: int) -> int:
        """The int16 that a value begins with, of a version that is known."""
        version = self.int16()
        if not 0 <= version <= newest:
            raise Malformed(f"{self._what}: version {version}, expected 0 to {newest}")
        return version

    def uvarint(self) -> int:
        """An unsigned varint."""
        at = self._at
        if at < len(self._buffer) and self._buffer[at] < 0x80:
            self._at = at + 1
            return self._buffer[at]
        number = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise Malformed(f"{self._what}: a varint of more than 5 bytes at {self._at}")

    def nullable_text(self, *, compact: bool = False) -> str | None:
        """Text, or None; `compact` in the flexible form."""
        size = self.uvarint() - 1 if compact else self.int16()
        return None if size == -1 else self.take(size).decode("utf-8", "replace")

    def text(self, *, compact: bool = False) -> str:
        """Text."""
        text = self.nullable_text(compact=compact)
        if text is None:
            raise Malformed(f"{self._what}: null at {self._at}, where text is expected")
        return text

    def blob(self, *, compact: bool = False) -> bytes:
        """A length and so many bytes."""
        return self.take(self.uvarint() - 1 if compact else self.int32())

    def count(self, *, compact: bool = False) -> int:
        """The length of an array, of elements of a byte at least."""
        count = self.uvarint() - 1 if compact else self.int32()
        if not 0 <= count <= len(self._buffer) - self._at:
            raise Malformed(f"{self._what}: {count} elements at {self._at}")
        return count

    def tags(self) -> tuple[Tag, ...]:
        """Tagged fields, by number and as bytes."""
        return tuple((self.uvarint(), self.take(self.uvarint())) for _ in range(self.uvarint()))

    def nullable_blob(self) -> bytes | None:
        """A length and so many bytes, or None."""
        size = self.int32()
        return None if size == -1 else self.take(size)
