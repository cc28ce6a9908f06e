"""A connection's request that comes again and again, byte for byte but for its correlation id."""

from struct import Struct

from coordinator_server.api.registry import Again, Route

_pack_size = Struct(">i").pack


class Repeat:
    """Recognises the request and serves it without decoding anything."""

    __slots__ = ("_again", "_begin", "_head", "_intent", "_rest", "_tail", "api_key", "times")

    def __init__(self, way: Route, again: Again, buffer: bytes, start: int, end: int) -> None:
        self.api_key = way.api_key
        self.times = 0
        """How often it was served since somebody last counted."""
        self._again = again
        self._intent = buffer[start : start + 4]
        self._rest = buffer[start + 8 : end]
        self._tail = way.tags + again.success
        self._head = _pack_size(4 + len(self._tail))

    def serve(self, buffer: bytes, start: int, end: int, now_ms: int) -> bytes | None:
        """The answer to a frame; None if it is another request, or not to be answered like this."""
        if (
            buffer[start + 8 : end] != self._rest
            or buffer[start : start + 4] != self._intent
            or not self._again(now_ms)
        ):
            return None
        self.times += 1
        return self._head + buffer[start + 4 : start + 8] + self._tail
