"""The quick way through a load makes of every history what the plain way makes of it."""

import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_protocol.batch import LogRecord, build_batch, read_header
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.errors import Malformed
from coordinator_protocol.offset_commit_scanner import OffsetRun
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    encode_key,
    encode_value,
)
from coordinator_server.group.replay import apply
from coordinator_server.runtime import loader as loading
from coordinator_server.runtime.loader import Loader
from coordinator_server.storage.base import LoadedRecords
from coordinator_server.storage.segments import batch_reader
from coordinator_server.storage.segments.batch_reader import RunReader
from tests.support.classic import classic_of

WALL = 1_700_000_000_000
GROUPS, TOPICS = st.sampled_from(["a", "é"]), st.sampled_from(["x", "x", "x", "\ufffd"])
VALUES = st.builds(
    OffsetCommitValue,
    st.integers(0, 1 << 40),
    st.integers(-1, 9),
    st.sampled_from(["", "meta", "m" * 126, "m" * 127, "é"]),
    st.integers(0, WALL),
    st.sampled_from([-1, -1, -1, -1, -1, WALL]),
    st.sampled_from([bytes(16), bytes(range(16))]),
    st.sampled_from([(), (), (), (), ((5, b"later"),)]),
)
PRODUCERS = st.sampled_from([7, 8])


@st.composite
def commits(draw: st.DrawFn) -> LogRecord:
    key = encode_key(OffsetCommitKey(draw(GROUPS), draw(TOPICS), draw(st.sampled_from([0, -1]))))
    if draw(st.integers(0, 9)) == 0:
        key = draw(st.sampled_from([b"\0\0" + key[2:], key + b"\0", key.replace(b"x", b"\xff")]))
    value = encode_value(draw(VALUES)) if draw(st.integers(0, 5)) else None
    record = LogRecord(key, value, WALL)
    if draw(st.booleans()):
        producer_id, transactional = draw(PRODUCERS), draw(st.booleans())
        record = replace(record, producer_id=producer_id, transactional=transactional)
    return record


@st.composite
def groups(draw: st.DrawFn) -> LogRecord:
    value = GroupMetadataValue("consumer", draw(st.integers(0, 9)), None, None, WALL, [])
    raw = encode_value(value) if draw(st.booleans()) else None
    return LogRecord(encode_key(GroupMetadataKey(draw(GROUPS))), raw, WALL)


@st.composite
def markers(draw: st.DrawFn) -> LogRecord:
    key = struct.pack(">hh", 0, draw(st.booleans()))
    producer_id = draw(PRODUCERS)
    return LogRecord(
        key, b"\0" * 6, WALL, producer_id=producer_id, transactional=True, control=True
    )


UNKNOWN = st.just(LogRecord(b"\x7f\xfewhat", b"ever", WALL))
HISTORIES = st.lists(
    st.one_of(commits(), commits(), groups(), markers(), UNKNOWN), min_size=10, max_size=40
)


def state(loader: Loader) -> list[object]:
    """All that a load has made, in the order it keeps."""
    return [
        (
            name,
            group.durable,
            None
            if group.kind is None
            else (classic_of(group).state, classic_of(group).state_since),
            [(topic, list(of.items())) for topic, of in group.offsets.committed.items()],
            group.offsets.pending,
        )
        for name, group in loader.groups.items()
        if not group.is_vacant
    ] + [loader.records, loader.unknown_records]


class Read:
    """A log that was read in runs; implements what a load needs of storage.base.PartitionLog."""

    partition = 0

    def __init__(self, history: Sequence[LogRecord], longest: int, most: int) -> None:
        self.pauses = 0
        with (
            mock.patch.object(batch_reader, "LONGEST_RUN", longest),
            mock.patch.object(batch_reader, "RECORDS_PER_TURN", most),
        ):
            reader = RunReader()
            for batch in batches(history):
                for _ in reader.read(read_header(batch), batch, 0):
                    self.pauses += 1
            self._loaded = reader.take(flush=True)

    async def load(self) -> AsyncIterator[LoadedRecords]:
        for loaded in self._loaded:
            yield loaded


def batches(history: Sequence[LogRecord]) -> list[bytes]:
    """Records in a row in one batch, as long as they are of one producer."""

    def kind(record: LogRecord) -> tuple[object, ...]:
        return record.producer_id, record.transactional, record.control

    parts = [list(part) for _, part in groupby(history, kind)]
    return [build_batch(part, part[0].offset) for part in parts]


@settings(max_examples=300)
@given(HISTORIES, st.integers(1, 5), st.integers(1, 7))
async def test_any_history_loads_as_if_record_by_record(
    history: Sequence[LogRecord], longest: int, most: int
) -> None:
    history = [replace(record, offset=at) for at, record in enumerate(history)]
    plain = Loader()
    for record in history:
        plain._replay(0, record)
    quick = Loader()
    log: Any = Read(history, longest, most)
    await quick.load(log)
    assert state(quick) == state(plain)


async def test_plain_commits_are_read_in_runs_and_nothing_is_decoded() -> None:
    key, value = OffsetCommitKey("g", "t", 3), OffsetCommitValue(5, 1, "meta", WALL)
    record = LogRecord(encode_key(key), encode_value(value), WALL, offset=0)
    loader = Loader()
    log: Any = Read([record] * 300, 16_384, 2_000)
    with mock.patch.object(loading, "apply", side_effect=apply) as plain:
        await loader.load(log)
    assert not plain.called
    offsets = loader.groups["g"].offsets
    assert offsets._committed == {"t": {3: encode_value(value)}}
    assert (offsets.get("t", 3), loader.records) == (value, 300)


def test_a_batch_is_read_with_pauses_however_many_records_it_has() -> None:
    key, value = OffsetCommitKey("g", "t", 3), OffsetCommitValue(5, 1, "meta", WALL)
    commit = LogRecord(encode_key(key), encode_value(value), WALL, offset=0)
    other = LogRecord(b"other", b"record", WALL, offset=0)
    assert Read([commit] * 100, 16_384, 10).pauses == 10
    assert Read([other] * 100, 16_384, 10).pauses == 10
    assert Read([commit, other] * 50, 16_384, 10).pauses == 10


@pytest.mark.parametrize("at", range(61, 200, 3))
def test_damaged_commits_are_records_or_malformed_too(at: int) -> None:
    key, value = OffsetCommitKey("g", "t", 3), OffsetCommitValue(5, 1, "meta", WALL)
    batch = build_batch([LogRecord(encode_key(key), encode_value(value), WALL)] * 3)
    for byte in range(256):
        raw = batch[:at] + bytes((byte,)) + batch[at + 1 :]
        reader = RunReader()
        try:
            list(reader.read(read_header(raw), raw, 0))
            expected = len(read_records(read_header(raw), raw))
        except Malformed:
            continue
        read = [
            loaded.count if isinstance(loaded, OffsetRun) else len(loaded)
            for loaded in reader.take(flush=True)
        ]
        assert sum(read) == expected == 3


BLOBS = st.one_of(
    st.none(),
    st.binary(max_size=200),
    st.integers(8_185, 8_200).map(bytes),
    st.just(bytes(20_000)),
)
RECORDS = st.builds(
    LogRecord,
    BLOBS,
    BLOBS,
    st.integers(WALL - 9_000, WALL + 9_000),
    st.sampled_from([(), (), (), (("name", b"value"), ("", b""))]),
)


@given(st.lists(RECORDS, min_size=1, max_size=5), st.integers(0, 200))
def test_records_of_any_size_are_read_as_they_were_written(
    records: Sequence[LogRecord], more: int
) -> None:
    records = [*records, *(LogRecord(b"k", b"v", WALL) for _ in range(more))]
    batch = build_batch(records, 50)
    wanted = [replace(record, offset=50 + at) for at, record in enumerate(records)]
    assert read_records(read_header(batch), batch) == wanted


@pytest.mark.parametrize("at", range(61, 75))
def test_any_byte_that_is_wrong_gives_records_or_malformed(at: int) -> None:
    batch = build_batch([LogRecord(b"k", b"v", WALL), LogRecord(b"key", None, WALL)])
    for byte in range(256):
        raw = batch[:at] + bytes((byte,)) + batch[at + 1 :]
        try:
            found = read_records(read_header(raw), raw)
        except Malformed:
            continue
        assert len(found) == 2
