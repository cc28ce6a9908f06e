"""Searching by timestamp finds the first record that fits, within compressed batches too."""

from functools import partial
from pathlib import Path
from threading import Event

import pytest

from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.segment import Segment
from coordinator_server.topics.timestamps import SearchStopped, first_from, latest
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
    assert first_from(timestamp, log, log.end_offset, Event()) == found


def test_the_first_of_the_records_with_the_largest_timestamp(log: SegmentLog) -> None:
    assert latest(log, log.end_offset, Event()) == (400, 5)


def test_records_from_the_high_watermark_on_are_not_looked_at(log: SegmentLog) -> None:
    assert first_from(301, log, 5, Event()) is None
    assert latest(log, 5, Event()) == (300, 1)
    assert latest(log, 0, Event()) is None


def test_a_batch_that_cannot_be_unpacked_is_stood_for_by_its_first_record(tmp_path: Path) -> None:
    log = SegmentLog(tmp_path / "orders-0")
    log.append(with_attributes(batch_of((100, b"not"), (200, b"gzip")), 1))
    for search in (partial(first_from, 150), latest):
        assert search(log, log.end_offset, Event()) == (200, 0)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The segments that are read from now on."""
    found: list[int] = []
    walk = Segment.walk

    def noted(segment: Segment, at: int = 0, *, checked: bool = False) -> object:
        found.append(segment.base_offset)
        return walk(segment, at, checked=checked)

    monkeypatch.setattr(Segment, "walk", noted)
    return found


def segments_of(directory: Path, *timestamps: int) -> SegmentLog:
    log = SegmentLog(directory / "orders-0", segment_bytes=100)
    for timestamp in timestamps:
        log.append(batch_of((timestamp, b"x" * 40)))
    return log


def test_closed_segments_that_are_known_to_be_too_old_are_not_read_again(
    tmp_path: Path, walked: list[int]
) -> None:
    log = segments_of(tmp_path, 100, 300, 200)
    assert first_from(400, log, log.end_offset, Event()) is None
    walked.clear()
    assert first_from(301, log, log.end_offset, Event()) is None
    assert walked == [2]
    walked.clear()
    assert first_from(250, log, log.end_offset, Event()) == (300, 1)
    assert walked == [1]


def test_only_segments_that_may_have_the_latest_record_are_read_again_for_it(
    tmp_path: Path, walked: list[int]
) -> None:
    log = segments_of(tmp_path, 100, 300, 200, 300, 250)
    walked.clear()
    assert latest(log, log.end_offset, Event()) == (300, 1)
    assert walked == [0, 1, 2, 3, 4]
    walked.clear()
    assert latest(log, log.end_offset, Event()) == (300, 1)
    assert walked == [1, 3, 4]
    log.append(batch_of((400, b"x" * 40)))
    assert latest(log, log.end_offset, Event()) == (400, 5)


def test_what_is_known_of_segments_behind_the_high_watermark_leaves_out_none(
    tmp_path: Path,
) -> None:
    log = segments_of(tmp_path, 100, 300, 200, 400, 250)
    assert latest(log, log.end_offset, Event()) == (400, 3)
    assert latest(log, 3, Event()) == (300, 1)
    assert latest(log, 1, Event()) == (100, 0)


def test_a_latest_record_that_is_compacted_away_meanwhile_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = segments_of(tmp_path, 100, 300, 200)
    assert latest(log, log.end_offset, Event()) == (300, 1)
    monkeypatch.setattr(SegmentLog, "latest_known", lambda *_: 301)
    assert latest(log, log.end_offset, Event()) == (300, 1)


def test_a_segment_that_is_written_again_after_a_cut_is_read_again(tmp_path: Path) -> None:
    log = SegmentLog(tmp_path / "orders-0", segment_bytes=150)
    for timestamp in (100, 200, 300):
        log.append(batch_of((timestamp, b"x" * 40)))
    assert first_from(400, log, log.end_offset, Event()) is None
    log.truncate(1)
    for timestamp in (400, 100, 100):
        log.append(batch_of((timestamp, b"x")))
    assert first_from(400, log, log.end_offset, Event()) == (400, 1)


def test_a_search_ends_when_it_is_stopped_or_its_log_is_closed(log: SegmentLog) -> None:
    stopping = Event()
    stopping.set()
    for search in (partial(first_from, 150), latest):
        with pytest.raises(SearchStopped):
            search(log, log.end_offset, stopping)
    log.closing.set()
    for search in (partial(first_from, 150), latest):
        with pytest.raises(SearchStopped):
            search(log, log.end_offset, Event())
