"""The output directory of a run: plain Parquet, `TABLE/batch=N/date=YYYY-MM-DD/*.parquet`.

A batch run writes batch 0. A run that follows the log writes a batch at a time: all new records,
and all rows of each group that has new records. `touched` names these groups and is written last:
the rows of a group that count are those of the newest batch that touched it. A batch that is
repeated after a crash replaces its own files.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from coordinator_pipeline.errors import PipelineError
from coordinator_pipeline.records_schema import spark_ddl
from coordinator_pipeline.source.parquet import by_day
from coordinator_pipeline.tables import TABLES, Table

FORMAT: Final = 1
RUN_FILE: Final = "run.json"
REPORT: Final = "report.html"
_NEEDED: Final = {"mode", "source", "state"}
"""The fields that run.json must have."""
RECORDS: Final = "records"
TOUCHED: Final = "touched"
_TOUCHED_DDL: Final = "unit string, key string, batch bigint"
_KEYS: Final = {"hot_partitions": ("window", "CAST(unix_seconds(window_start) AS string)")}
"""Unit and key, in `touched`, of tables that are not computed by group."""
_locked: Final[dict[Path, int]] = {}
"""The locked output directories of this process, and the descriptors of their locks."""
BY_NAME: Final[Mapping[str, Table]] = {table.name: table for table in TABLES}


class Store:
    """The tables in one output directory."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory

    def write_table(self, table: Table, rows: DataFrame, batch: int) -> None:
        """Write a table's rows of a batch; replaces the files of that batch."""
        dated = rows.selectExpr(*_typed(table), f"to_date({table.day}) AS date")
        target = str(self.directory / table.name / f"batch={batch}")
        dated.write.mode("overwrite").partitionBy("date").parquet(target)

    def write_small(self, table: Table, rows: DataFrame, batch: int) -> pa.Table:
        """Write a small table's rows of a batch in this process; returns them with all columns."""
        others = [f"`{name}`" for name in rows.columns if name not in table.names]
        found = rows.selectExpr(*_typed(table), *others).toArrow()
        write_rows(self.directory / table.name, found.select(table.names), batch, table.day)
        return found

    def records(self) -> DataFrame:
        """Return the records that no newer incarnation has made void."""
        rows = self._read(RECORDS, f"{spark_ddl()}, date date, batch bigint")
        if not self.batch_numbers(TOUCHED):
            return rows
        rows = self._finished(rows)
        # Only a stream finds another incarnation: the number before the last in a file name.
        cut = (self.directory / RECORDS).glob("batch=*/date=*/part-*-*-[1-9]*-*.parquet")
        return self.spark.sql(_VALID, rows=rows) if any(cut) else rows

    def _finished(self, rows: DataFrame) -> DataFrame:
        """Select the rows of finished batches."""
        last = max(self.batch_numbers(TOUCHED), default=-1)
        return rows.where(f"batch <= {last}")

    def table(self, name: str) -> DataFrame:
        """Return a table as of the newest finished batch. Raises PipelineError."""
        if name == RECORDS:
            return self.records()
        if name not in BY_NAME:
            names = ", ".join([RECORDS, *BY_NAME])
            raise PipelineError(f"table {name!r}: expected one of {names}")
        rows = self.all_rows(name)
        if self.batch_numbers(TOUCHED):
            if name == "end_offsets":
                rows = self.spark.sql(_LAST_OF_MINUTE, rows=self._finished(rows))
            else:
                unit, key = _KEYS.get(name, ("group", "group_id"))
                newest = _NEWEST.replace("%key%", key)
                touched = self._read(TOUCHED, _TOUCHED_DDL)
                rows = self.spark.sql(newest, rows=rows, all=touched, unit=unit)
        return rows.drop("batch")

    def all_rows(self, name: str) -> DataFrame:
        """Return all rows ever written to a table, including those of an unfinished batch."""
        return self._read(name, f"{BY_NAME[name].ddl}, date date, batch bigint")

    def _read(self, name: str, ddl: str) -> DataFrame:
        path = self.directory / name
        if not self.batch_numbers(name):
            return self.spark.createDataFrame([], ddl)
        return self.spark.read.schema(ddl).option("basePath", str(path)).parquet(str(path))

    def batch_numbers(self, name: str) -> list[int]:
        """Return the numbers of a table's batches, sorted."""
        found = (self.directory / name).glob("batch=*")
        return sorted(int(path.name.removeprefix("batch=")) for path in found)

    def register(self) -> None:
        """Register a temporary view for every table."""
        for name in (RECORDS, *BY_NAME):
            self.table(name).createOrReplaceTempView(name)


def _typed(table: Table) -> list[str]:
    return [f"CAST({column.name} AS {column.kind}) AS {column.name}" for column in table.columns]


_VALID: Final = """
SELECT r.* FROM {rows} r LEFT ANTI JOIN
    (SELECT log_partition, incarnation, min(log_offset) AS begin FROM {rows}
     WHERE incarnation > 0 GROUP BY 1, 2) i
ON i.log_partition = r.log_partition AND i.incarnation > r.incarnation AND r.log_offset >= i.begin
"""

_NEWEST: Final = """
SELECT r.* FROM {rows} r JOIN
    (SELECT key, max(batch) AS batch FROM {all} WHERE unit = {unit} GROUP BY key) t
ON t.key = %key% AND t.batch = r.batch
"""


_LAST_OF_MINUTE: Final = """
SELECT found.ts, topic, partition, found.end_offset, found.source, found.date, found.batch
FROM (SELECT topic, partition,
             max_by(struct(*), struct(ts, end_offset)) AS found
      FROM {rows} GROUP BY topic, partition, date_trunc('MINUTE', ts))
"""


def write_rows(directory: Path, rows: pa.Table, batch: int, day_of: str = "ts") -> None:
    """Write rows as a batch of a table, without Spark; a rename completes the batch.

    The rows are partitioned by the day of the column `day_of`, if they have it.
    """
    target = directory / f"batch={batch}"
    unfinished = directory / f".batch={batch}"
    for path in (target, unfinished):
        shutil.rmtree(path, ignore_errors=True)
    unfinished.mkdir(parents=True)
    days = by_day(rows, day_of) if day_of in rows.schema.names else [(None, rows)]
    for day, of_day in days:
        place = unfinished if day is None else unfinished / f"date={day}"
        place.mkdir(exist_ok=True)
        pq.write_table(of_day, place / "part-00000.parquet")
    unfinished.rename(target)


def open_store(spark: SparkSession, directory: Path) -> Store:
    """Open the tables of a finished or running run. Raises PipelineError."""
    read_run(directory)
    return Store(spark, directory)


def check_readable(directory: Path) -> None:
    """Check that all tables exist: a run that follows has them after its first batch.

    Raises:
        PipelineError: a table is missing.
    """
    run = read_run(directory)
    if run["mode"] == "follow" and not any((directory / TOUCHED).glob("batch=*")):
        raise PipelineError(
            f"--out {directory}: its first batch is not finished yet, try again later"
        )
    if run["mode"] == "batch" and run["state"] != "complete":
        raise PipelineError(f"--out {directory}: its run has not finished: run it again")


def read_run(directory: Path) -> dict[str, Any]:
    """Read run.json.

    Raises:
        PipelineError: the directory is no output directory of a run.
    """
    path = directory / RUN_FILE
    try:
        run = json.loads(path.read_text())
    except FileNotFoundError:
        raise PipelineError(
            f"--out {directory}: no {RUN_FILE} in it, expected the output of a run"
        ) from None
    except (OSError, ValueError) as error:
        raise PipelineError(f"{path}: cannot be read: {error}") from None
    if not isinstance(run, dict) or run.get("format") != FORMAT or not run.keys() >= _NEEDED:
        raise PipelineError(f"{path}: expected format {FORMAT} of coordinator-pipeline")
    return run


def save_run(directory: Path, run: Mapping[str, Any]) -> None:
    """Replace run.json."""
    written = directory / f".{RUN_FILE}"
    written.write_text(json.dumps(run, indent=2) + "\n")
    written.replace(directory / RUN_FILE)


def begin_run(directory: Path, source: Mapping[str, str], *, follow: bool, overwrite: bool) -> None:
    """Lock an output directory: a new or empty one, or that of a run of the same source.

    With `overwrite`, this replaces a finished batch run of the same source.

    Raises:
        PipelineError: the directory holds something else, which stays unchanged.
    """
    mode = "follow" if follow else "batch"
    try:
        if not directory.exists():
            directory.mkdir(parents=True, exist_ok=True)
        _lock(directory)
        if any(directory.iterdir()):
            _check_same(directory, source, mode, overwrite=overwrite)
        began = datetime.now(UTC).isoformat(timespec="seconds")
        if not follow or not (directory / RUN_FILE).exists():
            run = {"format": FORMAT, "mode": mode, "source": dict(source), "began": began}
            save_run(directory, run | {"state": "running"})
        if not follow:
            _clear(directory)
    except OSError as error:
        raise PipelineError(f"--out {directory}: {error.strerror}") from None


def _check_same(directory: Path, source: Mapping[str, str], mode: str, *, overwrite: bool) -> None:
    if not (directory / RUN_FILE).exists():
        raise PipelineError(f"--out {directory}: not empty and no run: expected a new directory")
    run = read_run(directory)
    was = run["source"]
    if was != dict(source):
        raise PipelineError(f"--out {directory}: holds the run of another source, {_shown(was)}")
    if run["mode"] != mode:
        raise PipelineError(
            f"--out {directory}: holds a {run['mode']} run, expected a new directory"
        )
    if mode == "batch" and run["state"] == "complete" and not overwrite:
        raise PipelineError(f"--out {directory}: holds a finished run; --overwrite replaces it")


def _shown(source: Mapping[str, str]) -> str:
    return " ".join(f"--{name} {value}" for name, value in source.items())


def _clear(directory: Path) -> None:
    """Remove the tables of an earlier run; run.json no longer marks it as complete."""
    for name in (RECORDS, TOUCHED, *BY_NAME):
        shutil.rmtree(directory / name, ignore_errors=True)
    (directory / REPORT).unlink(missing_ok=True)


def _lock(directory: Path) -> None:
    """Lock the directory until this process ends, if the file system has locks."""
    place = directory.resolve()
    if place in _locked:
        return
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise PipelineError(f"--out {directory}: another run is writing to it") from None
    except OSError:
        os.close(descriptor)
        return
    _locked[place] = descriptor
