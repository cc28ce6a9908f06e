"""A batch of ours while it is put together: records are encoded as they come.

All records of a batch have one timestamp, as those of Kafka's coordinator have. What is done here
is done for every commit, so a record is written with a few joins.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from coordinator_protocol.batch import (
    CHECKED,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    LogRecord,
    encoded_record,
    read_header,
    sealed,
)
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.record_headers import NO_HEADERS, PackedHeaders

_pack_int: Final = Struct(">i").pack


class _HeaderCache:
    """The checksummed part of headers, by number of records: equal within a millisecond."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = (0, 0, b"")

    def packed(self, timestamp: int, records: int) -> bytes:
        last_timestamp, last_records, packed = self._last
        if last_timestamp != timestamp or last_records != records:
            packed = CHECKED.pack(
                0, records - 1, timestamp, timestamp, NO_PRODUCER_ID, -1, NO_SEQUENCE, records
            )
            self._last = (timestamp, records, packed)
        return packed


_heads: Final = _HeaderCache()


class NewBatch:
    """Records on their way to a log."""

    __slots__ = ("_parts", "records", "size", "timestamp")

    def __init__(self, timestamp: int) -> None:
        self.timestamp = timestamp
        """Of every record: wall-clock milliseconds since the epoch."""
        self.records = 0
        self.size = HEADER_BYTES
        """Bytes of the whole batch."""
        self._parts: list[bytes] = []

    def add(self, key: bytes, value: bytes | None, headers: PackedHeaders = NO_HEADERS) -> None:
        """Add a record; a value of None is a tombstone."""
        self.add_encoded(encoded_record(self.records, key, value, headers), 1)

    def add_offsets(self, prefix: bytes, offsets: Iterable[tuple[int, bytes]]) -> None:
        """Add commits of a topic: partitions and values; a key is the prefix and the partition."""
        parts = [
            encoded_record(place, prefix + _pack_int(partition), value)
            for place, (partition, value) in enumerate(offsets, self.records)
        ]
        self.add_encoded(b"".join(parts), len(parts))

    def add_encoded(self, part: bytes, records: int) -> None:
        """Add so many records in one go, encoded for their places from `self.records` on."""
        self._parts.append(part)
        self.size += len(part)
        self.records += records

    def mark(self) -> tuple[int, int, int]:
        """The present end of the batch, for `cut`."""
        return len(self._parts), self.records, self.size

    def cut(self, mark: tuple[int, int, int]) -> None:
        """Take back what was added since."""
        parts, self.records, self.size = mark
        del self._parts[parts:]

    def build(self, base_offset: int) -> bytes:
        """The bytes of the batch; it has at least one record."""
        head = _heads.packed(self.timestamp, self.records)
        return sealed(head + b"".join(self._parts), base_offset)

    def decoded(self) -> list[LogRecord]:
        """The records as a reader of the log sees them, with offsets from 0."""
        if not self.records:
            return []
        batch = self.build(0)
        return read_records(read_header(batch), batch)
