"""Plain commits one after another in a log: read in one go, and only the last per key kept.

A load is made of these. Everything else - tombstones, transactions, groups, keys and values of
older versions or unusual form - is left to whoever reads records one by one.
"""

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final

from coordinator_protocol.errors import Malformed
from coordinator_protocol.offset_value import TOPIC_ID_TAG
from coordinator_protocol.records import plain_offset_place

_partition = Struct(">i").unpack_from


class OffsetRun:
    """Offsets by the bytes of their keys and values, as they came."""

    __slots__ = ("_offsets", "_places", "count")

    def __init__(self, places: dict[bytes, tuple[str, str]]) -> None:
        """An empty run; `places` remembers groups and topics from one run to the next."""
        self.count = 0
        """The number of records, including those that newer ones replaced."""
        self._offsets: dict[bytes, dict[int, bytes]] = {}
        """By key up to its partition, and partition."""
        self._places = places

    def offsets(self) -> Iterator[tuple[str, str, Mapping[int, bytes]]]:
        """Group, topic, and values by partition."""
        for prefix, values in self._offsets.items():
            yield *self._places[prefix], values

    def take(self, body: bytes, at: int, count: int) -> tuple[int, int]:
        """Take up to `count` records of a batch's body as long as they are plain commits.

        The batch is of no producer. Returns where the first other record begins, and how many were
        taken.
        """
        offsets, taken = self._offsets, 0
        for key_at, partition_at, value_at, value_end in _plain_commits(body, at, count):
            prefix = body[key_at:partition_at]
            of_prefix = offsets.get(prefix)
            if of_prefix is None:
                if not self._has_place(prefix, body[key_at : partition_at + 4]):
                    break
                of_prefix = offsets[prefix] = {}
            (partition,) = _partition(body, partition_at)
            of_prefix[partition] = body[value_at:value_end]
            at = value_end + 1
            taken += 1
        self.count += taken
        return at, taken

    def _has_place(self, prefix: bytes, key: bytes) -> bool:
        """Whether this is the key of a plain commit, whose place is then known."""
        if prefix in self._places:
            return True
        try:
            place = plain_offset_place(key)
        except Malformed:
            return False
        if place is not None:
            self._places[prefix] = place
        return place is not None


_SHORTEST_KEY: Final = 2 * 4
"""As a varint has it: with its partition. Compiled, a slice that ends before it begins raises."""


def _plain_commits(body: bytes, at: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """Positions of keys, partitions and values, up to the first record of another kind.

    Varints are read in place, for speed, as in batch_records.py; a test compares the two. Of those
    that count none has more than two bytes, and all of a record are so short together that none is
    longer than a varint may be. Whether the key is that of an offset is left to be looked at.
    """
    try:
        for _ in range(count):
            if (size := body[at]) > 0x7F:
                at += 1
                size += (body[at] - 1) << 7
            value_end = at + (size >> 1)
            at += 2
            time_at = at
            while body[at] > 0x7F:  # the time
                at += 1
            at += 1
            while body[at] > 0x7F:  # the offset
                at += 1
            at += 1
            if (key_size := body[at]) > 0x7F:
                at += 1
                key_size += (body[at] - 1) << 7
            key_at = at + 1
            at = key_end = key_at + (key_size >> 1)
            if (value_size := body[at]) > 0x7F:
                at += 1
                value_size += (body[at] - 1) << 7
            at += 1
            metadata = body[at + 14]
            rest = value_end - at - metadata
            if (
                (size | key_size | value_size) & 1
                or size > 0x3FFF
                or key_size < _SHORTEST_KEY
                or key_at - time_at > 12
                or at + (value_size >> 1) != value_end
                or body[value_end]
                or body[at]
                or body[at + 1] != 4
                or not 0 < metadata < 0x80
                or (
                    (rest != 23 or body[value_end - 1])
                    and (rest != 41 or body[value_end - 19 : value_end - 16] != TOPIC_ID_TAG)
                )
            ):
                return
            yield key_at, key_end - 4, at, value_end
            at = value_end + 1
    except IndexError:
        return
