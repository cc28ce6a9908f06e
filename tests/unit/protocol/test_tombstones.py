"""Tombstones are written like other records, wherever they stand, and whatever their keys."""

import pytest

from coordinator_protocol.batch import encoded_record
from coordinator_protocol.batch_builder import NewBatch
from coordinator_protocol.varints import TABULATED

SIZES = [0, 1, 63, 64, TABULATED - 40, TABULATED, 9_000]
PLACES = [0, 63, 64, 500, TABULATED - 20, TABULATED, 9_000]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("place", PLACES)
def test_a_tombstone_differs_from_an_empty_value_in_one_byte(place: int, size: int) -> None:
    key = b"k" * size
    tombstone, empty = encoded_record(place, key, None), encoded_record(place, key, b"")
    assert tombstone == empty[:-2] + b"\1\0"


def test_tombstones_are_read_as_they_were_written() -> None:
    batch = NewBatch(1_000)
    keys = [b"k" * (number % 90) for number in range(2_000)]
    for key in keys:
        batch.add(key, None)
    assert [(found.key, found.value) for found in batch.decoded()] == [(key, None) for key in keys]
