"""The records of a commit that comes again and again with other offsets.

A consumer commits the same partitions all its life. What its records have in common is laid out
once; then a commit is one packing of offsets, places in the batch and a time.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

from coordinator_protocol.offset_value import NO_TOPIC_ID, OffsetCommitValue, encode_offset
from coordinator_protocol.records import OffsetCommitKey, encode_key
from coordinator_protocol.varints import VARINTS, varint

MOST_RECORDS: Final = 64
"""A record further back in its batch has a longer place, so templates are not for more."""


class Place(NamedTuple):
    """A partition of the commit, and what is committed with each offset."""

    topic: str
    partition: int
    leader_epoch: int
    metadata: str


class _Times:
    """Timestamps as they stand in values; all commits of a millisecond have the same."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = (-1, b"")

    def packed(self, milliseconds: int) -> bytes:
        last, packed = self._last
        if last != milliseconds:
            packed = milliseconds.to_bytes(8, "big")
            self._last = (milliseconds, packed)
        return packed


_times: Final = _Times()


class CommitTemplate:
    """Up to MOST_RECORDS plain commits of a group, encoded save for offsets and time."""

    __slots__ = (
        "_around_places",
        "_between",
        "_pack",
        "_parts",
        "_place",
        "_topics",
        "records",
        "size",
    )

    def __init__(self, group: str, places: Sequence[Place]) -> None:
        """Raises ValueError if there are none or too many, or a text does not fit into a record."""
        if not 0 < len(places) <= MOST_RECORDS:
            raise ValueError(f"{len(places)} partitions, expected 1 to {MOST_RECORDS}")
        self.records = len(places)
        at, before, layout = 0, b"", ">"
        self._around_places: list[tuple[bytes, bytes]] = []
        """Of each record what comes before its place in the batch, and from there to its offset."""
        self._parts: list[bytes] = []
        """The parts that `encode` joins: of each record the bytes up to the offset, the offset, and
        the bytes from there to the end of the time; then the end."""
        self._between: list[bytes] = []
        """The bytes between offset and time: of each record, or one where all have the same."""
        values: list[slice] = []
        for place in places:
            head, key, value = _pieces(group, place)
            before += head
            begin = at + len(before) + 1 + len(key)
            values.append(slice(begin, begin + len(value)))
            version, epoch_and_metadata, tags = value[:2], value[10:-9], value[-1:]
            self._around_places.append((before, key + version))
            self._parts += (b"", b"", b"")
            self._between.append(epoch_and_metadata)
            layout += f"{len(before) + 1 + len(key) + 2}s8s{len(epoch_and_metadata) + 8}s"
            at = begin + len(value) - 1
            before = tags + _NO_HEADERS
        self._parts.append(before)
        if len(set(self._between)) == 1:
            del self._between[1:]
        struct = Struct(f"{layout}{len(before)}s")
        self._pack = struct.pack
        self.size = struct.size
        """Bytes of all records."""
        self._place = -1
        """Of the first record, as it was filled in last."""
        self._topics: list[tuple[str, Sequence[int], Callable[[bytes], Sequence[bytes]]]] = []
        numbered = zip(places, values, strict=True)
        for topic, of_topic in groupby(numbered, key=lambda each: each[0].topic):
            partitions, where = zip(*[(place.partition, at) for place, at in of_topic], strict=True)
            self._topics.append((topic, partitions, _taker(where)))

    def encode(self, place: int, offsets: Sequence[bytes], timestamp: int) -> bytes:
        """The records, of which the first has this place in its batch, at most 64 - `records`.

        The offsets are as on the wire, 8 bytes each.
        """
        if place != self._place:
            self._fill_in(place)
        parts, time = self._parts, _times.packed(timestamp)
        if self.records == 1:
            parts[1] = offsets[0]
            parts[2] = self._between[0] + time
            return b"".join(parts)
        ends = [between + time for between in self._between]
        parts[1::3] = offsets
        parts[2::3] = ends if len(ends) > 1 else ends * self.records
        # With many parts this is quicker than a join.
        return self._pack(*parts)

    def _fill_in(self, place: int) -> None:
        """Fill in the places of the records, of which the first has this one."""
        self._place = place
        for number, (before, behind) in enumerate(self._around_places):
            self._parts[3 * number] = before + VARINTS[place + number] + behind

    def values(self, encoded: bytes) -> Iterator[tuple[str, list[tuple[int, bytes]]]]:
        """Topics, with partitions and the values of their records, of what `encode` made."""
        for topic, partitions, take in self._topics:
            yield topic, list(zip(partitions, take(encoded), strict=True))


def _taker(where: Sequence[slice]) -> Callable[[bytes], Sequence[bytes]]:
    """Takes the pieces of some bytes that lie there."""
    if len(where) == 1:
        only = itemgetter(*where)
        return lambda encoded: (only(encoded),)
    return itemgetter(*where)


_NO_HEADERS: Final = b"\0"


def _pieces(group: str, place: Place) -> tuple[bytes, bytes, bytes]:
    """A record: what comes before its place in the batch, what up to its value, and that."""
    key = encode_key(OffsetCommitKey(group, place.topic, place.partition))
    value = encode_offset(
        OffsetCommitValue(0, place.leader_epoch, place.metadata, 0, -1, NO_TOPIC_ID)
    )
    sized = varint(len(key)) + key + varint(len(value))
    return varint(2 + 1 + len(sized) + len(value) + 1) + b"\0\0", sized, value
