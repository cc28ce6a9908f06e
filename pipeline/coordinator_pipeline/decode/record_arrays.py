"""Finds the records of batches, and their parts, with numpy.

One step finds the i-th record of every batch; then one step per field reads all records. Batches
and records that look unusual are marked, and `row_decoder` decodes them one by one.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from coordinator_pipeline.decode.byte_arrays import TOO_LONG, ByteBuffer, Flags, Ints
from coordinator_protocol.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader
from coordinator_protocol.batch_records import MAX_DECOMPRESSED_BYTES
from coordinator_protocol.compression import decompress
from coordinator_protocol.errors import Malformed

_SINGLE_WALK_BATCHES: Final = 24
"""So few remaining batches are walked one by one: a numpy step costs more than their bytes."""


class BatchBodies(NamedTuple):
    """The bytes of the records of batches; decompressed bytes follow the others."""

    data: ByteBuffer
    begin: Ints
    end: Ints
    damaged: Sequence[int]
    """Indexes of batches that could not be decompressed."""


def read_bodies(buffer: bytes, spans: Sequence[tuple[int, BatchHeader]]) -> BatchBodies:
    """Locate the records of batches, given as positions and headers, and decompress them."""
    begin = np.array([at for at, _ in spans], np.int64) + HEADER_BYTES
    end = np.array([at + header.size for at, header in spans], np.int64)
    damaged = []
    parts, size = [buffer], len(buffer)
    for number, (at, header) in enumerate(spans):
        if not header.compression:
            continue
        try:
            body = buffer[at + HEADER_BYTES : at + header.size]
            parts.append(decompress(header.compression, body, MAX_DECOMPRESSED_BYTES))
        except Malformed:
            damaged.append(number)
            parts.append(b"")
        begin[number], size = size, size + len(parts[-1])
        end[number] = size
    return BatchBodies(
        ByteBuffer(b"".join(parts) if len(parts) > 1 else buffer), begin, end, damaged
    )


class RecordArrays(NamedTuple):
    """The records of batches, in order; an array has one element for each."""

    data: ByteBuffer
    headers_of_batches: Ints
    """A row for each batch, the columns are the fields of its header."""
    batch: Ints
    """Index of the record's batch."""
    offset: Ints
    timestamp: Ints
    key_at: Ints
    key_size: Ints
    """-1 for null."""
    value_at: Ints
    value_size: Ints
    """-1 for null."""
    headers_at: Ints
    headers: Ints
    """Number of headers."""
    end: Ints

    def where(self, chosen: Ints | Flags) -> "RecordArrays":
        """Select records by a mask or by their indexes."""
        data, headers, *columns = self
        return RecordArrays(data, headers, *(column[chosen] for column in columns))

    def of_batch(self, name: str) -> Ints:
        """Return a field of the header of each record's batch."""
        return batch_field(self.headers_of_batches, name)[self.batch]


def batch_field(headers: Ints, name: str) -> Ints:
    """Return one field of batch headers; `headers` has a row for each batch."""
    return headers[:, BatchHeader._fields.index(name)]


def find_records(
    buffer: bytes, spans: Sequence[tuple[int, BatchHeader]]
) -> tuple[RecordArrays, Ints]:
    """Return the records of batches, and the indexes of the unusual or damaged batches left out."""
    data, begin, end, damaged = read_bodies(buffer, spans)
    headers = np.array([header for _, header in spans], np.int64).reshape(len(spans), -1)
    count = batch_field(headers, "records").copy()
    bad = (count < 0) | (count > end - begin)
    bad[list(damaged)] = True
    count[bad] = 0
    start, stop = _walk(data, begin, end, count, bad)
    batch = np.repeat(np.arange(len(spans)), count)
    records, sound = _parts(data, batch, start, stop, headers)
    bad[batch[~sound]] = True
    if records.headers.any():
        bad[batch[~find_headers(records)[1] & sound]] = True
    if bad.any():
        records = records.where(~bad[batch])
    return records, np.flatnonzero(bad)


def _walk(data: ByteBuffer, begin: Ints, end: Ints, count: Ints, bad: Flags) -> tuple[Ints, Ints]:
    """Find where each record begins, after its length, and ends; mark bad batches."""
    first = np.cumsum(count) - count
    start = np.zeros(int(count.sum()), np.int64)
    stop = np.zeros_like(start)
    order = np.argsort(-count, kind="stable")
    at = begin.copy()
    sorted_counts = -count[order]
    number = 0
    while (active := int(np.searchsorted(sorted_counts, -number))) > _SINGLE_WALK_BATCHES:
        batches = order[:active]
        size, body = data.varints(at[batches])
        behind = body + size
        wrong = (size < 0) | (behind > end[batches])
        if wrong.any():
            bad[batches[wrong]] = True
            behind[wrong] = at[batches][wrong]
        start[first[batches] + number] = body
        stop[first[batches] + number] = behind
        at[batches] = behind
        number += 1
    for batch in order[:active].tolist():
        at[batch] = _walk_one(
            data.buffer,
            int(at[batch]),
            int(end[batch]),
            start[first[batch] + number : first[batch] + count[batch]],
            stop[first[batch] + number : first[batch] + count[batch]],
        )
    bad |= at != end
    return start, stop


def _walk_one(buffer: bytes, at: int, end: int, start: Ints, stop: Ints) -> int:
    """Walk the rest of one batch; returns the end of its last record, -1 if it is inconsistent."""
    starts, stops = [], []
    for _ in range(len(start)):
        if at >= end:
            return -1
        size = buffer[at]
        at += 1
        if size > 0x7F:
            size &= 0x7F
            shift = 7
            while True:
                if at >= end or shift > 56:
                    return -1
                byte = buffer[at]
                at += 1
                size |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
        starts.append(at)
        at += (size >> 1) ^ -(size & 1)
        if size & 1 or at > end:
            return -1
        stops.append(at)
    start[:] = starts
    stop[:] = stops
    return at


def _parts(
    data: ByteBuffer, batch: Ints, start: Ints, stop: Ints, headers: Ints
) -> tuple[RecordArrays, Flags]:
    """Locate the parts of records; the flags mark the sound records."""
    time, at = data.varints(start + 1)
    delta, at = data.varints(at)
    sound = (time != TOO_LONG) & (delta != TOO_LONG)
    key_size, key_at = data.varints(at)
    at = key_at + np.maximum(key_size, 0)
    sound &= (key_size != TOO_LONG) & (at <= stop)
    value_size, value_at = data.varints(np.where(sound, at, 0))
    at = value_at + np.maximum(value_size, 0)
    sound &= (value_size != TOO_LONG) & (at < stop)
    count, at = data.varints(np.where(sound, at, 0))
    sound &= (count >= 0) & (count <= stop - at) & ((count > 0) | (at == stop))
    records = RecordArrays(
        data,
        headers,
        batch,
        batch_field(headers, "base_offset")[batch] + delta,
        _times(headers, batch, time),
        key_at,
        np.maximum(key_size, -1),
        value_at,
        np.maximum(value_size, -1),
        at,
        count,
        stop,
    )
    return records, sound


def _times(headers: Ints, batch: Ints, delta: Ints) -> Ints:
    time = batch_field(headers, "base_timestamp")[batch] + delta
    at_append = (batch_field(headers, "attributes") & LOG_APPEND_TIME) != 0
    if at_append.any():
        latest = batch_field(headers, "max_timestamp")[batch]
        return np.where(at_append[batch], latest, time)
    return time


class HeaderArrays(NamedTuple):
    """The headers of records; an array has one element for each header, in order."""

    record: Ints
    """Index of the header's record."""
    name_at: Ints
    name_size: Ints
    value_at: Ints
    value_size: Ints


def find_headers(records: RecordArrays) -> tuple[HeaderArrays, Flags]:
    """Locate the headers of records; the flags mark the records whose headers are sound."""
    data, at = records.data, records.headers_at.copy()
    sound = np.ones(len(at), bool)
    rows = np.flatnonzero(records.headers)
    found = []
    number = 0
    while rows.size:
        name_size, name_at = data.varints(at[rows])
        name_size = np.maximum(name_size, 0)
        value_size, value_at = data.varints(name_at + name_size)
        value_size = np.maximum(value_size, 0)
        at[rows] = value_at + value_size
        sound[rows[at[rows] > records.end[rows]]] = False
        found.append((rows, name_at, name_size, value_at, value_size))
        number += 1
        rows = rows[(records.headers[rows] > number) & sound[rows]]
    sound &= at == records.end
    if not found:
        empty = np.zeros(0, np.int64)
        return HeaderArrays(empty, empty, empty, empty, empty), sound
    columns = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    order = order[sound[columns[0][order]]]
    return HeaderArrays(*(column[order] for column in columns)), sound
