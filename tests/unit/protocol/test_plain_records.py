"""Varints are read in place by two loops, for speed: both read what is read record by record."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_protocol.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    LogRecord,
    build_batch,
    read_header,
)
from coordinator_protocol.batch_records import iter_records, read_record
from coordinator_protocol.errors import Malformed
from coordinator_protocol.offset_commit_scanner import OffsetRun
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import OffsetCommitKey, encode_key, encode_value
from coordinator_protocol.varints import varint

HEADER = read_header(build_batch([LogRecord(b"", b"", 1_700_000_000_000)]))
PADDING = st.sampled_from([0] * 20 + [1, 2, 8, 9, 10])


def padded(number: int, padding: int) -> bytes:
    """A varint, with bytes at its end that add nothing."""
    *most, last = varint(number)
    return bytes([*most, last | 0x80, *[0x80] * (padding - 1), 0]) if padding else varint(number)


def sized(blob: bytes | None, padding: int) -> bytes:
    return padded(-1, padding) if blob is None else padded(len(blob), padding) + blob


KEYS = st.one_of(
    st.builds(
        OffsetCommitKey,
        st.sampled_from(["g", "x" * 70]),
        st.sampled_from(["t", "\ufffd"]),
        st.integers(0, 2),
    ).map(encode_key),
    st.none() | st.binary(max_size=3),
)
VALUES = st.one_of(
    st.builds(
        OffsetCommitValue,
        st.integers(0, 1 << 40),
        st.integers(-1, 9),
        st.sampled_from(["", "meta", "m" * 126, "m" * 127]),
        st.integers(0, 1 << 40),
        st.just(-1),
        st.sampled_from([bytes(16), bytes(range(16))]),
    ).map(encode_value),
    st.none() | st.binary(max_size=3),
    st.sampled_from([bytes(8_150), bytes(9_000)]),
)
DELTAS = st.sampled_from([0, 1, 63, 64, 8_191, 8_192, -1, 1 << 40])
HEADERS = st.sampled_from([b"\0"] * 9 + [b"\2\2n\2v", b"\1"])


@st.composite
def encoded_records(draw: st.DrawFn) -> bytes:
    fields = b"".join(
        (
            b"\0",
            padded(draw(DELTAS), draw(PADDING)),
            padded(draw(DELTAS), draw(PADDING)),
            sized(draw(KEYS), draw(PADDING)),
            sized(draw(VALUES), draw(PADDING)),
            draw(HEADERS),
        )
    )
    return sized(fields, draw(PADDING))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Records, of which some are damaged or cut off."""
    body = bytearray(b"".join(draw(st.lists(encoded_records(), min_size=1, max_size=4))))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    return bytes(body[: draw(st.none() | st.integers(1, len(body)))])


def one_by_one(body: bytes, count: int) -> tuple[list[LogRecord], list[int]]:
    """The records up to the first that is none, and where each ends."""
    records, ends = [], [0]
    for _ in range(count):
        try:
            record, end = read_record(HEADER, body, ends[-1])
        except Malformed:
            break
        records.append(record)
        ends.append(end)
    return records, ends


def in_a_batch(body: bytes, count: int) -> list[LogRecord]:
    header = HEADER._replace(batch_length=HEADER_BYTES - LOG_OVERHEAD + len(body), records=count)
    records: list[LogRecord] = []
    with suppress(Malformed):
        for record in iter_records(header, bytes(HEADER_BYTES) + body):
            records.append(record)  # noqa: PERF402 - those before a Malformed count
    return records


def commit(
    *, group: str = "g", time: bytes = b"\0", headers: bytes = b"\0", size: bytes = b""
) -> bytes:
    key = encode_key(OffsetCommitKey(group, "t", 1))
    value = encode_value(OffsetCommitValue(5, 1, "", 7))
    fields = b"".join((b"\0", time, b"\0", sized(key, 0), sized(value, 0), headers))
    return (size or varint(len(fields))) + fields


def in_two_bytes(number: int) -> bytes:
    """What would be taken for a longer number, if the third byte of its varint were overlooked."""
    low = 0x80 | (number << 1) & 0x7F
    return bytes((low, (((number << 1) - low) >> 7) + 1))


LONG = len(commit(group="g" * 8_150)) - 3
"""Bytes of a record whose size takes three."""
SIZE = len(commit()) - 1
ODD = {
    "time of ten bytes": commit(time=padded(0, 9)),
    "time of eleven bytes": commit(time=padded(0, 10)),
    "a key that is shorter than a partition": (
        b"<\0\0\0\0" + b"0\0\4" + bytes(12) + b"\1" + bytes(10)
    ),
    "headers, -1 of them": commit(headers=b"\1"),
    "one header": commit(headers=b"\2\2n\2v"),
    "negative size": commit(size=bytes((SIZE << 1 | 1,))),
    "size that is too small": commit(size=varint(SIZE - 1)),
    "size that is too large": commit(size=varint(SIZE + 1)) + b"\0",
    "size of three bytes": commit(group="g" * 8_150),
    "size of three bytes, of which one is missing": commit(
        group="g" * 8_150, size=in_two_bytes(LONG)
    ),
}


@settings(max_examples=500)
@given(bodies(), st.integers(1, 5))
def test_records_are_the_same_however_they_are_read(body: bytes, count: int) -> None:
    compare(body, min(count, len(body)))


@pytest.mark.parametrize("record", ODD.values(), ids=ODD)
def test_odd_record_among_usual_ones_is_the_same_however_it_is_read(record: bytes) -> None:
    compare(commit() + record + commit(), 3)


def compare(body: bytes, count: int) -> None:
    records, ends = one_by_one(body, count)
    assert in_a_batch(body, count) == records
    run = OffsetRun({})
    end, taken = run.take(body, 0, count)
    assert taken <= len(records)
    assert end == ends[taken]
    assert of_run(run) == {record.key: record.value for record in records[:taken]}


def of_run(run: OffsetRun) -> dict[bytes, bytes]:
    return {
        encode_key(OffsetCommitKey(group, topic, partition)): value
        for group, topic, values in run.offsets()
        for partition, value in values.items()
    }


def test_usual_commits_are_all_taken_in_a_run() -> None:
    assert OffsetRun({}).take(commit(time=varint(1 << 40)) * 3, 0, 3)[1] == 3
