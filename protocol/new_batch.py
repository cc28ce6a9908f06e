"""A batch of ours while it is put together: records are encoded as they come.

All records of a batch have one timestamp, as those of Kafka's coordinator have. What is done here
is done for every commit, so a record is written with a few joins.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from crc32c import crc32c

from protocol.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Header,
    LogRecord,
    read_header,
)
from protocol.batch_records import read_records
from protocol.varints import TABULATED, VARINTS, varint

_START: Final = Struct(">qiibI")
"""Base offset, length, leader epoch, magic, checksum."""
_CHECKED: Final = Struct(">hiqqqhii")
"""Attributes, last offset delta, both timestamps, producer id and epoch, sequence, records."""
_FRAMING: Final = 16
"""At least what a short record has beside its key and value."""


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

    def add(self, key: bytes, value: bytes | None, headers: Iterable[Header] = ()) -> None:
        """Add a record; a value of None is a tombstone."""
        part = encoded_record(self.records, key, value, headers)
        self._parts.append(part)
        self.size += len(part)
        self.records += 1

    def add_encoded(self, part: bytes, records: int) -> None:
        """Add so many records in one go, encoded for their places from `self.records` on."""
        self._parts.append(part)
        self.size += len(part)
        self.records += records

    def mark(self) -> tuple[int, int, int]:
        """Where the batch ends now, for `cut`."""
        return len(self._parts), self.records, self.size

    def cut(self, mark: tuple[int, int, int]) -> None:
        """Take back what was added since."""
        parts, self.records, self.size = mark
        del self._parts[parts:]

    def build(self, base_offset: int) -> bytes:
        """The bytes of the batch; it has at least one record."""
        last, timestamp = self.records - 1, self.timestamp
        head = _CHECKED.pack(
            0, last, timestamp, timestamp, NO_PRODUCER_ID, -1, NO_SEQUENCE, self.records
        )
        checked = b"".join((head, *self._parts))
        return (
            _START.pack(base_offset, self.size - LOG_OVERHEAD, 0, MAGIC, crc32c(checked)) + checked
        )

    def decoded(self) -> list[LogRecord]:
        """The records as a reader of the log sees them, with offsets from 0."""
        if not self.records:
            return []
        batch = self.build(0)
        return read_records(read_header(batch), batch)


def encoded_record(
    place: int, key: bytes, value: bytes | None, headers: Iterable[Header] = ()
) -> bytes:
    """A record of the batch's own time; `place` counts from 0."""
    if value is None or headers or len(key) + len(value) + place >= TABULATED - _FRAMING:
        return _unusual_record(place, key, value, headers)
    number, key_size, value_size = VARINTS[place], VARINTS[len(key)], VARINTS[len(value)]
    size = 3 + len(number) + len(key_size) + len(key) + len(value_size) + len(value)
    return b"".join((VARINTS[size], b"\0\0", number, key_size, key, value_size, value, b"\0"))


def _unusual_record(
    place: int, key: bytes, value: bytes | None, headers: Iterable[Header]
) -> bytes:
    """A tombstone, a record with headers, or a long one."""
    headers = list(headers)
    parts = [b"\0\0", varint(place), varint(len(key)), key]
    parts += (b"\x01",) if value is None else (varint(len(value)), value)
    parts.append(varint(len(headers)))
    for name, blob in headers:
        raw = name.encode()
        parts += (varint(len(raw)), raw, varint(len(blob)), blob)
    body = b"".join(parts)
    return varint(len(body)) + body
