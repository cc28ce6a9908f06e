"""Batches while they are put together, and the templates of commits that come again."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.batch_builder import NewBatch
from coordinator_protocol.commit_template import MOST_RECORDS, CommitTemplate, Place
from coordinator_protocol.offset_value import pack_offset
from coordinator_protocol.record_headers import packed_headers
from coordinator_protocol.records import OffsetCommitKey, encode_key, offset_key_prefix

TIME = 1_700_000_000_000
BLOBS = st.binary(max_size=1_200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=200)), max_size=3)
RECORDS = st.lists(st.tuples(BLOBS, st.none() | BLOBS, HEADERS), min_size=1, max_size=100)
OFFSETS = st.integers(-(2**63), 2**63 - 1)
PLACES = st.lists(
    st.builds(
        Place,
        st.sampled_from(["orders", "payments", "日本" * 60]),
        st.integers(0, 2**31 - 1),
        st.integers(-1, 2**31 - 1),
        st.text(max_size=200),
    ),
    min_size=1,
    max_size=20,
)


def put_together(records: list[tuple[bytes, bytes | None, list[tuple[str, bytes]]]]) -> NewBatch:
    batch = NewBatch(TIME)
    for key, value, headers in records:
        batch.add(key, value, packed_headers(headers))
    return batch


@given(RECORDS, st.integers(0, 2**40))
def test_a_batch_has_the_bytes_of_one_built_of_record_objects(
    records: list[tuple[bytes, bytes | None, list[tuple[str, bytes]]]], offset: int
) -> None:
    batch = put_together(records)
    objects = [LogRecord(key, value, TIME, tuple(headers)) for key, value, headers in records]
    built = batch.build(offset)
    assert built == build_batch(objects, offset)
    assert len(built) == batch.size
    assert [(r.key, r.value, list(r.headers)) for r in batch.decoded()] == records


def test_what_was_added_since_a_mark_can_be_taken_back() -> None:
    batch = put_together([(b"a", b"1", [])])
    before, mark = batch.build(0), batch.mark()
    batch.add(b"b", b"2")
    batch.add_encoded(b"anything", 3)
    batch.cut(mark)
    assert batch.build(0) == before


def test_a_batch_without_records_has_none() -> None:
    assert NewBatch(TIME).decoded() == []


@given(PLACES, st.integers(0, 40), st.data())
def test_a_template_has_the_bytes_of_records_made_one_by_one(
    places: list[Place], before: int, data: st.DataObject
) -> None:
    offsets = data.draw(st.lists(OFFSETS, min_size=len(places), max_size=len(places)))
    one_by_one, at_once = NewBatch(TIME), NewBatch(TIME)
    for batch in (one_by_one, at_once):
        for number in range(before):
            batch.add(b"key %d" % number, b"value")
    values = []
    for (topic, partition, epoch, metadata), offset in zip(places, offsets, strict=True):
        value = pack_offset(offset, epoch, metadata, TIME)
        values.append((topic, partition, value))
        one_by_one.add(encode_key(OffsetCommitKey("group", topic, partition)), value)
    template = CommitTemplate("group", places)
    encoded = template.encode(before, [struct.pack(">q", each) for each in offsets], TIME)
    assert len(encoded) == template.size
    at_once.add_encoded(encoded, template.records)
    assert at_once.build(7) == one_by_one.build(7)
    assert values == [
        (topic, partition, value)
        for topic, of_topic in template.values(encoded)
        for partition, value in of_topic
    ]


@given(
    st.sampled_from(["orders", "日本" * 200]),
    st.lists(st.tuples(st.integers(0, 2**31 - 1), BLOBS)),
    st.sampled_from([1, 62, 1_022]),
)
def test_commits_of_a_topic_have_the_bytes_of_records_made_one_by_one(
    topic: str, offsets: list[tuple[int, bytes]], before: int
) -> None:
    one_by_one, at_once = NewBatch(TIME), NewBatch(TIME)
    for batch in (one_by_one, at_once):
        for _ in range(before):
            batch.add(b"key", b"value")
    for partition, value in offsets:
        one_by_one.add(encode_key(OffsetCommitKey("group", topic, partition)), value)
    at_once.add_offsets(offset_key_prefix("group", topic), offsets)
    assert at_once.size == one_by_one.size
    assert at_once.build(7) == one_by_one.build(7)


@pytest.mark.parametrize("number", [0, MOST_RECORDS + 1])
def test_a_template_is_for_some_partitions(number: int) -> None:
    with pytest.raises(ValueError, match=f"{number} partitions, expected 1 to 64"):
        CommitTemplate("group", [Place("orders", i, -1, "") for i in range(number)])
