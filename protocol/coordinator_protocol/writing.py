"""Writes the primitive types of Kafka's wire format, for what no message schema describes."""

from collections.abc import Callable, Sequence
from typing import Final

from coordinator_protocol.reader import Tag
from coordinator_protocol.varints import uvarint

MOST_WORDS: Final = 256
LARGE_PART: Final = 1_024
"""Bytes from which on a part is cheaper to keep than to copy."""
_SHORTS: Final = [number.to_bytes(2, "big") for number in range(0x100)]
"""The lengths of nearly all texts."""


class Words(dict[str, bytes]):
    """The encoded forms of words, of which `MOST_WORDS` are kept: there are a few."""

    __slots__ = ("_encode",)

    def __init__(self, encode: Callable[[str], bytes]) -> None:
        super().__init__()
        self._encode = encode

    def __missing__(self, word: str) -> bytes:
        encoded = self._encode(word)
        if len(self) < MOST_WORDS:
            self[word] = encoded
        return encoded


def fewer_parts(parts: Sequence[bytes]) -> list[bytes]:
    """The same bytes with small neighbours joined; what is large is not copied."""
    fewer: list[bytes] = []
    small: list[bytes] = []
    for part in parts:
        if len(part) < LARGE_PART:
            small.append(part)
        else:
            fewer += (b"".join(small), part)
            small.clear()
    return [*fewer, b"".join(small)]


def text_bytes(text: str | None) -> bytes:
    """A nullable string with an int16 length. Raises ValueError above 32767 bytes."""
    if text is None:
        return b"\xff\xff"
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raw = text.encode("utf-8", "surrogatepass")
    size = len(raw)
    if size < 0x100:
        return _SHORTS[size] + raw
    if size > 0x7FFF:
        raise ValueError(f"text of {size} bytes, at most 32767 fit into a record")
    return size.to_bytes(2, "big") + raw


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
