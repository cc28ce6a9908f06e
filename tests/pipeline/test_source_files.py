"""The source over files: ranges, damage, and directories that change while they are read."""

import errno
import os
import re

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `pipeline`")

from pathlib import Path
from struct import pack
from typing import Any

from crc32c import crc32c

from coordinator_pipeline.source import segments
from coordinator_pipeline.source.directory import DirectoryLog
from coordinator_pipeline.source.errors import SourceError
from coordinator_pipeline.source.options import parse_options
from coordinator_pipeline.source.stream_position import PartitionFollower, Position
from coordinator_protocol.batch import HEADER_BYTES, LogRecord, build_batch
from tests.support.coordinator_log import commits, marker, segment, with_producer


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of log partition 7."""
    path = tmp_path / "__consumer_offsets-7"
    path.mkdir()
    return path


def log_of(directory: Path, **options: str) -> DirectoryLog:
    return DirectoryLog(parse_options({"path": str(directory.parent), **options}))


def batch(first: int, count: int = 4) -> bytes:
    """Commits that say at which offset they are."""
    return build_batch(commits("g", count, first), first)


def rows(log: DirectoryLog, start: int = 0, end: int | None = None) -> list[dict[str, Any]]:
    return [row for found in log.read(7, start, end) for row in found.to_pylist()]


def offsets(log: DirectoryLog, start: int = 0, end: int | None = None) -> list[int]:
    """The offsets of the rows, of which each commit must be the one that belongs there."""
    found = rows(log, start, end)
    assert all(row["committed_offset"] == row["log_offset"] for row in found), found
    return [row["log_offset"] for row in found]


def test_a_range_has_its_offsets_and_no_others(directory: Path) -> None:
    segment(directory).write_bytes(batch(0) + batch(4))
    segment(directory, 8).write_bytes(batch(8) + batch(20))
    log = log_of(directory)
    assert log.partitions() == [7]
    assert log.bounds(7) == (0, 24)
    assert offsets(log) == [*range(12), *range(20, 24)]
    assert offsets(log, 2, 6) == [2, 3, 4, 5]
    assert offsets(log, 7, 9) == [7, 8]
    assert offsets(log, 12, 20) == []


def test_columns_and_views_select_columns_and_records(directory: Path) -> None:
    key = b"\0\2\0\1g"
    group = LogRecord(key, None, 1_760_000_000_000)
    segment(directory).write_bytes(build_batch([*commits("g", 1), group]))
    both = log_of(directory, columns="log_offset, kind")
    assert rows(both) == [{"log_offset": 0, "kind": 1}, {"log_offset": 1, "kind": 2}]
    of_groups = log_of(directory, columns="kind", view="groups")
    assert rows(of_groups) == [{"kind": 2}]
    of_commits = log_of(directory, columns="kind", view="commits")
    assert rows(of_commits) == [{"kind": 1}]


def test_transactional_records_and_markers_are_distinguished(directory: Path) -> None:
    pending = build_batch(with_producer(commits("g", 1), 9))
    segment(directory).write_bytes(pending + build_batch([marker(9, commit=False)], 1))
    first, second = rows(log_of(directory))
    assert (first["is_txn"], first["producer_id"], first["is_control"]) == (True, 9, False)
    assert (second["is_control"], second["control_type"], second["kind"]) == (True, "abort", None)


def test_a_torn_tail_is_left_out_until_it_is_whole(directory: Path) -> None:
    whole = batch(0) + batch(4)
    for cut in (1, 20, 61, 70):
        segment(directory).write_bytes(whole[:-cut])
        assert log_of(directory).bounds(7) == (0, 4)
        assert offsets(log_of(directory)) == [0, 1, 2, 3]
    segment(directory).write_bytes(whole + bytes(200))
    assert log_of(directory).bounds(7) == (0, 8)
    assert offsets(log_of(directory)) == list(range(8))


def test_a_read_error_is_reported_with_file_and_position(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_behind(descriptor: int, size: int, at: int) -> bytes:
        if at + size > 100:
            raise OSError(errno.EIO, "Input/output error")
        return read(descriptor, size, at)

    read = os.pread
    segment(directory).write_bytes(batch(0) + batch(4))
    monkeypatch.setattr("os.pread", fails_behind)
    log = log_of(directory)
    said = re.escape(f"{segment(directory)}, position 0: Input/output error")
    for read_log in (lambda: log.bounds(7), lambda: rows(log), lambda: log.latest({}, {})):
        with pytest.raises(SourceError, match=said):
            read_log()


@pytest.mark.parametrize("at", [3, 9, 11, 16, 18, 40, 70])
def test_a_damaged_batch_is_reported_with_file_and_position_and_the_rest_is_read(
    directory: Path, at: int
) -> None:
    raw = bytearray(batch(0) + batch(4) + batch(8))
    raw[len(batch(0)) + at] ^= 0x55
    segment(directory).write_bytes(raw)
    log = log_of(directory)
    assert log.bounds(7) == (0, 12)
    found = rows(log)
    problems = [row for row in found if row["problem"] is not None]
    assert [row["log_offset"] for row in found] == [0, 1, 2, 3, 4, 8, 9, 10, 11]
    assert len(problems) == 1
    assert problems[0]["log_offset"] == 4
    assert f"{segment(directory)}, position {len(batch(0))}" in problems[0]["problem"]


def test_a_malformed_batch_is_reported_to_a_read_that_begins_within_it(directory: Path) -> None:
    raw = bytearray(batch(0))
    raw[HEADER_BYTES - 4 : HEADER_BYTES] = pack(">i", 9)
    raw[17:21] = pack(">I", crc32c(bytes(raw[21:])))
    segment(directory).write_bytes(raw + batch(4))
    found = rows(log_of(directory), 2)
    assert [row["log_offset"] for row in found] == [2, 4, 5, 6, 7]
    assert found[0]["problem"] is not None


def test_an_older_segment_that_is_cut_off_is_a_problem_and_no_torn_tail(directory: Path) -> None:
    segment(directory).write_bytes((batch(0) + batch(4))[:-5])
    segment(directory, 8).write_bytes(batch(8))
    found = rows(log_of(directory))
    assert [row["log_offset"] for row in found] == [0, 1, 2, 3, 4, 8, 9, 10, 11]
    assert "cut off" in found[4]["problem"]


def test_files_of_an_unfinished_compaction_are_not_read_and_finished_ones_once(
    directory: Path,
) -> None:
    segment(directory).write_bytes(batch(0) + batch(4))
    segment(directory, 8).write_bytes(batch(8))
    cleaned = segment(directory).with_suffix(".log.cleaned")
    cleaned.write_bytes(batch(0))
    assert offsets(log_of(directory)) == list(range(12))
    swap = cleaned.rename(segment(directory).with_suffix(".log.swap"))
    swap.write_bytes(batch(4))
    assert offsets(log_of(directory)) == [*range(4, 12)]
    segment(directory).rename(segment(directory).with_suffix(".log.deleted"))
    assert offsets(log_of(directory)) == [*range(4, 12)]
    swap.rename(segment(directory))
    assert offsets(log_of(directory)) == [*range(4, 12)]


def test_segments_replaced_after_planning_lose_nothing_that_survives(directory: Path) -> None:
    segment(directory).write_bytes(batch(0))
    segment(directory, 4).write_bytes(batch(4))
    segment(directory, 8).write_bytes(batch(8))
    start, end = log_of(directory).bounds(7)
    segment(directory).write_bytes(batch(2, 1) + batch(6, 1))
    segment(directory, 4).unlink()
    segment(directory, 12).write_bytes(batch(12))
    assert offsets(log_of(directory), start, end) == [2, 6, 8, 9, 10, 11]


def test_a_directory_that_changes_while_it_is_listed_is_listed_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment(directory).write_bytes(batch(0))
    list_names, changes = segments._names, iter([True, True, False])

    def changing(path: Path) -> list[str]:
        found = list_names(path)
        if next(changes, False):
            later = segment(directory, 4)
            later.unlink() if later.exists() else later.write_bytes(batch(4))
        return found

    monkeypatch.setattr(segments, "_names", changing)
    assert offsets(log_of(directory)) == [0, 1, 2, 3]


def test_records_above_the_high_watermark_of_a_broker_are_not_read(directory: Path) -> None:
    segment(directory).write_bytes(batch(0) + batch(4))
    checkpoint = directory.parent / segments.HIGH_WATERMARKS
    checkpoint.write_text("0\n2\n__consumer_offsets 7 4\nother 7 1\n")
    assert log_of(directory).bounds(7) == (0, 4)
    assert log_of(directory, pastHighWatermark="true").bounds(7) == (0, 8)


def _partition_itself(path: Path) -> None:
    path.mkdir()
    segment(path).touch()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.absolute, "no such directory"),
        (lambda path: path.mkdir(), "expected the data directory of a coordinator or a broker"),
        (lambda path: path.write_text(""), "a file, expected the data directory"),
        (lambda path: (path / "orders-0").mkdir(parents=True), "other topics such as orders-0"),
        (_partition_itself, "expected the directory above"),
    ],
)
def test_the_error_says_why_a_directory_is_no_log(tmp_path: Path, make: Any, said: str) -> None:
    path = tmp_path / "log"
    make(path)
    with pytest.raises(SourceError, match=said):
        DirectoryLog(parse_options({"path": str(path)})).partitions()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "expected one of the options path and bootstrap"),
        ({"path": "a", "bootstrap": "b:1"}, "expected one of the options path and bootstrap"),
        ({"path": "a", "columns": "group"}, "option columns: column 'group': expected some of"),
        ({"path": "a", "view": "both"}, "option view: 'both', expected all or commits or groups"),
        ({"path": "a", "startingOffsets": "[1]"}, "option startingOffsets: .*expected earliest or"),
        ({"path": "a", "endingOffsets": '{"1": -4}'}, "option endingOffsets: .*expected latest or"),
    ],
)
def test_the_error_names_a_wrong_option_and_its_value(options: dict[str, str], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        parse_options(options)


# --- following ---


class Stream:
    """A stream over one partition, with what Spark keeps of it."""

    def __init__(self, directory: Path) -> None:
        self.log = log_of(directory)
        self.followers: dict[int, PartitionFollower] = {}
        self.at: dict[str, dict[str, Any]] = {}

    def read(self) -> tuple[int, list[int]]:
        """The incarnation and the offsets of what is new."""
        before, self.at = self.at, self.log.latest(self.at, self.followers)
        old, new = Position.of(before.get("7")), Position.of(self.at["7"])
        begin = old.next
        if new.incarnation > old.incarnation:
            assert new.again_from is not None
            begin = new.again_from
        return new.incarnation, offsets(self.log, begin, new.next)

    def read_what_was_there(self, target: dict[int, int]) -> tuple[int, list[int]]:
        """Read the new offsets up to a target."""
        before, self.at = self.at, self.log.latest(self.at, self.followers, target)
        return self.at["7"]["inc"], offsets(self.log, before["7"]["next"], self.at["7"]["next"])

    def restart(self) -> None:
        self.followers.clear()


def test_a_stream_reads_each_record_once_through_rolls_and_restarts(directory: Path) -> None:
    stream = Stream(directory)
    assert stream.read() == (0, [])
    segment(directory).write_bytes(batch(0) + batch(4)[:-3])
    assert stream.read() == (0, [0, 1, 2, 3])
    assert stream.read() == (0, [])
    segment(directory).write_bytes(batch(0) + batch(4))
    assert stream.read() == (0, [4, 5, 6, 7])
    segment(directory, 8).write_bytes(b"")
    stream.restart()
    assert stream.read() == (0, [])
    segment(directory, 8).write_bytes(batch(8))
    assert stream.read() == (0, [8, 9, 10, 11])


def test_a_partition_that_is_away_for_a_while_is_not_read_again(directory: Path) -> None:
    stream = Stream(directory)
    (directory.parent / "__consumer_offsets-8").mkdir()
    segment(directory).write_bytes(batch(0))
    assert stream.read() == (0, [0, 1, 2, 3])
    directory.rename(directory.parent / "away")
    stream.at = stream.log.latest(stream.at, stream.followers)
    (directory.parent / "away").rename(directory)
    segment(directory).write_bytes(batch(0) + batch(4))
    assert stream.read() == (0, [4, 5, 6, 7])


def test_a_stream_with_a_target_stops_at_the_end_of_the_log_at_its_start(directory: Path) -> None:
    stream = Stream(directory)
    segment(directory).write_bytes(batch(0))
    stream.read()
    segment(directory).write_bytes(batch(0) + batch(4))
    target = {7: 8}
    segment(directory).write_bytes(batch(0) + batch(4) + batch(8))
    assert stream.read_what_was_there(target) == (0, [4, 5, 6, 7])
    assert stream.read_what_was_there(target) == (0, [])
    assert stream.read_what_was_there({}) == (0, [])
    assert stream.read() == (0, [8, 9, 10, 11])


def test_compaction_of_records_already_read_begins_no_incarnation(directory: Path) -> None:
    stream = Stream(directory)
    segment(directory).write_bytes(batch(0) + batch(4))
    stream.read()
    compacted = build_batch(commits("g", 1, 4), 4)
    segment(directory, 8).write_bytes(batch(8))
    for left in (batch(0) + compacted, batch(0), b""):
        segment(directory).write_bytes(left)
        stream.restart()
        assert stream.log.latest(stream.at, {})["7"]["inc"] == 0
    assert stream.read() == (0, [8, 9, 10, 11])


def test_a_log_that_lost_its_tail_is_read_again_from_the_last_common_batch(directory: Path) -> None:
    stream = Stream(directory)
    for end in (4, 8, 12):
        segment(directory).write_bytes(b"".join(batch(at) for at in range(0, end, 4)))
        stream.read()
    other = build_batch(commits("other", 4, 4), 4)
    segment(directory).write_bytes(batch(0) + other)
    assert stream.read() == (1, [*range(8)])
    assert stream.read() == (1, [])
    segment(directory).write_bytes(batch(0) + other + batch(8))
    assert stream.read() == (1, [8, 9, 10, 11])


@pytest.mark.parametrize("rolled", [False, True])
def test_other_records_at_the_same_offsets_are_noticed(directory: Path, rolled: bool) -> None:
    stream = Stream(directory)
    segment(directory).write_bytes(batch(0))
    stream.read()
    segment(directory).write_bytes(batch(0) + batch(4))
    stream.read()
    segment(directory).write_bytes(batch(0) + build_batch(commits("other", 4, 4), 4))
    segment(directory, 8).write_bytes(batch(8)) if rolled else None
    stream.restart()
    assert stream.read() == (1, [*range(12 if rolled else 8)])
