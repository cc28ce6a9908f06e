"""A connection's request that comes again and again, byte for byte but for its correlation id."""

from struct import Struct
from time import perf_counter
from typing import Final

from coordinator_server.api.registry import Again, Route
from coordinator_server.observe.counters import Counters

_ID: Final = 8
"""Where the correlation id lies in a request's frame, behind its length, API key and version."""
_REST: Final = 12

_pack_size: Final = Struct(">i").pack
_seconds: Final = perf_counter  # not looked up every time, when compiled


class Repeat:
    """Recognises the request and serves it without decoding anything.

    All frames of a chunk are taken together: between their correlation ids lies always the same,
    in the chunk as in the answers to it.
    """

    __slots__ = (
        "_again",
        "_answer_begin",
        "_answer_between",
        "_answer_end",
        "_api_key",
        "_begin",
        "_between",
        "_body",
        "_end",
        "_length",
        "_tags",
    )

    def __init__(self, way: Route, again: Again, buffer: bytes, start: int, end: int) -> None:
        self._api_key = way.api_key
        self._again = again
        self._length = 4 + end - start
        self._begin = _pack_size(end - start) + buffer[start : start + 4]
        self._end = buffer[start + 8 : end]
        self._between = self._end + self._begin
        self._tags = way.tags
        self._body: bytes | None = None
        self._answer_begin = self._answer_between = self._answer_end = b""

    def holds(self, buffer: bytes, start: int, end: int) -> bool:
        """Whether a frame is this request."""
        return buffer[start + 8 : end] == self._end and buffer[start : start + 4] == self._begin[4:]

    def serve(self, chunk: bytes, now_ms: int, counters: Counters) -> bytes | None:
        """The answers to a chunk, which are counted as sent.

        None: it holds something else, or is not to be answered like this; nothing has happened.
        """
        began = _seconds()
        if not chunk.startswith(self._begin):
            return None
        if len(chunk) == self._length:
            if chunk[_REST:] != self._end or not self._ask(now_ms, 1):
                return None
            answers, times = self._answer_begin + chunk[_ID:_REST] + self._answer_end, 1
        else:
            served = self._serve_several(chunk, now_ms)
            if served is None:
                return None
            answers, times = served
        counters.bytes_in += len(chunk)
        counters.bytes_out += len(answers)
        counts = counters.apis[self._api_key]
        # Errors are never repeated.
        counts.accepted += times
        counts.seconds.observe((_seconds() - began) / times, times)
        return answers

    def _serve_several(self, chunk: bytes, now_ms: int) -> tuple[bytes, int] | None:
        """The answers to several, and how many they are."""
        ids = [chunk[at : at + 4] for at in range(_ID, len(chunk), self._length)]
        if self._begin + self._between.join(ids) + self._end != chunk:
            return None
        if not self._ask(now_ms, len(ids)):
            return None
        return self._answer_begin + self._answer_between.join(ids) + self._answer_end, len(ids)

    def _ask(self, now_ms: int, times: int) -> bool:
        """Whether there is an answer, laid out for the frames it goes into."""
        body = self._again(now_ms, times)
        if body is not self._body and body is not None:
            self._body = body
            self._answer_end = self._tags + body
            self._answer_begin = _pack_size(4 + len(self._answer_end))
            self._answer_between = self._answer_end + self._answer_begin
        return body is not None
