"""The answers of a connection that are still to be sent."""

from typing import Final

from coordinator_protocol.frames import SIZE_BYTES
from coordinator_protocol.writing import fewer_parts

MOST_COPIED: Final = 65_536
"""Bytes up to which answers are put together into one piece."""


class ResponseQueue:
    """Answers in the order of their requests, each with its length."""

    __slots__ = ("parts", "size")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        """In bytes."""

    def add(self, correlation_id: bytes, tags: bytes, body: bytes) -> None:
        """An answer; `tags` are those of its header."""
        size = 4 + len(tags) + len(body)
        self.parts.append(size.to_bytes(SIZE_BYTES, "big") + correlation_id + tags + body)
        self.size += SIZE_BYTES + size

    def add_parts(self, correlation_id: bytes, tags: bytes, body: list[bytes]) -> None:
        """An answer of which the body is in parts; the large ones are not copied."""
        parts = fewer_parts(body)
        size = 4 + len(tags) + sum([len(part) for part in parts])
        self.parts.append(size.to_bytes(SIZE_BYTES, "big") + correlation_id + tags)
        self.parts += parts
        self.size += SIZE_BYTES + size

    def take(self) -> list[bytes]:
        """All there is; in one piece unless it is much."""
        parts = self.parts
        self.parts = []
        if len(parts) > 1 and self.size <= MOST_COPIED:
            parts = [b"".join(parts)]
        self.size = 0
        return parts
