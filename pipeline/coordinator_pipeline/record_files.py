"""Reads and writes the files of the bronze table `records` without a Spark job.

A file has rows of one log partition, one incarnation and one day, which its name gives; its footer
gives the offsets. So the keys that a new batch changes are found by reading few files.
"""

import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from coordinator_pipeline.records_schema import RECORDS as SCHEMA
from coordinator_pipeline.records_schema import spark_ddl
from coordinator_pipeline.source.datasource import OffsetRange
from coordinator_pipeline.source.parquet import write_parquet, write_range
from coordinator_pipeline.store import RECORDS

SMALL_RANGE: Final = 20_000
"""This process decodes up to so many offsets faster than Spark starts tasks."""
SMALL_BYTES: Final = 16 * 1024 * 1024
"""The total size of files up to which one task is fastest: it needs no shuffle."""
PORTION_ROWS: Final = 1_000_000
"""The number of rows that this process holds at once, or those of one larger file."""
_NAME: Final = re.compile(r"part-(\d+)-(\d+)-(\d+)-\d+\.parquet")


class RecordFile(NamedTuple):
    """A file and the statistics in its footer."""

    path: Path
    log_partition: int
    incarnation: int
    rows: int
    first: int
    last: int
    """The first and last log offset in the file."""
    size: int
    times: tuple[datetime, datetime] | None
    """The first and last time in the file; None if it has none."""
    is_damaged: bool
    """Whether a row of the file reports a problem."""


class RecordFiles:
    """The files of `records` in an output directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / RECORDS
        self._known: dict[Path, RecordFile] = {}

    def write(
        self,
        spark: SparkSession,
        options: dict[str, str],
        ranges: Sequence[OffsetRange],
        batch: int,
    ) -> list[RecordFile]:
        """Write ranges of the log as a batch; replaces the files of that batch."""
        target = self._directory / f"batch={batch}"
        shutil.rmtree(target, ignore_errors=True)
        self._known = {p: known for p, known in self._known.items() if target not in p.parents}
        if sum(found.end - found.start for found in ranges) > SMALL_RANGE:
            write_parquet(spark, options, target, ranges)
        else:
            target.mkdir(parents=True)
            for found in ranges:
                write_range(options, found, target)
        return self._described(target.glob("date=*/part-*.parquet"))

    def files(self) -> list[RecordFile]:
        """List all current files."""
        return self._described(self._directory.glob("batch=*/date=*/part-*.parquet"))

    def _described(self, paths: Iterable[Path]) -> list[RecordFile]:
        found = []
        for path in sorted(paths):
            if path not in self._known:
                self._known[path] = _file(path)
            found.append(self._known[path])
        return found


def _file(path: Path) -> RecordFile:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    footer = pq.read_metadata(path)
    bounds = _statistics(footer, "log_offset")
    first = min((one.min for one in bounds), default=0)
    last = max((one.max for one in bounds), default=-1)
    is_damaged = any(one.num_values for one in _statistics(footer, "problem"))
    size = path.stat().st_size
    when = [one for one in _statistics(footer, "ts") if one.has_min_max]
    times = (min(one.min for one in when), max(one.max for one in when)) if when else None
    partition, incarnation = int(match[1]), int(match[3])
    return RecordFile(
        path,
        partition,
        incarnation,
        footer.num_rows,
        first,
        last,
        size,
        times,
        is_damaged,
    )


def _statistics(footer: pq.FileMetaData, column: str) -> list[pq.Statistics]:
    # The position differs from SCHEMA: in a footer every field of a struct is a column.
    at = footer.schema.names.index(column)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return [group.column(at).statistics for group in groups if group.num_rows]


def partitions_with_holes(files: Sequence[RecordFile]) -> list[int]:
    """Return the log partitions with missing or unreadable offsets between first and last."""
    found = []
    for number in sorted({one.log_partition for one in files}):
        mine = [one for one in files if one.log_partition == number and one.rows]
        rows = sum(one.rows for one in mine)
        is_odd = any(one.incarnation or one.is_damaged for one in mine)
        if mine and (is_odd or max(f.last for f in mine) - min(f.first for f in mine) + 1 != rows):
            found.append(number)
    return found


def files_of_partitions(files: Sequence[RecordFile], numbers: Iterable[int]) -> list[RecordFile]:
    """Select the files of some log partitions."""
    wanted = set(numbers)
    return [one for one in files if one.log_partition in wanted]


def files_of_times(files: Sequence[RecordFile], begin: datetime, end: datetime) -> list[RecordFile]:
    """Select the files that may have rows from `begin` to before `end`."""
    return [one for one in files if one.times and one.times[0] < end and one.times[1] >= begin]


def is_small(files: Collection[RecordFile]) -> bool:
    """Whether one task reads the files fastest."""
    return sum(one.size for one in files) <= SMALL_BYTES


def in_portions(files: Iterable[RecordFile]) -> Iterator[list[RecordFile]]:
    """Split files into portions whose rows fit into memory."""
    found: list[RecordFile] = []
    rows = 0
    for one in files:
        if found and rows + one.rows > PORTION_ROWS:
            yield found
            found, rows = [], 0
        found.append(one)
        rows += one.rows
    if found:
        yield found


def read_rows(
    files: Sequence[RecordFile], columns: list[str], where: ds.Expression | None = None
) -> pa.Table:
    """Read columns of the rows of some files in this process."""
    if not files:
        return pa.table({name: pa.array([], SCHEMA.field(name).type) for name in columns})
    paths = [str(one.path) for one in files]
    return ds.dataset(paths, schema=SCHEMA, format="parquet").to_table(columns, filter=where)


def read_frame(spark: SparkSession, files: Sequence[RecordFile]) -> DataFrame:
    """Return the rows of some files that no newer incarnation has made void."""
    if not files:
        return spark.createDataFrame([], spark_ddl())
    rows = spark.read.schema(spark_ddl()).parquet(*[str(one.path) for one in files])
    for number, incarnation, begin in _cuts(files):
        void = f"log_partition = {number} AND incarnation < {incarnation}"
        rows = rows.where(f"NOT ({void} AND log_offset >= {begin})")
    return rows


def is_current(files: Sequence[RecordFile]) -> ds.Expression:
    """Return a filter for rows that no newer incarnation in the files has made void."""
    found = ds.scalar(value=True)
    for number, incarnation, begin in _cuts(files):
        void = (ds.field("log_partition") == number) & (ds.field("incarnation") < incarnation)
        found &= ~(void & (ds.field("log_offset") >= begin))
    return found


def _cuts(files: Sequence[RecordFile]) -> Iterator[tuple[int, int, int]]:
    """Return partition, incarnation and first offset of incarnations after the first."""
    begins: dict[tuple[int, int], int] = {}
    for one in files:
        if one.incarnation and one.rows:
            key = one.log_partition, one.incarnation
            begins[key] = min(begins.get(key, one.first), one.first)
    for (number, incarnation), begin in begins.items():
        yield number, incarnation, begin
