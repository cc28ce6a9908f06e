"""The keys that a batch of the stream changes, and the files of `records`."""

import pytest

pytest.importorskip("pyspark", reason="needs the extra `pipeline`")

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from coordinator_pipeline.changed_keys import find_changed_keys
from coordinator_pipeline.end_offsets import TopicEndReader
from coordinator_pipeline.record_files import (
    RecordFile,
    RecordFiles,
    partitions_with_holes,
    read_rows,
)
from coordinator_pipeline.run import committed_partitions
from coordinator_pipeline.source.datasource import OffsetRange
from coordinator_pipeline.source.parquet import write_range
from coordinator_protocol.batch import LogRecord, build_batch
from tests.support.coordinator_log import marker
from tests.support.pipeline_log import BEGIN_MS, commit, write_log

BEGIN = datetime.fromtimestamp(BEGIN_MS / 1000, UTC)
HOUR_MS = 3_600_000


class Tables:
    """A log of one partition, and the files of batches of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.records: list[LogRecord] = []
        self.bronze = RecordFiles(home / "out")
        self.batches = 0

    def batch(
        self, *records: LogRecord, start: int | None = None, incarnation: int = 0
    ) -> list[RecordFile]:
        """Append records, or put them in the place of those from `start` on, as a batch."""
        start = len(self.records) if start is None else start
        self.records[start:] = records
        data = self.home / f"data{self.batches}"
        write_log(data, 0, enumerate(self.records))
        target = self.home / "out" / "records" / f"batch={self.batches}"
        target.mkdir(parents=True)
        found = OffsetRange(0, start, len(self.records), incarnation)
        write_range({"path": str(data)}, found, target)
        self.batches += 1
        return [one for one in self.bronze.files() if target in one.path.parents]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def test_a_batch_touches_its_own_groups_and_times(tables: Tables) -> None:
    tables.batch(commit("old", 1, 0))
    new = tables.batch(commit("new", 1, HOUR_MS), commit("new", 2, HOUR_MS + 1))

    found = find_changed_keys(new, tables.bronze.files(), [])

    assert found.groups == {"new"}
    assert found.partitions == {0}
    assert found.windows == {(BEGIN_MS + HOUR_MS) // 600_000 * 600}
    assert found.table(3).to_pylist()[0] == {"unit": "group", "key": "new", "batch": 3}


def test_a_marker_touches_the_groups_of_its_producer(tables: Tables) -> None:
    tables.batch(commit("its", 1, 0, producer=7))
    tables.batch(commit("other", 1, 0, producer=8), commit("plain", 1, 0))
    new = tables.batch(marker(7, commit=True))

    assert find_changed_keys(new, tables.bronze.files(), []).groups == {"its"}


def test_a_truncated_log_touches_the_groups_it_has_lost(tables: Tables) -> None:
    tables.batch(commit("kept", 1, 0), commit("lost", 1, HOUR_MS))
    new = tables.batch(commit("new", 1, 2 * HOUR_MS), start=1, incarnation=1)

    found = find_changed_keys(new, tables.bronze.files(), [])

    assert found.groups == {"lost", "new"}
    assert len(found.windows) == 2


def test_a_later_end_offset_touches_groups_that_commit_from_that_minute_on(tables: Tables) -> None:
    tables.batch(commit("early", 1, 0), commit("late", 1, HOUR_MS), commit("else", 1, HOUR_MS, 1))
    new = tables.batch(marker(9, commit=True))
    ends = [(BEGIN + timedelta(minutes=30), "orders", 0, 5, "log")]

    assert find_changed_keys(new, tables.bronze.files(), ends).groups == {"late"}


def test_a_large_batch_is_read_in_portions(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(files: list[RecordFile], *more: Any) -> pa.Table:
        reads.append(sum(one.rows for one in files))
        return read_rows(files, *more)

    reads: list[int] = []
    new = tables.batch(*(commit(f"g{day}", 1, day * 24 * HOUR_MS) for day in range(4)))
    ends = [(BEGIN + timedelta(hours=30), "orders", 0, 5, "log")]
    whole = find_changed_keys(new, new, ends)
    monkeypatch.setattr("coordinator_pipeline.record_files.PORTION_ROWS", 2)
    monkeypatch.setattr("coordinator_pipeline.changed_keys.read_rows", counted)
    monkeypatch.setattr("coordinator_pipeline.run.read_rows", counted)

    assert find_changed_keys(new, new, ends) == whole
    assert committed_partitions(new) == [("orders", 0)]
    assert max(reads) == 2


def test_rows_are_kept_by_day_and_those_without_a_time_too(tables: Tables) -> None:
    tables.batch(commit("g", 1, 0), commit("g", 2, 24 * HOUR_MS), commit("g", 3, -BEGIN_MS - 1))

    days = sorted(one.path.parent.name for one in tables.bronze.files())

    assert days == ["date=2025-10-09", "date=2025-10-10", "date=__HIVE_DEFAULT_PARTITION__"]
    assert sorted(read_rows(tables.bronze.files(), ["log_offset"])["log_offset"].to_pylist()) == [
        0,
        1,
        2,
    ]


def test_holes_are_found_from_footers(tables: Tables) -> None:
    tables.batch(commit("g", 1, 0), commit("g", 2, 24 * HOUR_MS))
    tables.batch(commit("g", 3, 1))
    assert partitions_with_holes(tables.bronze.files()) == []

    files = tables.bronze.files()
    assert partitions_with_holes([one for one in files if one.first != 1]) == [0]


def test_a_row_that_reports_damage_is_a_hole_though_no_offset_is_missing(
    tables: Tables,
) -> None:
    tables.batch(commit("g", 1, 0))
    (good,) = tables.bronze.files()
    assert not good.is_damaged

    (unreadable,) = tables.batch(LogRecord(b"\0\1\0", b"", BEGIN_MS))

    assert unreadable.is_damaged
    assert partitions_with_holes(tables.bronze.files()) == [0]


def test_the_end_offset_of_a_recreated_topic_is_that_of_the_new_one(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    first, second = directory / f"{0:020d}.log", directory / f"{5:020d}.log"
    first.write_bytes(build_batch([commit("x", n, 0) for n in range(5)]))
    ends = TopicEndReader(tmp_path)
    assert [end for _, _, _, end, _ in ends.read_new()] == [5]

    first.write_bytes(build_batch([commit("y", 1, HOUR_MS)] * 3))
    assert [end for _, _, _, end, _ in ends.read_new()] == [3]

    second.write_bytes(build_batch([commit("y", 1, HOUR_MS)], 5))
    assert [end for _, _, _, end, _ in ends.read_new()] == [6]
    second.unlink()
    first.write_bytes(build_batch([commit("z", 1, 2 * HOUR_MS)] * 2))
    assert [end for _, _, _, end, _ in ends.read_new()] == [2]
    first.unlink()
    directory.rmdir()
    assert ends.read_new() == []


def test_a_second_read_of_end_offsets_continues_after_the_first(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    segment = directory / f"{0:020d}.log"
    first = build_batch([commit("x", 0, 0), commit("x", 1, 60_000)])
    segment.write_bytes(first)
    ends = TopicEndReader(tmp_path)
    minute = BEGIN + timedelta(minutes=1)
    assert ends.read_new() == [(minute, "orders", 0, 2, "log")]
    assert ends.read_new() == []

    second = build_batch([commit("x", 2, 0)], 2)
    segment.write_bytes(first + second[:-1])
    assert ends.read_new() == []
    segment.write_bytes(first + second)
    assert ends.read_new() == [(minute, "orders", 0, 3, "log")]
    (directory / f"{3:020d}.log").write_bytes(build_batch([commit("x", 3, HOUR_MS)], 3))
    assert ends.read_new() == [(BEGIN + timedelta(hours=1), "orders", 0, 4, "log")]
