"""Searching by timestamp finds the first record that fits, within compressed batches too."""

from functools import partial
from pathlib import Path

import pytest

from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.topics.timestamps import first_from, latest
from tests.support.data_plane import batch_of, with_attributes

BATCHES = [
    [(100, b"a"), (300, b"b"), (200, b"c")],
    [(50, b"d"), (60, b"e")],
    [(400, b"f"), (400, b"g")],
]


@pytest.fixture(params=["none", "gzip", "snappy", "lz4", "zstd"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> SegmentLog:
    log = SegmentLog(tmp_path / "orders-0", segment_bytes=150)
    for records in BATCHES:
        log.append(batch_of(*records, codec=request.param))
    return log


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (0, (100, 0)),
        (100, (100, 0)),
        (101, (300, 1)),
        (300, (300, 1)),
        (301, (400, 5)),
        (401, None),
    ],
)
def test_the_first_record_that_is_not_older(
    log: SegmentLog, timestamp: int, found: tuple[int, int] | None
) -> None:
    assert first_from(timestamp, log, log.end_offset) == found


def test_the_first_of_the_records_with_the_largest_timestamp(log: SegmentLog) -> None:
    assert latest(log, log.end_offset) == (400, 5)


def test_records_from_the_high_watermark_on_are_not_looked_at(log: SegmentLog) -> None:
    assert first_from(301, log, 5) is None
    assert latest(log, 5) == (300, 1)
    assert latest(log, 0) is None


def test_a_batch_that_cannot_be_unpacked_is_stood_for_by_its_first_record(tmp_path: Path) -> None:
    log = SegmentLog(tmp_path / "orders-0")
    log.append(with_attributes(batch_of((100, b"not"), (200, b"gzip")), 1))
    for search in (partial(first_from, 150), latest):
        assert search(log, log.end_offset) == (200, 0)
