"""An OffsetCommit request recognised by its bytes, whatever its correlation id and offsets.

A consumer commits the same partitions all its life: nothing else of its requests changes, and
nothing else has to be read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from struct import Struct
from typing import Final

from protocol.api_keys import ApiKey
from protocol.codec import request_encoder
from protocol.messages.offset_commit import OffsetCommitRequest

MOST_BYTES: Final = 16_384
"""Of a frame; laying out longer ones would take long."""


_BEHIND_ID: Final = 8
"""Where a frame goes on behind its correlation id."""


class CommitFrame:
    """A request in its frame, and all that differ from it in nothing but those."""

    __slots__ = ("_constants", "_length", "_unpack")

    def __init__(self, version: int, request: OffsetCommitRequest, frame: bytes, body: int) -> None:
        """Of a request, its frame, which begins with the API key, and where in that its body is.

        Raises ValueError for one that is long or not encoded as we would.
        """
        encode = request_encoder(ApiKey.OFFSET_COMMIT, version)
        if len(frame) > MOST_BYTES or frame[body:] != encode(request):
            raise ValueError("a frame that cannot be laid out")
        layout, at = ">8s4s", _BEHIND_ID
        zeros, ones = encode(_with_offsets(request, 0)), encode(_with_offsets(request, -1))
        for hole in _holes(zeros, ones):
            layout += f"{body + hole - at}sq"
            at = body + hole + 8
        struct = Struct(f"{layout}{len(frame) - at}s")
        self._length = struct.size
        self._unpack = struct.unpack
        fields = self._unpack(len(frame).to_bytes(4, "big") + frame)
        self._constants = (fields[0], *fields[2::2])

    def offsets_of(self, chunk: bytes) -> Sequence[int] | None:
        """The offsets of a chunk that is just such a request, with its length; else None."""
        if len(chunk) != self._length:
            return None
        fields = self._unpack(chunk)
        if (fields[0], *fields[2::2]) != self._constants:
            return None
        return fields[3::2]


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
    """Where offsets lie: every byte of one differs between 0 and -1, and no other byte does."""
    at = 0
    while at < len(zeros):
        if zeros[at] != ones[at]:
            yield at
            at += 7
        at += 1
