"""The files of the table `records`, as this process sees them without a job of Spark's.

A file has rows of one log partition, one incarnation and one day; its name says which, its footer
says which offsets. So what a new batch changes is found by looking into few files.
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
"""So many offsets this process decodes sooner than Spark starts tasks for them."""
SMALL_BYTES: Final = 16 * 1024 * 1024
"""Files of this size together are best read by one task: then nothing is shuffled."""
PORTION_ROWS: Final = 1_000_000
"""So many rows this process has in memory at once, or those of one larger file."""
_NAME: Final = re.compile(r"part-(\d+)-(\d+)-(\d+)-\d+\.parquet")


class RecordFile(NamedTuple):
    """What is known of a file."""

    path: Path
    log_partition: int
    incarnation: int
    rows: int
    first: int
    last: int
    """The first and the last log offset in it."""
    size: int
    times: tuple[datetime, datetime] | None
    """The first and the last time in it; None if there is none."""
    is_damaged: bool
    """Whether a row in it stands for what could not be read."""


class RecordFiles:
    """All files of `records` in an output directory; those of one batch are written here too."""

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
        """Write ranges of the log as a batch, in the place of what that batch had."""
        target = self._directory / f"batch={batch}"
        shutil.rmtree(target, ignore_errors=True)
        self._known = {p: known for p, known in self._known.items() if target not in p.parents}
        if sum(found.end - found.start for found in ranges) > SMALL_RANGE:
            write_parquet(spark, options, target, ranges)
        else:
            target.mkdir(parents=True)
            for found in ranges:
                write_range(options, found, target)
        return self._look(target.glob("date=*/part-*.parquet"))

    def files(self) -> list[RecordFile]:
        """All files, as there are now."""
        return self._look(self._directory.glob("batch=*/date=*/part-*.parquet"))

    def _look(self, paths: Iterable[Path]) -> list[RecordFile]:
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
    # Not the place in SCHEMA: here the fields of a struct are columns of their own.
    at = footer.schema.names.index(column)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return [group.column(at).statistics for group in groups if group.num_rows]


def partitions_with_gaps(files: Sequence[RecordFile]) -> list[int]:
    """Log partitions in which offsets between the first and the last are missing or unreadable."""
    found = []
    for number in sorted({one.log_partition for one in files}):
        mine = [one for one in files if one.log_partition == number and one.rows]
        rows = sum(one.rows for one in mine)
        is_odd = any(one.incarnation or one.is_damaged for one in mine)
        if mine and (is_odd or max(f.last for f in mine) - min(f.first for f in mine) + 1 != rows):
            found.append(number)
    return found


def files_of_partitions(files: Sequence[RecordFile], numbers: Iterable[int]) -> list[RecordFile]:
    """The files of some log partitions."""
    wanted = set(numbers)
    return [one for one in files if one.log_partition in wanted]


def files_of_times(files: Sequence[RecordFile], begin: datetime, end: datetime) -> list[RecordFile]:
    """The files that may have rows from one time to before another."""
    return [one for one in files if one.times and one.times[0] < end and one.times[1] >= begin]


def is_small(files: Collection[RecordFile]) -> bool:
    """Whether this process reads them best."""
    return sum(one.size for one in files) <= SMALL_BYTES


def in_portions(files: Iterable[RecordFile]) -> Iterator[list[RecordFile]]:
    """Files of so many rows together that this process may have all of them in memory."""
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


def look(
    files: Sequence[RecordFile], columns: list[str], where: ds.Expression | None = None
) -> pa.Table:
    """Some columns of the rows of some files, read by this process."""
    if not files:
        return pa.table({name: pa.array([], SCHEMA.field(name).type) for name in columns})
    paths = [str(one.path) for one in files]
    return ds.dataset(paths, schema=SCHEMA, format="parquet").to_table(columns, filter=where)


def read(spark: SparkSession, files: Sequence[RecordFile]) -> DataFrame:
    """The rows of some files, without those that a newer incarnation has made void."""
    if not files:
        return spark.createDataFrame([], spark_ddl())
    rows = spark.read.schema(spark_ddl()).parquet(*[str(one.path) for one in files])
    for number, incarnation, begin in _cuts(files):
        void = f"log_partition = {number} AND incarnation < {incarnation}"
        rows = rows.where(f"NOT ({void} AND log_offset >= {begin})")
    return rows


def valid(files: Sequence[RecordFile]) -> ds.Expression:
    """What holds for rows that no newer incarnation in some files has made void."""
    found = ds.scalar(value=True)
    for number, incarnation, begin in _cuts(files):
        void = (ds.field("log_partition") == number) & (ds.field("incarnation") < incarnation)
        found &= ~(void & (ds.field("log_offset") >= begin))
    return found


def _cuts(files: Sequence[RecordFile]) -> Iterator[tuple[int, int, int]]:
    """Partition, incarnation and first offset of those that made older records void."""
    begins: dict[tuple[int, int], int] = {}
    for one in files:
        if one.incarnation and one.rows:
            key = one.log_partition, one.incarnation
            begins[key] = min(begins.get(key, one.first), one.first)
    for (number, incarnation), begin in begins.items():
        yield number, incarnation, begin
