"""The log to Parquet files without a detour over the JVM: Spark's tasks write what they decode.

Every row that Spark itself writes goes from Arrow to Java objects first, which costs several times
what decoding does. The files are plain Parquet for everybody, in directories `date=YYYY-MM-DD` as
Spark would make them. The directory must be one that all executors share, as with `path`.
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
from coordinator_pipeline.source.options import parse

NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""What Spark calls the day of a row without a time."""
_OPEN_FILES: Final = 64


def write_parquet(
    spark: SparkSession,
    options: Mapping[str, str],
    directory: Path,
    ranges: Sequence[OffsetRange] | None = None,
) -> int:
    """Write the log, or some ranges of it, into a new directory; returns how many rows.

    `options` are those of `coordinator_log`. Raises SourceError, FileExistsError.
    """
    given = dict(options)
    if ranges is None:
        ranges = LogReader(parse(given)).ranges()
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
    """Rows, or what is wrong: Spark would tell that in a page of Java's stack."""
    try:
        return write_range(options, found, directory)
    except (SourceError, OSError) as error:
        return str(error)


def write_range(options: Mapping[str, str], found: OffsetRange, directory: Path) -> int:
    """Write a range of one log partition, a file for each day; each is there when it is whole."""
    parsed = parse(options)
    log = open_log(parsed)
    stem = f"part-{found.log_partition:05d}-{found.start:020d}-{found.incarnation}"
    files = _Files(directory, stem, parsed.schema)
    rows = 0
    for batch in log.read(found.log_partition, found.start, found.end, found.incarnation):
        for day, of_day in by_day(batch):
            files.write(day, of_day)
        rows += batch.num_rows
    files.finish()
    return rows


class _Files:
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
            # Times are what clients and a foreign log say: any number of days.
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
        """All is written: give the files their names."""
        self._close()
        for path in self._made:
            _unfinished(path).rename(path)


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished")


def by_day(
    rows: pa.Table | pa.RecordBatch, column: str = "ts"
) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
    """Rows by the day of a time, UTC; nearly always they are of one."""
    days = pc.cast(rows.column(column), pa.date32())
    for day in pc.unique(days):
        if day.is_valid:
            yield str(day.as_py()), rows.filter(pc.equal(days, day))
        else:
            yield NO_DATE, rows.filter(pc.is_null(days))
