"""Record batches against Kafka's own bytes, and against hostile ones."""

import tracemalloc
from base64 import b64decode
from contextlib import suppress
from struct import pack
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.batch import (
    HEADER_BYTES,
    LogRecord,
    batches,
    build_batch,
    check_crc,
    read_header,
    stamped,
)
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.errors import Malformed

Golden = dict[str, list[dict[str, Any]]]


def blob(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def records_of(row: dict[str, Any]) -> list[LogRecord]:
    shared = (row["producer_id"], row["producer_epoch"], row["transactional"], row["control"])
    return [
        LogRecord(
            blob(record["key"]),
            blob(record["value"]),
            record["timestamp"],
            tuple((name, blob(value) or b"") for name, value in record["headers"]),
            record["offset"],
            *shared,
        )
        for record in row["records"]
    ]


def rows_of(golden: Golden) -> list[dict[str, Any]]:
    return golden["batches"] + golden["markers"]


def test_headers_of_kafka_are_read(golden: Golden) -> None:
    for row in rows_of(golden):
        batch = b64decode(row["bytes"])
        header = read_header(batch)
        check_crc(header, batch)
        assert header.size == len(batch)
        assert header.last_offset == row["last_offset"]
        assert header.is_transactional == row["transactional"]
        assert header.is_control == row["control"]
        same = ("base_offset", "partition_leader_epoch", "producer_id", "producer_epoch")
        for name in (*same, "base_sequence", "max_timestamp", "compression"):
            assert getattr(header, name) == row[name], (row["name"], name)


def test_records_of_kafka_are_read_under_every_codec(golden: Golden) -> None:
    assert {row["compression"] for row in golden["batches"]} == {0, 1, 2, 3, 4}
    for row in rows_of(golden):
        batch = b64decode(row["bytes"])
        assert read_records(read_header(batch), batch) == records_of(row), row["name"]


@pytest.mark.parametrize("name", ["one", "many", "transactional"])
def test_batches_are_written_as_kafka_writes_them(golden: Golden, name: str) -> None:
    (row,) = [row for row in golden["batches"] if row["name"] == name]
    built = build_batch(records_of(row), row["base_offset"], row["partition_leader_epoch"])
    assert built == b64decode(row["bytes"])


def test_headers_and_nulls_are_written_as_kafka_writes_them(golden: Golden) -> None:
    (row,) = [row for row in golden["batches"] if row["name"] == "several"]
    built = build_batch(records_of(row), row["base_offset"], row["partition_leader_epoch"])
    header = read_header(built)
    check_crc(header, built)
    assert read_records(header, built) == records_of(row)


def test_markers_are_written_as_kafka_writes_them(golden: Golden) -> None:
    for row in golden["markers"]:
        built = build_batch(records_of(row), row["base_offset"], row["partition_leader_epoch"])
        assert built == b64decode(row["bytes"]), row["name"]


RECORDS = st.lists(
    st.builds(
        LogRecord,
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.integers(0, 2**62),
        st.lists(
            st.tuples(
                st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
                st.binary(max_size=9),
            ),
            max_size=2,
        ).map(tuple),
    ),
    min_size=1,
    max_size=8,
)


@given(RECORDS, st.integers(0, 2**62), st.integers(-1, 2**31 - 1))
def test_records_come_back_as_they_were_written(
    records: list[LogRecord], base: int, epoch: int
) -> None:
    batch = build_batch(records, base, epoch)
    header = read_header(batch)
    check_crc(header, batch)
    found = read_records(header, batch)
    assert [record.offset for record in found] == list(range(base, base + len(records)))
    for before, after in zip(records, found, strict=True):
        after.offset = -1
        assert after == before


def test_stamping_moves_a_batch_without_touching_its_checksum() -> None:
    batch = stamped(build_batch([LogRecord(b"k", b"v", 5)]), 2**40, 9)
    header = read_header(batch)
    check_crc(header, batch)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 9)
    assert stamped(batch, 0) == build_batch([LogRecord(b"k", b"v", 5)])


def test_batches_are_walked_and_what_is_cut_off_is_left_out() -> None:
    one = build_batch([LogRecord(b"k", b"v", 5)])
    two = build_batch([LogRecord(b"k", b"v" * 100, 5), LogRecord(None, None, 6)], 1)
    for cut in range(len(two)):
        assert [at for at, _ in batches(one + two[:cut])] == [0]
    assert [(at, header.last_offset) for at, header in batches(one + two)] == [
        (0, 0),
        (len(one), 2),
    ]


def test_any_changed_bit_behind_the_checksum_is_found() -> None:
    batch = build_batch([LogRecord(b"key", b"value", 5)])
    for position in range(17, len(batch)):
        torn = bytearray(batch)
        torn[position] ^= 0x10
        with pytest.raises(Malformed, match="checksum"):
            check_crc(
                read_header(batch)._replace(crc=int.from_bytes(torn[17:21], "big")), bytes(torn)
            )


@pytest.mark.parametrize(
    ("at", "change", "complaint"),
    [
        (16, b"\x01", "magic 1, expected 2"),
        (8, pack(">i", -1), "length -1"),
        (8, pack(">i", HEADER_BYTES - 12 - 1), "length 48"),
        (23, pack(">i", -1), "last offset delta"),
    ],
)
def test_headers_that_make_no_sense_are_malformed(at: int, change: bytes, complaint: str) -> None:
    batch = bytearray(build_batch([LogRecord(b"k", b"v", 5)]))
    batch[at : at + len(change)] = change
    with pytest.raises(Malformed, match=complaint):
        read_header(bytes(batch))


def with_body(body: bytes, count: int = 1, attributes: int = 0) -> bytes:
    """A batch with a right checksum round any bytes."""
    checked = pack(">hiqqqhii", attributes, 0, 0, 0, -1, -1, -1, count) + body
    return pack(">qiibI", 0, 49 + len(body), 0, 2, crc32c(checked)) + checked


@pytest.mark.parametrize("count", [-1, 2, 1000, 2**31 - 1])
def test_a_count_that_the_bytes_do_not_bear_out_is_malformed(count: int) -> None:
    body = build_batch([LogRecord(b"k", b"v", 5)])[HEADER_BYTES:]
    batch = with_body(body, count)
    with pytest.raises(Malformed):
        read_records(read_header(batch), batch)


def test_bytes_behind_the_last_record_are_malformed() -> None:
    body = build_batch([LogRecord(b"k", b"v", 5)])[HEADER_BYTES:]
    batch = with_body(body + b"\0\0\0")
    with pytest.raises(Malformed, match="3 bytes"):
        read_records(read_header(batch), batch)


def test_a_batch_that_compaction_has_emptied_has_no_records() -> None:
    batch = with_body(b"", count=0)
    assert read_records(read_header(batch), batch) == []


@given(st.binary(max_size=120), st.integers(0, 9), st.integers(0, 7))
def test_hostile_records_are_malformed_and_nothing_else(
    body: bytes, count: int, codec: int
) -> None:
    batch = with_body(body, count, codec)
    with suppress(Malformed):
        read_records(read_header(batch), batch)


def test_a_header_name_that_is_not_utf8_is_no_reason_to_lose_a_record() -> None:
    batch = with_body(b"\x14\0\0\0\x01\x01\x02\x02\xff\x02v")
    (record,) = read_records(read_header(batch), batch)
    assert record.headers == (("\ufffd", b"v"),)


def test_records_of_several_producers_do_not_fit_into_one_batch() -> None:
    with pytest.raises(ValueError, match="several producers"):
        build_batch([LogRecord(b"k", b"v", 1), LogRecord(b"k", b"v", 1, producer_id=7)])


def test_nonsense_that_claims_to_be_compressed_takes_no_memory() -> None:
    batch = with_body(b"nonsense", attributes=4)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            read_records(read_header(batch), batch)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
