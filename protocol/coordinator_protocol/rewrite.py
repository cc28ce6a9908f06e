"""Rewrites a stored batch with fewer records: what compaction does to it.

Records are carried over as bytes, with their offsets, headers and timestamps; only their timestamp
deltas change when the batch gets a delete horizon, which takes the place of its base timestamp.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from coordinator_protocol.batch import (
    CHECKED,
    COMPRESSION,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    sealed,
)
from coordinator_protocol.batch_records import MAX_DECOMPRESSED_BYTES, read_blob
from coordinator_protocol.compression import decompress
from coordinator_protocol.errors import Malformed
from coordinator_protocol.varints import read_varint, varint

_DELETE_HORIZON: Final = 0x40


class RawRecord(NamedTuple):
    """A record as far as compaction looks at it."""

    offset: int
    timestamp: int
    """The timestamp of its delta, for every timestamp type of the batch."""
    key: bytes | None
    is_tombstone: bool
    attributes: bytes
    tail: bytes
    """Everything behind the timestamp delta."""


def delete_horizon(header: BatchHeader) -> int | None:
    """From when on the tombstones of a batch may go, in wall-clock ms; None before compaction."""
    return header.base_timestamp if header.attributes & _DELETE_HORIZON else None


def raw_records(header: BatchHeader, buffer: bytes, at: int = 0) -> Iterator[RawRecord]:
    """The records of a batch, decompressed. Raises Malformed."""
    body = buffer[at + HEADER_BYTES : at + header.size]
    if header.compression:
        body = decompress(header.compression, body, MAX_DECOMPRESSED_BYTES)
    position = 0
    for _ in range(header.records):
        try:
            record, position = _raw_record(body, position, header)
        except IndexError as error:
            raise Malformed(f"a record that is cut off at {len(body)}") from error
        yield record
    if position != len(body):
        raise Malformed(f"{len(body) - position} bytes after the last of {header.records} records")


def _raw_record(body: bytes, at: int, header: BatchHeader) -> tuple[RawRecord, int]:
    size, at = read_varint(body, at)
    end = at + size
    if size < 0 or end > len(body):
        raise Malformed(f"a record of {size} bytes, {len(body) - at} are there")
    attributes = body[at : at + 1]
    timestamp_delta, tail_at = read_varint(body, at + 1)
    offset_delta, at = read_varint(body, tail_at)
    key, at = read_blob(body, at, end)
    value_size, _ = read_varint(body, at)
    record = RawRecord(
        header.base_offset + offset_delta,
        header.base_timestamp + timestamp_delta,
        key,
        value_size < 0,
        attributes,
        body[tail_at:end],
    )
    return record, end


def rewritten(header: BatchHeader, records: Sequence[RawRecord], horizon: int | None) -> bytes:
    """The batch with these of its records, uncompressed, over the same range of offsets.

    `horizon` is the delete horizon it has from now on, in wall-clock ms.
    """
    base_timestamp = header.base_timestamp if horizon is None else horizon
    parts: list[bytes] = []
    for record in records:
        delta = varint(record.timestamp - base_timestamp)
        size = varint(1 + len(delta) + len(record.tail))
        parts += (size, record.attributes, delta, record.tail)
    body = b"".join(parts)
    attributes = header.attributes & ~(COMPRESSION | _DELETE_HORIZON)
    max_timestamp = header.max_timestamp
    if records and not attributes & LOG_APPEND_TIME:
        max_timestamp = max(record.timestamp for record in records)
    checked = (
        CHECKED.pack(
            attributes if horizon is None else attributes | _DELETE_HORIZON,
            header.last_offset_delta,
            base_timestamp,
            max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            len(records),
        )
        + body
    )
    return sealed(checked, header.base_offset, header.partition_leader_epoch)
