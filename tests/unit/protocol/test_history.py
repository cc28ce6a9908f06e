"""The history record of a rebalance: bytes, and what cannot be one."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_protocol.errors import Malformed
from coordinator_protocol.history import (
    HISTORY_VERSION,
    HistoryCounts,
    HistoryMember,
    HistoryRound,
    HistoryWait,
    RebalanceHistoryKey,
    RebalanceHistoryValue,
    decode_history,
    decode_history_key,
    encode_history_key,
    history_head,
    is_known_history,
)
from coordinator_protocol.history_form import history_form
from coordinator_protocol.history_writer import cut_text, encode_history
from coordinator_protocol.records import (
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
MEMBERS = st.builds(HistoryMember, TEXTS, st.none() | TEXTS, TEXTS, TEXTS)
LISTS = st.lists(MEMBERS, max_size=5)
VALUES = st.builds(
    RebalanceHistoryValue,
    sequence=LONGS,
    generation_before=INTS,
    generation_after=INTS,
    started_ms=LONGS,
    ended_ms=LONGS,
    join_phase_ms=LONGS,
    sync_phase_ms=LONGS,
    reason=TEXTS,
    outcome=TEXTS,
    state_before=TEXTS,
    culprit=MEMBERS,
    client_reason=st.none() | TEXTS,
    counts=st.builds(HistoryCounts, *[INTS] * 7),
    joined=LISTS,
    left=LISTS,
    evicted=LISTS,
    waited_for=st.lists(st.builds(HistoryWait, MEMBERS, LONGS), max_size=5),
    rounds=st.lists(st.builds(HistoryRound, TEXTS, MEMBERS, st.none() | TEXTS), max_size=5),
)
VERSION_BYTES = 2
KEY = RebalanceHistoryKey("orders", 7, 41)


@given(VALUES)
def test_a_value_is_read_as_it_was_written(value: RebalanceHistoryValue) -> None:
    raw = encode_history(value)
    assert decode_history(raw) == value
    assert history_head(raw) == (0, value.sequence, value.generation_after, value.ended_ms)
    assert json.loads(json.dumps(history_form(value)))["culprit"] == value.culprit._asdict()


@given(VALUES, st.data())
def test_a_value_cut_short_is_an_error_and_nothing_else(
    value: RebalanceHistoryValue, data: st.DataObject
) -> None:
    raw = encode_history(value)
    cut = raw[: data.draw(st.integers(0, len(raw) - 2))]
    with pytest.raises(Malformed):
        decode_history(cut)


@given(st.binary(min_size=20, max_size=300))
def test_bytes_of_somebody_else_are_an_error_and_nothing_else(raw: bytes) -> None:
    read_or_refuse(HISTORY_VERSION.to_bytes(2, "big") + raw)


@given(VALUES, st.lists(st.tuples(st.integers(0), st.binary(max_size=2)), min_size=1, max_size=3))
def test_damaged_value_is_another_or_an_error_and_nothing_else(
    value: RebalanceHistoryValue, damages: list[tuple[int, bytes]]
) -> None:
    raw = encode_history(value)
    for place, damage in damages:
        at = VERSION_BYTES + place % (len(raw) - VERSION_BYTES)
        raw = raw[:at] + damage + raw[at + 1 :]
    read_or_refuse(raw)


def test_value_with_any_byte_of_any_other_value_is_another_or_an_error() -> None:
    alice, bob = HistoryMember("a", None, "c", "/h"), HistoryMember("b", "i", "c", "/h")
    raw = encode_history(
        RebalanceHistoryValue(
            sequence=7,
            generation_before=1,
            generation_after=2,
            started_ms=1,
            ended_ms=2,
            join_phase_ms=1,
            sync_phase_ms=0,
            reason="r",
            outcome="o",
            state_before="s",
            culprit=alice,
            client_reason=None,
            counts=HistoryCounts(1, 2, 1, 1, 1, 1, 1),
            joined=[bob],
            left=[alice],
            evicted=[bob],
            waited_for=[HistoryWait(alice, 5)],
            rounds=[HistoryRound("r", bob, "why")],
        )
    )
    for at in range(VERSION_BYTES, len(raw)):
        for byte in range(256):
            read_or_refuse(raw[:at] + bytes((byte,)) + raw[at + 1 :])


def read_or_refuse(raw: bytes) -> None:
    assert is_known_history(raw)
    with contextlib.suppress(Malformed):
        json.dumps(history_form(decode_history(raw)))


def test_keys_and_values_go_through_the_records_module() -> None:
    raw = encode_key(KEY)
    assert raw[:2] == (32766).to_bytes(2, "big")
    assert decode_key(raw) == decode_history_key(raw) == KEY
    assert encode_value(b"packed") == decode_value(KEY, b"packed") == b"packed"


def test_a_key_that_cannot_be_read_is_of_an_unknown_type() -> None:
    assert decode_key(encode_key(KEY)[:-1]) == UnknownKey(32766)
    with pytest.raises(Malformed, match="type 2, expected 32766"):
        decode_history_key(b"\0\2")
    with pytest.raises(ValueError, match="text of 40000 bytes"):
        encode_history_key(RebalanceHistoryKey("x" * 40_000, 1, 1))


def test_a_later_version_is_not_read() -> None:
    raw = b"\0\1" + bytes(100)
    assert not is_known_history(raw)
    with pytest.raises(Malformed, match="version 1, expected 0"):
        decode_history(raw)


def test_texts_are_cut_between_two_characters() -> None:
    assert cut_text("\u00e9" * 10, 5) == "\u00e9\u00e9".encode()
    assert cut_text("lone \ud800", 100) == b"lone ?"
