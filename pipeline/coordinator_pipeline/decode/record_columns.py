"""Builds Arrow columns of `records` from record arrays, and only the selected ones."""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from coordinator_pipeline.decode import arrow_arrays
from coordinator_pipeline.decode.byte_arrays import Flags, Ints
from coordinator_pipeline.decode.group_arrays import GroupArrays, TextSpans, read_group_values
from coordinator_pipeline.decode.offset_arrays import (
    OffsetKeyArrays,
    OffsetValueArrays,
    read_offset_keys,
    read_offset_values,
)
from coordinator_pipeline.decode.record_arrays import HeaderArrays, RecordArrays, find_headers
from coordinator_pipeline.decode.row_decoder import assigned_of, history_text, topics_of
from coordinator_pipeline.records_schema import HISTORY_KIND, MEMBER
from coordinator_protocol.batch import NO_PRODUCER_ID
from coordinator_protocol.errors import Malformed

TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
NO_KIND: Final = -1
"""The kind of markers and of records whose key is null or shorter than two bytes."""


class RecordColumns:
    """Builds the columns of records; rows that are not `sound` hold arbitrary values."""

    def __init__(self, records: RecordArrays) -> None:
        self._records = records
        data, size = records.data, records.key_size
        attributes = records.of_batch("attributes")
        self._transactional = (attributes & TRANSACTIONAL) != 0
        control: Flags = (attributes & CONTROL) != 0
        # A record without a producer belongs to no transaction, whatever the attributes say.
        self._has_producer = records.of_batch("producer_id") != NO_PRODUCER_ID
        self.control: Flags = control & self._has_producer
        kind = np.where((size >= 2) & ~self.control, data.int16(records.key_at), NO_KIND)
        self.kind: Ints = kind
        self._value = records.value_size >= 0
        self._is_offset = (kind == 0) | (kind == 1)
        self._is_group = kind == 2
        self._is_history = kind == HISTORY_KIND
        self._is_known = self._is_offset | self._is_group | self._is_history
        self.sound: Flags = self._find_sound()

    def _find_sound(self) -> Flags:
        records, kind = self._records, self.kind
        sound: Flags = (kind != NO_KIND) | (records.key_size < 0) | self.control
        if self.control.any():
            marker = records.data.int16(records.key_at + 2)
            known = (records.key_size >= 4) & ((marker == 0) | (marker == 1))
            sound &= ~self.control | known
        sound[self._offset_rows] &= self._places.sound
        sound[self._offset_value_rows] &= self._offsets.sound
        sound[self._group_rows] &= self._group_key_sound
        sound[self._group_value_rows] &= self._groups.sound
        if self._is_history.any():
            sound[self._history_rows] &= self._histories_sound()
        if records.headers.any():
            sound &= ~_repeats(records, self._headers)
        return sound

    # --- parts of the records, decoded on first use ---

    @cached_property
    def _offset_rows(self) -> Ints:
        return np.flatnonzero(self._is_offset)

    @cached_property
    def _places(self) -> OffsetKeyArrays:
        records, rows = self._records, self._offset_rows
        return read_offset_keys(records.data, records.key_at[rows], records.key_size[rows])

    @cached_property
    def _offset_value_rows(self) -> Ints:
        return np.flatnonzero(self._is_offset & self._value)

    @cached_property
    def _offsets(self) -> OffsetValueArrays:
        records, rows = self._records, self._offset_value_rows
        return read_offset_values(records.data, records.value_at[rows], records.value_size[rows])

    @cached_property
    def _group_rows(self) -> Ints:
        return np.flatnonzero(self._is_group)

    @cached_property
    def _group_key_sound(self) -> Flags:
        records, rows = self._records, self._group_rows
        size = records.data.int16(records.key_at[rows] + 2)
        sound: Flags = (records.key_size[rows] >= 4 + size) & (size >= 0)
        return sound & (records.key_size[rows] >= 4)

    @cached_property
    def _group_value_rows(self) -> Ints:
        return np.flatnonzero(self._is_group & self._value)

    @cached_property
    def _groups(self) -> GroupArrays:
        records, rows = self._records, self._group_value_rows
        return read_group_values(records.data, records.value_at[rows], records.value_size[rows])

    @cached_property
    def _history_rows(self) -> Ints:
        return np.flatnonzero(self._is_history)

    @cached_property
    def _history_generations(self) -> Ints:
        key_at = self._records.key_at[self._history_rows]
        size = self._records.data.int16(key_at + 2)
        return self._records.data.int32(key_at + 4 + np.maximum(size, 0))

    @cached_property
    def _histories(self) -> list[str | None]:
        """The histories as JSON; None for a tombstone and for a malformed value."""
        records, rows = self._records, self._history_rows
        raws = arrow_arrays.blobs(records.data, records.value_at[rows], records.value_size[rows])
        return [None if raw is None else _history_text(raw) for raw in raws.to_pylist()]

    def _histories_sound(self) -> Flags:
        records, rows = self._records, self._history_rows
        size = records.data.int16(records.key_at[rows] + 2)
        unread = np.array([text is None for text in self._histories]) & self._value[rows]
        sound: Flags = (size >= 0) & (records.key_size[rows] >= 16 + size) & ~unread
        return sound

    @cached_property
    def _headers(self) -> HeaderArrays:
        return find_headers(self._records)[0]

    # --- columns ---

    def build(self, schema: pa.Schema, identity: dict[str, int]) -> pa.RecordBatch:
        """Build the columns of a schema, a subset of RECORDS; `identity` has the constant ones."""
        columns = []
        for field in schema:
            if field.name in identity:
                values = np.full(len(self.kind), identity[field.name], np.int64)
                columns.append(arrow_arrays.numbers(values, field.type))
            else:
                columns.append(self._column(field.name, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, name: str, kind: pa.DataType) -> pa.Array:
        for of_part in (self._of_record, self._of_offset, self._of_group):
            found = of_part(name, kind)
            if found is not None:
                return found
        return pa.nulls(len(self.kind), kind)

    def _of_record(self, name: str, kind: pa.DataType) -> pa.Array | None:
        """Build a column that records of all kinds have."""
        records = self._records
        match name:
            case "log_offset":
                return arrow_arrays.numbers(records.offset, kind)
            case "ts":
                return arrow_arrays.times(records.timestamp, kind)
            case "kind":
                return arrow_arrays.numbers(self.kind, kind, self.kind != NO_KIND)
            case "tombstone":
                return pa.array(~self._value)
            case "bytes":
                size = np.maximum(records.key_size, 0) + np.maximum(records.value_size, 0)
                return arrow_arrays.numbers(size, kind)
            case "headers":
                return self._header_maps(kind)
            case "producer_id" | "producer_epoch":
                return arrow_arrays.numbers(records.of_batch(name), kind, self._has_producer)
            case "is_txn":
                return pa.array(self._transactional & self._has_producer)
            case "is_control":
                return pa.array(self.control)
            case "control_type":
                return self._control_type()
            case "raw_key":
                return self._raw(records.key_at, records.key_size)
            case "raw_value":
                return self._raw(records.value_at, records.value_size)
            case "value_version":
                known = self._value & (self._is_offset | self._is_group)
                return arrow_arrays.numbers(
                    np.where(known, records.data.int16(records.value_at), 0), kind, known
                )
            case "group_id":
                size = records.data.int16(records.key_at + 2)
                known = self.sound & self._is_known
                return arrow_arrays.texts(records.data, records.key_at + 4, size, known)
        return None

    def _of_offset(self, name: str, kind: pa.DataType) -> pa.Array | None:
        """Build a column of committed offsets."""
        rows = self._offset_value_rows
        match name:
            case "topic":
                where = TextSpans(self._places.topic_at, self._places.topic_size)
                return self._texts(self._offset_rows, where)
            case "partition":
                return self._numbers(self._offset_rows, self._places.partition, kind)
            case "committed_offset":
                return self._numbers(rows, self._offsets.offset, kind)
            case "leader_epoch":
                epoch = self._offsets.leader_epoch
                return self._numbers(rows, epoch, kind, none=-1)
            case "metadata":
                where = TextSpans(self._offsets.metadata_at, self._offsets.metadata_size)
                return self._texts(rows, where)
            case "commit_ts":
                return self._times(rows, self._offsets.commit_timestamp, kind)
            case "expire_ts":
                return self._times(rows, self._offsets.expire_timestamp, kind)
            case "topic_id":
                at, valid = self._spread(rows, self._offsets.topic_id_at)
                size = np.where(at >= 0, 16, -1)
                return arrow_arrays.blobs(self._records.data, at, size, valid & self.sound)
        return None

    def _of_group(self, name: str, kind: pa.DataType) -> pa.Array | None:
        """Build a column of groups and of rebalance histories."""
        rows = self._group_value_rows
        match name:
            case "protocol_type":
                return self._texts(rows, self._groups.protocol_type)
            case "generation":
                rows = np.concatenate([rows, self._history_rows])
                parts = [self._groups.generation, self._history_generations]
                return self._numbers(rows, np.concatenate(parts), kind)
            case "history":
                texts = np.full(len(self.kind), None, object)
                texts[self._history_rows] = self._histories
                return pa.array(texts, kind)
            case "protocol":
                return self._texts(rows, self._groups.protocol)
            case "leader":
                return self._texts(rows, self._groups.leader)
            case "state_ts":
                return self._times(rows, self._groups.state_timestamp, kind)
            case "members":
                return self._members(kind)
        return None

    def _spread(self, rows: Ints, values: Ints) -> tuple[Ints, Flags]:
        """Spread values of `rows` over all rows; the flags mark the rows with a value."""
        count = len(self.kind)
        if len(rows) == count and count == len(np.flatnonzero(rows == np.arange(count))):
            return values, np.ones(count, bool)
        all_values, valid = np.zeros(count, np.int64), np.zeros(count, bool)
        all_values[rows] = values
        valid[rows] = True
        return all_values, valid

    def _numbers(
        self, rows: Ints, values: Ints, kind: pa.DataType, *, none: int | None = None
    ) -> pa.Array:
        spread, valid = self._spread(rows, values)
        if none is not None:
            valid = valid & (spread != none)
        return arrow_arrays.numbers(spread, kind, valid & self.sound)

    def _times(self, rows: Ints, values: Ints, kind: pa.DataType) -> pa.Array:
        spread, valid = self._spread(rows, values)
        return arrow_arrays.times(spread, kind, valid & self.sound)

    def _texts(self, rows: Ints, where: TextSpans) -> pa.Array:
        at, valid = self._spread(rows, where.at)
        size, _ = self._spread(rows, where.size)
        return arrow_arrays.texts(self._records.data, at, size, valid & self.sound)

    def _control_type(self) -> pa.Array:
        if not self.control.any():
            return pa.nulls(len(self.control), pa.string())
        commits = self._records.data.int16(self._records.key_at + 2) == 1
        known = self.control & self.sound
        return pa.array(np.where(commits, "commit", "abort"), pa.string(), mask=~known)

    def _raw(self, at: Ints, size: Ints) -> pa.Array:
        """Copy the keys or values of records of unknown kinds."""
        undecoded = ~(self._is_known | self.control)
        if not undecoded.any():
            return pa.nulls(len(undecoded), pa.binary())
        return arrow_arrays.blobs(self._records.data, at, size, undecoded)

    def _header_maps(self, kind: pa.DataType) -> pa.Array:
        records = self._records
        if not records.headers.any():
            return pa.nulls(len(records.headers), kind)
        found = self._headers
        keep = self.sound[found.record]
        found = HeaderArrays(*(column[keep] for column in found))
        counts = np.bincount(found.record, minlength=len(records.headers))
        names = arrow_arrays.texts(records.data, found.name_at, found.name_size)
        values = arrow_arrays.texts(records.data, found.value_at, found.value_size)
        ends = arrow_arrays.list_ends(counts)
        return pa.MapArray.from_arrays(
            ends, names, values, kind, mask=arrow_arrays.mask(counts > 0)
        )

    def _members(self, kind: pa.DataType) -> pa.Array:
        rows, groups = self._group_value_rows, self._groups
        values = self._member_structs()
        count, valid = self._spread(rows, np.where(self.sound[rows], groups.member_count, 0))
        dropped = ~self.sound[rows]
        if dropped.any():
            of_group = np.repeat(np.arange(len(rows)), groups.member_count)
            values = values.filter(pa.array(~dropped[of_group]))
        mask = arrow_arrays.mask(valid & self.sound)
        return pa.ListArray.from_arrays(arrow_arrays.list_ends(count), values, kind, mask=mask)

    def _member_structs(self) -> pa.Array:
        members, data = self._groups.members, self._records.data
        timeout = members.rebalance_timeout
        return pa.StructArray.from_arrays(
            [
                *(arrow_arrays.texts(data, *where) for where in members[:4]),
                arrow_arrays.numbers(timeout, pa.int32(), timeout != -1),
                arrow_arrays.numbers(members.session_timeout, pa.int32()),
                _decoded(arrow_arrays.blobs(data, *members.subscription), _topics, MEMBER[6].type),
                _decoded(arrow_arrays.blobs(data, *members.assignment), _assigned, MEMBER[7].type),
            ],
            fields=list(MEMBER),
        )


def _repeats(records: RecordArrays, headers: HeaderArrays) -> Flags:
    """Mark records with two headers of the same name: a map holds only the last."""
    repeats = np.zeros(len(records.headers), bool)
    if len(headers.record):
        names = arrow_arrays.blobs(records.data, headers.name_at, headers.name_size)
        codes = names.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        both = np.sort(headers.record * (int(codes.max()) + 1) + codes)
        same = both[1:][both[1:] == both[:-1]]
        repeats[same // (int(codes.max()) + 1)] = True
    return repeats


def _history_text(raw: bytes) -> str | None:
    try:
        return history_text(raw)
    except Malformed:
        return None


_CACHE_ENTRIES: Final = 10_000
_LARGEST_CACHED: Final = 1024
"""Larger values are not cached: 10,000 entries of ten times this size are 100 MiB."""
_cached_topics: Final = lru_cache(_CACHE_ENTRIES)(topics_of)
_cached_assigned: Final = lru_cache(_CACHE_ENTRIES)(assigned_of)


def _topics(raw: bytes) -> Any:
    return _cached_topics(raw) if len(raw) <= _LARGEST_CACHED else topics_of(raw)


def _assigned(raw: bytes) -> Any:
    return _cached_assigned(raw) if len(raw) <= _LARGEST_CACHED else assigned_of(raw)


def _decoded(raws: pa.Array, decode: Callable[[bytes], Any], kind: pa.DataType) -> pa.Array:
    """Decode subscriptions or assignments, each distinct value once."""
    encoded = raws.dictionary_encode()
    distinct = pa.array([decode(raw) for raw in encoded.dictionary.to_pylist()], kind)
    return distinct.take(encoded.indices)
