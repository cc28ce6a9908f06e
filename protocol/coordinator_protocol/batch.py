"""RecordBatch v2: the unit in which records are produced, stored and fetched.

Writing, and walking from batch to batch; `batch_records` reads what is in them. Offsets and the
partition leader epoch are not part of the checksum and may be stamped in place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from coordinator_protocol.errors import Malformed
from coordinator_protocol.record_headers import NO_HEADERS, Header, PackedHeaders, packed_headers
from coordinator_protocol.varints import TABULATED, VARINTS, varint

MAGIC: Final = 2
HEADER_BYTES: Final = 61
LOG_OVERHEAD: Final = 12
"""Base offset and length, which come before what the length counts."""

NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
COMPRESSION, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
CRC_FROM: Final = 21
"""The position in a batch from which on its checksum covers it, to its end."""

_HEADER: Final = Struct(">qiibIhiqqqhii")
CHECKED: Final = Struct(">hiqqqhii")
"""The checksummed part of the header: from the attributes to the number of records."""
_pack_start: Final = Struct(">qiibI").pack
"""Base offset, length, leader epoch, magic, checksum."""
_LENGTH: Final = Struct(">qi")
_crc32c: Final = crc32c
"""A name of our own is not looked up for every batch, when compiled."""
_FRAMING: Final = 16
"""At least what a short record has beside its key and value."""


@dataclass(slots=True)
class LogRecord:
    """A record as it is stored; `offset` is -1 until it has been appended."""

    key: bytes | None
    value: bytes | None
    """None is a tombstone."""
    timestamp: int
    """Wall-clock milliseconds since the epoch."""
    headers: tuple[Header, ...] = ()
    offset: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    transactional: bool = False
    control: bool = False
    """A transaction marker; its key says whether it commits or aborts."""


class BatchHeader(NamedTuple):
    """The fields before the records, in the order of the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int
    """The number of records."""

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether this is a transaction marker."""
        return bool(self.attributes & CONTROL)


# --- writing ---


def build_batch(records: Sequence[LogRecord], base_offset: int = 0, leader_epoch: int = 0) -> bytes:
    """One uncompressed batch of at least one record, all of one producer.

    Records of a producer have sequence numbers from 0, as in Kafka's coordinator; markers none.
    """
    first = records[0]
    producer_id = first.producer_id
    if len(records) > 1 and any(record.producer_id != producer_id for record in records):
        raise ValueError(f"records of several producers in a batch of producer {producer_id}")
    base_timestamp = first.timestamp
    body = b"".join(
        [
            encoded_record(
                place,
                record.key,
                record.value,
                packed_headers(record.headers),
                record.timestamp - base_timestamp,
            )
            for place, record in enumerate(records)
        ]
    )
    checked = (
        CHECKED.pack(
            (TRANSACTIONAL if first.transactional else 0) | (CONTROL if first.control else 0),
            len(records) - 1,
            base_timestamp,
            max(record.timestamp for record in records),
            producer_id,
            first.producer_epoch,
            NO_SEQUENCE if producer_id == NO_PRODUCER_ID or first.control else 0,
            len(records),
        )
        + body
    )
    return sealed(checked, base_offset, leader_epoch)


def stamped(batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """The same batch at another offset."""
    length = int.from_bytes(batch[8:12], "big")
    head = base_offset.to_bytes(8, "big") + length.to_bytes(4, "big")
    return head + leader_epoch.to_bytes(4, "big") + batch[16:]


def sealed(checked: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """The batch whose checksum covers these bytes."""
    length = CRC_FROM - LOG_OVERHEAD + len(checked)
    return _pack_start(base_offset, length, leader_epoch, MAGIC, _crc32c(checked)) + checked


def encoded_record(
    place: int,
    key: bytes | None,
    value: bytes | None,
    headers: PackedHeaders = NO_HEADERS,
    timestamp_delta: int = 0,
) -> bytes:
    """A record as it stands in a batch; `place` counts from 0, a value of None is a tombstone."""
    if (
        timestamp_delta
        or key is None
        or len(key) + len(value or b"") + len(headers) + place >= TABULATED - _FRAMING
    ):
        return _unusual_record(place, key, value, headers, timestamp_delta)
    number, key_size = VARINTS[place], VARINTS[len(key)]
    size = 2 + len(number) + len(key_size) + len(key) + len(headers)
    if value is None:
        return b"".join((VARINTS[size + 1], b"\0\0", number, key_size, key, b"\1", headers))
    value_size = VARINTS[len(value)]
    size += len(value_size) + len(value)
    return b"".join((VARINTS[size], b"\0\0", number, key_size, key, value_size, value, headers))


def _unusual_record(
    place: int,
    key: bytes | None,
    value: bytes | None,
    headers: PackedHeaders,
    timestamp_delta: int,
) -> bytes:
    """A record with nulls or a time of its own, or a long one."""
    parts = [b"\0", varint(timestamp_delta), varint(place)]
    parts += _NULL if key is None else (varint(len(key)), key)
    parts += _NULL if value is None else (varint(len(value)), value)
    parts.append(headers)
    body = b"".join(parts)
    return varint(len(body)) + body


_NULL: Final = (b"\x01",)


# --- walking ---


def read_header(buffer: bytes | memoryview, at: int = 0) -> BatchHeader:
    """The header at a position. Raises Malformed if it is cut off or not of magic 2."""
    if len(buffer) - at < HEADER_BYTES:
        raise Malformed(f"a batch header of {len(buffer) - at} bytes, expected {HEADER_BYTES}")
    header = BatchHeader._make(_HEADER.unpack_from(buffer, at))
    if header.magic != MAGIC:
        raise Malformed(f"a batch of magic {header.magic}, expected {MAGIC}")
    if header.batch_length < HEADER_BYTES - LOG_OVERHEAD or header.last_offset_delta < 0:
        raise Malformed(
            f"a batch of length {header.batch_length} with last offset delta "
            f"{header.last_offset_delta}"
        )
    return header


def check_crc(header: BatchHeader, buffer: bytes | memoryview, at: int = 0) -> None:
    """Hold a batch against its checksum. Raises Malformed."""
    end = at + header.size
    if len(buffer) < end:
        raise Malformed(f"a batch of {header.size} bytes, {len(buffer) - at} are there")
    found = crc32c(memoryview(buffer)[at + CRC_FROM : end])
    if found != header.crc:
        raise Malformed(f"a batch with checksum {header.crc:#x}, its bytes have {found:#x}")


def batches(buffer: bytes | memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; what is cut off at the end is left out.

    Raises Malformed for a header that makes no sense.
    """
    at = 0
    while len(buffer) - at >= HEADER_BYTES:
        header = read_header(buffer, at)
        if len(buffer) - at < header.size:
            return
        yield at, header
        at += header.size


def batch_length(buffer: bytes | memoryview, at: int = 0) -> int:
    """Bytes of the batch at a position, of which only the first twelve are looked at."""
    return LOG_OVERHEAD + int(_LENGTH.unpack_from(buffer, at)[1])
