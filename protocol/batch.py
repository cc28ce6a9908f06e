"""RecordBatch v2: the unit in which records are produced, stored and fetched.

Writing, walking and reading; batches of clients are decompressed within a bound. Offsets and the
partition leader epoch are not part of the checksum and may be stamped in place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.compression import decompress
from protocol.errors import Malformed

MAGIC: Final = 2
HEADER_BYTES: Final = 61
LOG_OVERHEAD: Final = 12
"""Base offset and length, which come before what the length counts."""

NO_PRODUCER_ID: Final = -1
_COMPRESSION, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_CRC_AT, _CRC_FROM = 17, 21

_HEADER = Struct(">qiibIhiqqqhii")
_CHECKED = Struct(">hiqqqhii")
"""What the checksum covers of the header."""
_START = Struct(">qiibI")
_LENGTH = Struct(">qi")

Header = tuple[str, bytes]


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
    """How many."""

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
        return self.attributes & _COMPRESSION

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether this is a transaction marker."""
        return bool(self.attributes & _CONTROL)


# --- writing ---


def build_batch(records: Sequence[LogRecord], base_offset: int = 0, leader_epoch: int = 0) -> bytes:
    """One uncompressed batch of at least one record; the first one's producer is the batch's."""
    first = records[0]
    base_timestamp = first.timestamp
    body = b"".join(
        [_record(record, delta, base_timestamp) for delta, record in enumerate(records)]
    )
    checked = (
        _CHECKED.pack(
            (_TRANSACTIONAL if first.transactional else 0) | (_CONTROL if first.control else 0),
            len(records) - 1,
            base_timestamp,
            max(record.timestamp for record in records),
            first.producer_id,
            first.producer_epoch,
            -1,
            len(records),
        )
        + body
    )
    length = HEADER_BYTES - LOG_OVERHEAD + len(body)
    return _START.pack(base_offset, length, leader_epoch, MAGIC, crc32c(checked)) + checked


def stamped(batch: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """The same batch at another offset."""
    length = int.from_bytes(batch[8:12], "big")
    head = base_offset.to_bytes(8, "big") + length.to_bytes(4, "big")
    return head + leader_epoch.to_bytes(4, "big") + batch[16:]


def _record(record: LogRecord, delta: int, base_timestamp: int) -> bytes:
    parts = [b"\0", _varint(record.timestamp - base_timestamp), _varint(delta)]
    for blob in (record.key, record.value):
        parts.append(b"\x01" if blob is None else _varint(len(blob)) + blob)
    if record.headers:
        parts.append(_varint(len(record.headers)))
        for name, value in record.headers:
            raw = name.encode()
            parts += (_varint(len(raw)), raw, _varint(len(value)), value)
    else:
        parts.append(b"\0")
    body = b"".join(parts)
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    """A zigzag varint."""
    number = number << 1 if number >= 0 else (-number << 1) - 1
    if number < 0x80:
        return _ONE_BYTE[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_ONE_BYTE: Final = [bytes((number,)) for number in range(0x80)]


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
    found = crc32c(memoryview(buffer)[at + _CRC_FROM : end])
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


# --- reading ---


def read_records(
    header: BatchHeader, buffer: bytes | memoryview, at: int = 0, max_bytes: int = 1 << 30
) -> list[LogRecord]:
    """The records of a batch, decompressed to at most `max_bytes`. Raises Malformed."""
    body = bytes(memoryview(buffer)[at + HEADER_BYTES : at + header.size])
    if header.compression:
        body = decompress(header.compression, body, max_bytes)
    if not 0 <= header.records <= len(body):
        raise Malformed(f"a batch of {header.records} records in {len(body)} bytes")
    shared = (
        header.producer_id,
        header.producer_epoch,
        header.is_transactional,
        header.is_control,
    )
    timestamp = header.max_timestamp if header.attributes & _LOG_APPEND_TIME else None
    records, position = [], 0
    try:
        for _ in range(header.records):
            record, position = _read_record(body, position, header, timestamp, shared)
            records.append(record)
    except (IndexError, UnicodeDecodeError) as error:
        raise Malformed(f"a batch whose records end early or make no sense: {error}") from error
    return records


def _read_record(
    body: bytes,
    at: int,
    header: BatchHeader,
    timestamp: int | None,
    shared: tuple[int, int, bool, bool],
) -> tuple[LogRecord, int]:
    size, at = _read_varint(body, at)
    end = at + size
    if size < 0 or end > len(body):
        raise Malformed(f"a record of {size} bytes, {len(body) - at} are there")
    timestamp_delta, at = _read_varint(body, at + 1)
    offset_delta, at = _read_varint(body, at)
    key, at = _read_blob(body, at, end)
    value, at = _read_blob(body, at, end)
    count, at = _read_varint(body, at)
    if not 0 <= count <= end - at:
        raise Malformed(f"a record with {count} headers in {end - at} bytes")
    headers = []
    for _ in range(count):
        name, at = _read_blob(body, at, end)
        header_value, at = _read_blob(body, at, end)
        headers.append(((name or b"").decode(), header_value or b""))
    if at != end:
        raise Malformed(f"a record of {size} bytes that ends {end - at} bytes early")
    when = header.base_timestamp + timestamp_delta if timestamp is None else timestamp
    offset = header.base_offset + offset_delta
    return LogRecord(key, value, when, tuple(headers), offset, *shared), end


def _read_blob(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = _read_varint(body, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise Malformed(f"a field of {size} bytes, {end - at} are there")
    return body[at : at + size], at + size


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    byte = body[at]
    at += 1
    number = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > 63:
            raise Malformed("a varint of more than 10 bytes")
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), at
