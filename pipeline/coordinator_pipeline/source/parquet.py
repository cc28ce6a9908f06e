"""Copies the log into Parquet files; Spark's Python tasks write the rows that they decode.

Spark's own writer converts every row from Arrow to Java objects first, which takes several times as
long as decoding. The files are in directories `date=YYYY-MM-DD`, as Spark's writer makes them. All
executors must share the directory, as with `path`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from coordinator_pipeline.source.datasource import LogReader, OffsetRange, open_log
from coordinator_pipeline.source.errors import SourceError
from coordinator_pipeline.source.options import parse_options

NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for a null partition value: the rows without a time."""
_OPEN_FILES: Final = 64


def write_parquet(
    spark: SparkSession,
    options: Mapping[str, str],
    directory: Path,
    ranges: Sequence[OffsetRange] | None = None,
) -> int:
    """Write the log, or some ranges of it, into a new directory; returns the number of rows.

    `options` are those of `coordinator_log`. Raises SourceError, FileExistsError.
    """
    given = dict(options)
    if ranges is None:
        ranges = LogReader(parse_options(given)).ranges()
    directory.mkdir(parents=True)
    if not ranges:
        return 0
    tasks = spark.sparkContext.parallelize(list(ranges), len(ranges))
    done = tasks.map(lambda found: _attempt(given, found, directory)).collect()
    for failed in done:
        if isinstance(failed, str):
            raise SourceError(failed)
    return sum(done)


def _attempt(options: Mapping[str, str], found: OffsetRange, directory: Path) -> int | str:
    """Return the number of rows, or an error's text: Spark reports exceptions as Java stacks."""
    try:
        return write_range(options, found, directory)
    except (SourceError, OSError) as error:
        return str(error)


def write_range(options: Mapping[str, str], found: OffsetRange, directory: Path) -> int:
    """Write a range of one log partition, a file for each day; a rename completes each file."""
    parsed = parse_options(options)
    log = open_log(parsed)
    stem = f"part-{found.log_partition:05d}-{found.start:020d}-{found.incarnation}"
    files = _DayFiles(directory, stem, parsed.schema)
    rows = 0
    for batch in log.read(found.log_partition, found.start, found.end, found.incarnation):
        for day, of_day in by_day(batch):
            files.write(day, of_day)
        rows += batch.num_rows
    files.finish()
    return rows


class _DayFiles:
    """The files of a range, by day."""

    def __init__(self, directory: Path, stem: str, schema: pa.Schema) -> None:
        self._directory = directory
        self._stem = stem
        self._schema = schema
        self._open: dict[str, pq.ParquetWriter] = {}
        self._made: list[Path] = []

    def write(self, day: str, rows: pa.RecordBatch) -> None:
        """Append rows to the file of their day."""
        if day not in self._open:
            # Clients choose timestamps: a log can have any number of days.
            if len(self._open) >= _OPEN_FILES:
                self._close()
            target = self._directory / f"date={day}"
            target.mkdir(exist_ok=True)
            self._made.append(target / f"{self._stem}-{len(self._made)}.parquet")
            self._open[day] = pq.ParquetWriter(_unfinished(self._made[-1]), self._schema)
        self._open[day].write_batch(rows)

    def _close(self) -> None:
        for writer in self._open.values():
            writer.close()
        self._open.clear()

    def finish(self) -> None:
        """Close the files and give them their final names."""
        self._close()
        for path in self._made:
            _unfinished(path).rename(path)


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished")


def by_day(
    rows: pa.Table | pa.RecordBatch, column: str = "ts"
) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
    """Group rows by the UTC day of a time column; a batch nearly always has one day."""
    days = pc.cast(rows.column(column), pa.date32())
    for day in pc.unique(days):
        if day.is_valid:
            yield str(day.as_py()), rows.filter(pc.equal(days, day))
        else:
            yield NO_DATE, rows.filter(pc.is_null(days))
