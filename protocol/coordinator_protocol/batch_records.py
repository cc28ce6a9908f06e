"""Reads the records of a RecordBatch; batches of clients are decompressed within a bound."""

from collections.abc import Generator, Iterator
from typing import Final

from coordinator_protocol.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    BatchHeader,
    LogRecord,
)
from coordinator_protocol.compression import decompress
from coordinator_protocol.errors import Malformed
from coordinator_protocol.record_headers import Header
from coordinator_protocol.varints import read_varint

MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024
"""Far more than anybody's `message.max.bytes`, and still no danger to the process."""


def read_records(
    header: BatchHeader,
    buffer: bytes | memoryview,
    at: int = 0,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[LogRecord]:
    """The records of a batch, decompressed to at most `max_bytes`. Raises Malformed."""
    return list(iter_records(header, buffer, at, max_bytes))


def iter_records(
    header: BatchHeader,
    buffer: bytes | memoryview,
    at: int = 0,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> Iterator[LogRecord]:
    """The records of a batch one by one, for batches too long to be read in one go.

    Raises Malformed, which for damage in the middle may come after some records.
    """
    body = batch_body(header, buffer, at, max_bytes)
    count = header.records
    timestamp = _append_time(header)
    position = 0
    if timestamp is None and header.producer_id == NO_PRODUCER_ID:
        position = yield from _iter_plain(body, header, count)
    else:
        for _ in range(count):
            record, position = _read_record(body, position, header, timestamp)
            yield record
    check_all_read(header, body, position)


def batch_body(
    header: BatchHeader,
    buffer: bytes | memoryview,
    at: int = 0,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """The bytes of a batch's records, decompressed to at most `max_bytes`. Raises Malformed."""
    body = bytes(memoryview(buffer)[at + HEADER_BYTES : at + header.size])
    if header.compression:
        body = decompress(header.compression, body, max_bytes)
    if not 0 <= header.records <= len(body):
        raise Malformed(f"a batch of {header.records} records in {len(body)} bytes")
    return body


def read_record(header: BatchHeader, body: bytes, at: int) -> tuple[LogRecord, int]:
    """The record at a position of a batch's body, and where it ends. Raises Malformed."""
    return _read_record(body, at, header, _append_time(header))


def check_all_read(header: BatchHeader, body: bytes, end: int) -> None:
    """Whether the last record ends where the body does. Raises Malformed."""
    if end != len(body):
        raise Malformed(f"{len(body) - end} bytes after the last of {header.records} records")


def _append_time(header: BatchHeader) -> int | None:
    """The time of all records, if they have none of their own."""
    return header.max_timestamp if header.attributes & LOG_APPEND_TIME else None


def _iter_plain(body: bytes, header: BatchHeader, count: int) -> Generator[LogRecord, None, int]:
    """The records of a batch outside of transactions; returns where the last one ends.

    A load is made of these, so their varints of up to two bytes are read in place, for speed, as in
    offset_commit_scanner.py; a test compares the two. `seen` gathers what has none of those: a null
    is odd, a number of three bytes above 0x3FFF.
    """
    base_offset, base_timestamp, length = header.base_offset, header.base_timestamp, len(body)
    end = 0
    for _ in range(count):
        begin = at = end
        try:
            if (size := body[at]) > 0x7F:
                at += 1
                size += (body[at] - 1) << 7
            end = at + 1 + (size >> 1)
            at += 2
            if (time := body[at]) > 0x7F:
                at += 1
                time += (body[at] - 1) << 7
            at += 1
            if (delta := body[at]) > 0x7F:
                at += 1
                delta += (body[at] - 1) << 7
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
            value_end = at + (value_size >> 1)
            seen = size | time | delta | key_size | value_size
            headers = body[value_end]
        except IndexError:
            seen = 1
        if seen & 1 or seen > 0x3FFF or headers or value_end + 1 != end or end > length:
            record, end = _read_record(body, begin, header, None)
            yield record
        else:
            yield LogRecord(
                body[key_at:key_end],
                body[at:value_end],
                base_timestamp + (time >> 1),
                (),
                base_offset + (delta >> 1),
            )
    return end


def _read_record(
    body: bytes, at: int, header: BatchHeader, timestamp: int | None
) -> tuple[LogRecord, int]:
    try:
        return _read_any_record(body, at, header, timestamp)
    except IndexError as error:
        raise Malformed(f"a record that is cut off at {len(body)}") from error


def _read_any_record(
    body: bytes, at: int, header: BatchHeader, timestamp: int | None
) -> tuple[LogRecord, int]:
    size, at = read_varint(body, at)
    end = at + size
    if size < 0 or end > len(body):
        raise Malformed(f"a record of {size} bytes, {len(body) - at} are there")
    timestamp_delta, at = read_varint(body, at + 1)
    offset_delta, at = read_varint(body, at)
    key, at = read_blob(body, at, end)
    value, at = read_blob(body, at, end)
    headers: tuple[Header, ...] = ()
    if body[at]:
        headers, at = _read_headers(body, at, end)
    else:
        at += 1
    if at != end:
        raise Malformed(f"a record of {size} bytes whose fields have {end - at} fewer")
    record = LogRecord(
        key,
        value,
        header.base_timestamp + timestamp_delta if timestamp is None else timestamp,
        headers,
        header.base_offset + offset_delta,
    )
    if header.producer_id != NO_PRODUCER_ID:
        record.producer_id = header.producer_id
        record.producer_epoch = header.producer_epoch
        record.transactional = header.is_transactional
        record.control = header.is_control
    return record, end


def _read_headers(body: bytes, at: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, at = read_varint(body, at)
    if not 0 <= count <= end - at:
        raise Malformed(f"a record with {count} headers in {end - at} bytes")
    headers = []
    for _ in range(count):
        name, at = read_blob(body, at, end)
        value, at = read_blob(body, at, end)
        headers.append(((name or b"").decode("utf-8", "replace"), value or b""))
    return tuple(headers), at


def read_blob(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """The key, value or header at a position of a record, and where it ends. Raises Malformed."""
    size = body[at]
    if size < 0x80 and not size & 1:
        size >>= 1
        at += 1
    else:
        size, at = read_varint(body, at)
        if size < 0:
            return None, at
    if at + size > end:
        raise Malformed(f"a field of {size} bytes, {end - at} are there")
    return body[at : at + size], at + size
