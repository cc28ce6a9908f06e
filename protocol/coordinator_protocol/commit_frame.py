"""An OffsetCommit request recognised by its bytes, whatever its correlation id and offsets.

A consumer commits the same partitions all its life: nothing else of its requests changes, and
nothing else has to be read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from struct import Struct
from typing import Final

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import request_encoder
from coordinator_protocol.messages.offset_commit import OffsetCommitRequest

MOST_BYTES: Final = 16_384
"""Of a frame; laying out longer ones would take long."""


_ID_AT: Final = 8
_ID_END: Final = 12
"""The position of the correlation id, counted from the frame's length."""


class CommitFrame:
    """A request in its frame, and all that differ from it in nothing but those."""

    __slots__ = ("_begin", "_constant", "_end", "_length", "_mask", "_middle", "_only", "_unpack")

    def __init__(self, version: int, request: OffsetCommitRequest, frame: bytes, body: int) -> None:
        """Of a request, its frame, which begins with the API key, and where in that its body is.

        Raises ValueError for one that is long or not encoded as we would.
        """
        encode = request_encoder(ApiKey.OFFSET_COMMIT, version)
        if len(frame) > MOST_BYTES or frame[body:] != encode(request):
            raise ValueError("a frame that cannot be laid out")
        chunk = len(frame).to_bytes(4, "big") + frame
        mask, layout, at = bytearray(b"\xff" * len(chunk)), "", 0
        mask[_ID_AT:_ID_END] = bytes(_ID_END - _ID_AT)
        zeros, ones = encode(_with_offsets(request, 0)), encode(_with_offsets(request, -1))
        holes = [4 + body + each for each in _holes(zeros, ones)]
        for hole in holes:
            mask[hole : hole + 8] = bytes(8)
            layout += f"{hole - at}x8s"
            at = hole + 8
        self._length = len(chunk)
        self._unpack = Struct(f"{layout}{len(chunk) - at}x").unpack
        self._mask = int.from_bytes(mask, "little")
        self._constant = int.from_bytes(chunk, "little") & self._mask
        self._only = 0
        """The position of the offset in a request of one partition."""
        self._begin = self._middle = self._end = b""
        """The bytes around it and around the correlation id."""
        if len(holes) == 1:
            self._only = only = holes[0]
            self._begin, self._middle = chunk[:_ID_AT], chunk[_ID_END:only]
            self._end = chunk[only + 8 :]

    def offsets_of(self, chunk: bytes) -> Sequence[bytes] | None:
        """The offsets, 8 bytes each, of a chunk that is such a request with its length; else None.

        Compared are all other bytes at once, as one number: that is cheapest but for one offset.
        """
        if len(chunk) != self._length:
            return None
        only = self._only
        if only:
            if chunk[_ID_END:only] != self._middle or chunk[only + 8 :] != self._end:
                return None
            return (chunk[only : only + 8],) if chunk[:_ID_AT] == self._begin else None
        if int.from_bytes(chunk, "little") & self._mask != self._constant:
            return None
        return self._unpack(chunk)


def _with_offsets(request: OffsetCommitRequest, offset: int) -> OffsetCommitRequest:
    """The same, with this offset for every partition."""
    topics = [
        replace(
            topic,
            partitions=[replace(given, committed_offset=offset) for given in topic.partitions],
        )
        for topic in request.topics
    ]
    return replace(request, topics=topics)


def _holes(zeros: bytes, ones: bytes) -> Iterator[int]:
    """The positions of offsets: only their bytes differ between offset 0 and offset -1."""
    at = 0
    while at < len(zeros):
        if zeros[at] != ones[at]:
            yield at
            at += 7
        at += 1
