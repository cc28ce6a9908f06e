"""Decoders of large bodies: the same messages, counted before they are read, slice by slice."""

import random
import tracemalloc
from itertools import islice
from typing import Any

import pytest

from coordinator_protocol.codec import request_decoder, request_encoder, sliced_request_decoder
from coordinator_protocol.decoder import SLICE_ELEMENTS
from coordinator_protocol.errors import Malformed
from coordinator_protocol.headers import read_client_id, read_intent
from coordinator_protocol.messages.find_coordinator import FindCoordinatorRequest
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.mutated_requests import mutations, valid_requests

ANNOUNCED = {
    0: (3, 9),
    1: (4, 12),
    2: (1, 7),
    3: (0, 13),
    8: (2, 9),
    9: (1, 9),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    19: (2, 7),
    20: (1, 6),
}
PLENTY = 1 << 30
COMMIT = 8


def sliced(
    api_key: int, version: int, body: bytes, most: int = PLENTY, entries: int = PLENTY
) -> tuple[Any, int, int]:
    """The message, the elements that were left, and in how many slices it was read."""
    steps = sliced_request_decoder(api_key, version)(body, 0, len(body), most, entries)
    slices = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            message, left = end.value
            return message, left, slices
        slices += 1


def commit(topics: int, partitions: int, version: int = 8) -> bytes:
    each = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
        for index in range(partitions)
    ]
    named = [OffsetCommitRequestTopic(name="t", partitions=each) for _ in range(topics)]
    return request_encoder(COMMIT, version)(OffsetCommitRequest(group_id="g", topics=named))


def outcome(read: Any) -> Any:
    try:
        return read()
    except Malformed as error:
        return str(error)


def test_valid_and_mutated_bodies_are_read_as_by_the_plain_decoder() -> None:
    chance = random.Random(24)
    valid = valid_requests(ANNOUNCED, chance, each=2)
    refused = 0
    for payload in (*valid, *islice(mutations(valid, chance), 6_000)):
        try:
            api_key, version, _ = read_intent(payload, 0, len(payload))
            _, at = read_client_id(payload, 0, len(payload))
            plain = request_decoder(api_key, version)
        except ValueError:
            continue
        body = payload[at:]
        expected = outcome(lambda body=body, plain=plain: plain(body, 0, len(body)))
        found = outcome(lambda a=api_key, v=version, body=body: sliced(a, v, body)[0])
        assert found == expected
        refused += isinstance(found, str)
    assert refused > 500


@pytest.mark.parametrize("version", [2, 8])
def test_elements_of_all_arrays_count(version: int) -> None:
    body = commit(3, 4, version)
    assert sliced(COMMIT, version, body, most=15)[1] == 0
    with pytest.raises(Malformed, match="more than 14 array elements, at most 14"):
        sliced(COMMIT, version, body, most=14)


def test_unknown_tagged_fields_count_and_a_negative_number_of_them_adds_nothing() -> None:
    body = commit(1, 1)
    assert body.endswith(b"\0\0\0")
    tagged = body[:-1] + b"\x02\x1e\0\x1f\0"
    assert sliced(COMMIT, 8, tagged, most=4)[1] == 0
    with pytest.raises(Malformed, match="more than 3 array elements"):
        sliced(COMMIT, 8, tagged, most=3)
    negative = body[:-1] + b"\xff\xff\xff\xff\x0f"
    assert sliced(COMMIT, 8, negative, most=10)[1] == 8


def test_entries_are_those_of_the_message_itself() -> None:
    assert sliced(COMMIT, 8, commit(3, 40), entries=3)[1] == PLENTY - 123
    with pytest.raises(Malformed, match="more than 2 entries, at most 2"):
        sliced(COMMIT, 8, commit(3, 1), entries=2)


def test_a_null_array_has_no_entries() -> None:
    assert sliced(3, 9, b"\0\0\0\0\0", most=1, entries=0)[1] == 1


@pytest.mark.parametrize(("topics", "partitions"), [(1, 5_000), (5_000, 0), (70, 70)])
def test_no_slice_has_many_elements(topics: int, partitions: int) -> None:
    _, left, slices = sliced(COMMIT, 8, commit(topics, partitions))
    assert slices >= (PLENTY - left) // (SLICE_ELEMENTS + 1)


def test_text_that_has_to_be_repaired_is_read_in_slices() -> None:
    keys = ["x" * 32_000] * 20
    body = request_encoder(10, 4)(FindCoordinatorRequest(coordinator_keys=keys))
    _, _, slices = sliced(10, 4, body.replace(b"x", b"\xff"))
    assert slices >= 6


def test_too_many_elements_are_refused_before_anything_is_made_of_them() -> None:
    body = commit(1, 200_000)
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="more than 100000 array elements"):
            sliced(COMMIT, 8, body, most=100_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
