"""Writes the primitive types of Kafka's wire format, for what no message schema describes."""

import struct
from collections.abc import Sequence

from protocol.reader import Tag
from protocol.varints import uvarint

_SHORT = struct.Struct(">h")


def text_bytes(text: str | None) -> bytes:
    """A nullable string with an int16 length. Raises ValueError above 32767 bytes."""
    if text is None:
        return b"\xff\xff"
    raw = text.encode("utf-8", "surrogatepass")
    size = len(raw)
    if size > 0x7FFF:
        raise ValueError(f"text of {size} bytes, at most 32767 fit into a record")
    return _SHORT.pack(size) + raw


def compact_text(text: str | None) -> bytes:
    """A nullable string of the flexible form."""
    return b"\0" if text is None else compact_bytes(text.encode("utf-8", "surrogatepass"))


def compact_bytes(raw: bytes) -> bytes:
    """Bytes of the flexible form."""
    return uvarint(len(raw) + 1) + raw


def tag_bytes(tags: Sequence[Tag]) -> bytes:
    """Tagged fields."""
    if not tags:
        return b"\0"
    fields = [uvarint(tag) + uvarint(len(raw)) + raw for tag, raw in sorted(tags)]
    return uvarint(len(tags)) + b"".join(fields)
