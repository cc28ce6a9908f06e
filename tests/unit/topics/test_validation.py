"""No bytes a client sends as a record batch lead to anything but the batch or a clear refusal."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.errors import ErrorCode
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.validation import BatchRules, validated
from tests.support.data_plane import batch_of, patched, with_attributes

NOW = 1_700_000_000_000
BATCH = batch_of((NOW, b"first"), (NOW + 5, b"second"))
RULES = BatchRules()
EXPECTED = {
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}


def refusal(records: bytes) -> ErrorCode:
    with pytest.raises(TopicError) as refused:
        validated(records, RULES, NOW)
    assert str(refused.value)
    return refused.value.error


def test_a_sound_batch_is_returned_as_it_came() -> None:
    assert validated(BATCH, RULES, NOW) == BATCH


@given(st.binary(max_size=200))
def test_garbage_is_refused(records: bytes) -> None:
    refusal(records)


@given(st.integers(0, len(BATCH) - 1))
def test_a_truncated_batch_is_refused(length: int) -> None:
    assert refusal(BATCH[:length]) is ErrorCode.INVALID_RECORD


@given(st.integers(16, len(BATCH) - 1), st.integers(1, 255))
def test_a_changed_byte_behind_the_epoch_is_noticed(position: int, change: int) -> None:
    records = bytearray(BATCH)
    records[position] ^= change
    refusal(bytes(records))


@given(st.integers(12, 15), st.integers(0, 255))
def test_the_leader_epoch_of_the_client_does_not_matter(position: int, value: int) -> None:
    records = bytearray(BATCH)
    records[position] = value
    assert validated(bytes(records), RULES, NOW) == bytes(records)


@given(st.integers(21, len(BATCH) - 4), st.binary(min_size=1, max_size=4))
def test_a_change_with_a_right_checksum_is_taken_or_refused_but_never_breaks(
    position: int, change: bytes
) -> None:
    records = patched(BATCH, position, change)
    outcome: bytes | ErrorCode
    try:
        outcome = validated(records, RULES, NOW)
    except TopicError as refused:
        outcome = refused.error
    assert outcome == records or outcome in EXPECTED


@pytest.mark.parametrize("count", [0, 1, 3, -1, 2**31 - 1])
def test_a_count_that_is_not_the_offset_range_is_refused(count: int) -> None:
    assert refusal(patched(BATCH, 57, struct.pack(">i", count))) is ErrorCode.INVALID_RECORD


def test_log_append_time_is_not_a_producers_to_set() -> None:
    assert refusal(with_attributes(BATCH, 0x08)) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist_are_refused(codec: int) -> None:
    assert refusal(with_attributes(BATCH, codec)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_the_size_limit_is_inclusive() -> None:
    assert validated(BATCH, BatchRules(max_message_bytes=len(BATCH)), NOW) == BATCH
    with pytest.raises(TopicError, match=f"{len(BATCH)} bytes") as refused:
        validated(BATCH, BatchRules(max_message_bytes=len(BATCH) - 1), NOW)
    assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE
