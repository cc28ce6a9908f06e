"""Many records at once, with numpy: where their parts are, and the numbers in committed offsets.

The i-th record of every batch is found in one step, everything else in one step for all records. It
is numpy's only place in this package and imported by nobody here: who asks for it has numpy. What
looks unusual is pointed out, never guessed at, for the readers of `batch_records` and `records`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator_protocol.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader
from coordinator_protocol.batch_records import MAX_DECOMPRESSED_BYTES
from coordinator_protocol.compression import decompress
from coordinator_protocol.errors import Malformed

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

TOO_LONG: Final = -(1 << 62)
"""Instead of a varint of more than nine bytes."""
_FEW: Final = 24
"""So many batches are walked one after the other rather than side by side."""
_PAD: Final = bytes(16)
"""Behind the bytes, so that every number within them can be read in one go."""


class Bytes:
    """A buffer and the numbers at many of its positions; positions outside give nonsense."""

    def __init__(self, buffer: bytes) -> None:
        self.buffer = buffer
        padded = buffer + _PAD
        size = len(buffer) + 1
        self._last = len(buffer)
        self._uint8 = np.frombuffer(padded, np.uint8)
        self._int16 = np.ndarray(size, ">i2", padded, strides=(1,))
        self._int32 = np.ndarray(size, ">i4", padded, strides=(1,))
        self._int64 = np.ndarray(size, ">i8", padded, strides=(1,))

    def __len__(self) -> int:
        return len(self.buffer)

    def uint8(self, at: Ints) -> Ints:
        """Bytes."""
        return self._uint8.take(at, mode="clip").astype(np.int64)

    def int16(self, at: Ints) -> Ints:
        """Signed numbers of two bytes."""
        return self._int16[np.clip(at, 0, self._last)].astype(np.int64)

    def int32(self, at: Ints) -> Ints:
        """Signed numbers of four bytes."""
        return self._int32[np.clip(at, 0, self._last)].astype(np.int64)

    def int64(self, at: Ints) -> Ints:
        """Signed numbers of eight bytes."""
        return self._int64[np.clip(at, 0, self._last)].astype(np.int64)

    def uvarints(self, at: Ints) -> tuple[Ints, Ints]:
        """Unsigned varints, and the positions behind them; TOO_LONG above nine bytes."""
        number = self.uint8(at)
        behind = at + 1
        more = np.flatnonzero(number > 0x7F)
        if more.size:
            number[more] &= 0x7F
            self._continue(number, behind, more)
        return number, behind

    def _continue(self, number: Ints, behind: Ints, more: Ints) -> None:
        for shift in range(7, 63, 7):
            byte = self.uint8(behind[more])
            behind[more] += 1
            number[more] |= (byte & 0x7F) << shift
            more = more[byte > 0x7F]
            if not more.size:
                return
        number[more] = TOO_LONG

    def varints(self, at: Ints) -> tuple[Ints, Ints]:
        """Zigzag varints, and the positions behind them; TOO_LONG above nine bytes."""
        number, behind = self.uvarints(at)
        return np.where(number == TOO_LONG, TOO_LONG, (number >> 1) ^ -(number & 1)), behind


class Bodies(NamedTuple):
    """The records of batches as bytes: what was compressed lies behind the rest."""

    data: Bytes
    begin: Ints
    end: Ints
    damaged: Sequence[int]
    """Indexes of batches that could not be decompressed."""


def bodies(buffer: bytes, spans: Sequence[tuple[int, BatchHeader]]) -> Bodies:
    """Where the records of batches are, by position and header, decompressed if need be."""
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
    return Bodies(Bytes(b"".join(parts) if len(parts) > 1 else buffer), begin, end, damaged)


class Records(NamedTuple):
    """The records of batches, in order; an array has one element for each."""

    data: Bytes
    headers_of_batches: Ints
    """A row for each batch, the columns are the fields of its header."""
    batch: Ints
    """Index of its batch."""
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
    """How many."""
    end: Ints

    def where(self, chosen: Ints | Flags) -> "Records":
        """Some of the records, by a mask or by their indexes."""
        data, headers, *columns = self
        return Records(data, headers, *(column[chosen] for column in columns))

    def of_batch(self, name: str) -> Ints:
        """A field of the header of each record's batch."""
        return of_batches(self.headers_of_batches, name)[self.batch]


def of_batches(headers: Ints, name: str) -> Ints:
    """A field of the headers of batches."""
    return headers[:, BatchHeader._fields.index(name)]


def find_records(buffer: bytes, spans: Sequence[tuple[int, BatchHeader]]) -> tuple[Records, Ints]:
    """The records of batches, and which batches were left out as unusual or damaged."""
    data, begin, end, damaged = bodies(buffer, spans)
    headers = np.array([header for _, header in spans], np.int64).reshape(len(spans), -1)
    count = of_batches(headers, "records").copy()
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


def _walk(data: Bytes, begin: Ints, end: Ints, count: Ints, bad: Flags) -> tuple[Ints, Ints]:
    """Where every record begins and ends, behind its length; marks batches that do not add up."""
    first = np.cumsum(count) - count
    start = np.zeros(int(count.sum()), np.int64)
    stop = np.zeros_like(start)
    order = np.argsort(-count, kind="stable")
    at = begin.copy()
    sorted_counts = -count[order]
    number = 0
    while (active := int(np.searchsorted(sorted_counts, -number))) > _FEW:
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
    """The same for what is left of one batch; returns where the last record ends, -1 for none."""
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
    data: Bytes, batch: Ints, start: Ints, stop: Ints, headers: Ints
) -> tuple[Records, Flags]:
    """The parts of records, and which of them are sound."""
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
    records = Records(
        data,
        headers,
        batch,
        of_batches(headers, "base_offset")[batch] + delta,
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
    time = of_batches(headers, "base_timestamp")[batch] + delta
    at_append = (of_batches(headers, "attributes") & LOG_APPEND_TIME) != 0
    if at_append.any():
        latest = of_batches(headers, "max_timestamp")[batch]
        return np.where(at_append[batch], latest, time)
    return time


class Headers(NamedTuple):
    """The headers of records; an array has one element for each header, in order."""

    record: Ints
    """Index of its record."""
    name_at: Ints
    name_size: Ints
    value_at: Ints
    value_size: Ints


def find_headers(records: Records) -> tuple[Headers, Flags]:
    """The headers of records, and which records' are sound."""
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
        return Headers(empty, empty, empty, empty, empty), sound
    columns = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    order = order[sound[columns[0][order]]]
    return Headers(*(column[order] for column in columns)), sound


class Places(NamedTuple):
    """Keys of committed offsets, one element for each."""

    group_at: Ints
    group_size: Ints
    topic_at: Ints
    topic_size: Ints
    partition: Ints
    sound: Flags


def offset_places(data: Bytes, at: Ints, size: Ints) -> Places:
    """Reads keys of types 0 and 1 at positions, of so many bytes."""
    end = at + size
    group_at = at + 4
    group_size = data.int16(at + 2)
    sound = (size >= 4) & (group_size >= 0)
    topic_at = np.where(sound, group_at + group_size + 2, 0)
    topic_size = data.int16(topic_at - 2)
    behind = topic_at + topic_size
    sound &= (topic_at <= end) & (topic_size >= 0) & (behind + 4 <= end)
    return Places(group_at, group_size, topic_at, topic_size, data.int32(behind), sound)


class Offsets(NamedTuple):
    """Values of committed offsets, one element for each; -1 is none, as in the records."""

    version: Ints
    offset: Ints
    leader_epoch: Ints
    metadata_at: Ints
    metadata_size: Ints
    commit_timestamp: Ints
    expire_timestamp: Ints
    topic_id_at: Ints
    """-1 for none."""
    sound: Flags
    """Whether all of it could be read; tagged fields that are not known are not."""


def offset_values(data: Bytes, at: Ints, size: Ints) -> Offsets:
    """Reads values of versions 0 to 4 at positions, of so many bytes."""
    end = at + size
    version = data.int16(at)
    flexible = version == 4
    with_epoch = version >= 3
    text_at = at + np.where(with_epoch, 14, 10)
    metadata_at, metadata_size = text_at + 2, data.int16(text_at)
    if flexible.any():
        size_and_one, behind = data.uvarints(np.where(flexible, text_at, at))
        metadata_at = np.where(flexible, behind, metadata_at)
        metadata_size = np.where(flexible, size_and_one - 1, metadata_size)
    sound = (version >= 0) & (version <= 4) & (metadata_at <= text_at + 5) & (metadata_size >= 0)
    time_at = np.where(sound, metadata_at + metadata_size, 0)
    behind = time_at + 8
    expires = version == 1
    expire = np.where(expires, data.int64(behind), -1) if expires.any() else np.full(len(at), -1)
    topic_id_at = np.full(len(at), -1)
    behind = behind + np.where(expires, 8, 0) + flexible
    if flexible.any():
        tagged = np.flatnonzero(flexible & sound & (data.uint8(behind - 1) != 0))
        if tagged.size:
            here = behind[tagged]
            plain = (data.uint8(here - 1) == 1) & (data.int16(here) == 0x10)
            plain &= (data.int64(here + 2) != 0) | (data.int64(here + 10) != 0)
            sound[tagged[~plain]] = False
            topic_id_at[tagged] = here + 2
            behind[tagged] = here + 18
    sound &= behind <= end
    return Offsets(
        version,
        data.int64(at + 2),
        np.where(with_epoch, data.int32(at + 10), -1),
        metadata_at,
        metadata_size,
        data.int64(time_at),
        expire,
        topic_id_at,
        sound,
    )
