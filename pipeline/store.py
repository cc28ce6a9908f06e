"""The output directory of a run: plain Parquet, `TABLE/batch=N/date=YYYY-MM-DD/*.parquet`.

A batch run writes batch 0. A run that follows the log writes a batch at a time: all records that
are new, and the rows of each group that has any, whole. `touched` says which those are and is
written last: of a group counts what the newest batch that touched it says. A batch that is done
again after a crash replaces its own files.
"""

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.records_schema import spark_ddl
from pipeline.tables import TABLES, Table

FORMAT: Final = 1
RUN_FILE: Final = "run.json"
RECORDS: Final = "records"
TOUCHED: Final = "touched"
_TOUCHED_DDL: Final = "unit string, key string, batch bigint"
_KEYS: Final = {"hot_partitions": ("window", "CAST(unix_seconds(window_start) AS string)")}
"""Unit and key of tables that are not computed by group."""
BY_NAME: Final[Mapping[str, Table]] = {table.name: table for table in TABLES}


class Store:
    """The tables in one output directory."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.directory = directory

    def write(self, name: str, rows: DataFrame, batch: int, day: str | None = None) -> None:
        """Write a table's rows of a batch, in the place of what that batch had."""
        target = str(self.directory / name / f"batch={batch}")
        if day is None:
            rows.write.mode("overwrite").parquet(target)
            return
        dated = rows.selectExpr("*", f"to_date({day}) AS date")
        dated.write.mode("overwrite").partitionBy("date").parquet(target)

    def write_table(self, table: Table, rows: DataFrame, batch: int) -> None:
        """The same for a table of `pipeline/tables.py`, columns in its order."""
        typed = [
            f"CAST({column.name} AS {column.kind}) AS {column.name}" for column in table.columns
        ]
        self.write(table.name, rows.selectExpr(*typed), batch, table.day)

    def records(self, upto: int | None = None) -> DataFrame:
        """All records, up to a batch, without those that a newer incarnation has made void."""
        rows = self._read(RECORDS, f"{spark_ddl()}, date date, batch bigint")
        if upto is not None:
            rows = rows.where(f"batch <= {upto}")
        if self.batches(RECORDS) <= 1:
            return rows
        rows = rows.dropDuplicates(["log_partition", "log_offset", "incarnation"])
        return self.spark.sql(_VALID, rows=rows)

    def of_batch(self, name: str, batch: int) -> DataFrame:
        """What a batch has written."""
        ddl = spark_ddl() if name == RECORDS else BY_NAME[name].ddl
        rows = self._read(name, f"{ddl}, date date, batch bigint")
        return rows.where(f"batch = {batch}")

    def table(self, name: str, before: int | None = None) -> DataFrame:
        """A table as of the newest batch, or as it was before one. Raises PipelineError."""
        if name == RECORDS:
            return self.records()
        if name not in BY_NAME:
            names = ", ".join([RECORDS, *BY_NAME])
            raise PipelineError(f"table {name!r}: expected one of {names}")
        rows = self._read(name, f"{BY_NAME[name].ddl}, date date, batch bigint")
        if before is not None:
            rows = rows.where(f"batch < {before}")
        if self.batches(name) > 1 and name != "end_offsets":
            unit, key = _KEYS.get(name, ("group", "group_id"))
            touched = self._read(TOUCHED, _TOUCHED_DDL)
            rows = self.spark.sql(_NEWEST.replace("%key%", key), rows=rows, all=touched, unit=unit)
        return rows.drop("batch")

    def _read(self, name: str, ddl: str) -> DataFrame:
        path = self.directory / name
        if not self.batches(name):
            return self.spark.createDataFrame([], ddl)
        return self.spark.read.schema(ddl).option("basePath", str(path)).parquet(str(path))

    def batches(self, name: str) -> int:
        """How many batches of a table are there."""
        return sum(1 for _ in (self.directory / name).glob("batch=*"))

    def register(self) -> None:
        """Make every table known to SQL by its name."""
        for name in (RECORDS, *BY_NAME):
            self.table(name).createOrReplaceTempView(name)


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


def open_store(spark: SparkSession, directory: Path) -> Store:
    """The tables of a finished or running run. Raises PipelineError."""
    read_run(directory)
    return Store(spark, directory)


def read_run(directory: Path) -> dict[str, Any]:
    """What run.json says.

    Raises:
        PipelineError: it is no output directory of a run.
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
    if not isinstance(run, dict) or run.get("format") != FORMAT:
        raise PipelineError(f"{path}: expected format {FORMAT} of coordinator-pipeline")
    return run


def save_run(directory: Path, run: Mapping[str, Any]) -> None:
    """Replace run.json."""
    written = directory / f".{RUN_FILE}"
    written.write_text(json.dumps(run, indent=2) + "\n")
    written.replace(directory / RUN_FILE)


def begin_run(directory: Path, source: Mapping[str, str], *, follow: bool, again: bool) -> None:
    """Take an output directory: a new or empty one, or a run of the same source to go on with.

    A finished batch run of the same source is replaced if `again`.

    Raises:
        PipelineError: something else is there; nothing has been changed.
    """
    mode = "follow" if follow else "batch"
    if directory.exists() and any(directory.iterdir()):
        _check_same(directory, source, mode, again=again)
        if not follow:
            _clear(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        began = datetime.now(UTC).isoformat(timespec="seconds")
        if not (directory / RUN_FILE).exists():
            run = {"format": FORMAT, "mode": mode, "source": dict(source), "began": began}
            save_run(directory, run | {"state": "running"})
    except OSError as error:
        raise PipelineError(f"--out {directory}: {error.strerror}") from None


def _check_same(directory: Path, source: Mapping[str, str], mode: str, *, again: bool) -> None:
    if not (directory / RUN_FILE).exists():
        raise PipelineError(f"--out {directory}: not empty and no run: expected a new directory")
    run = read_run(directory)
    was = run["source"]
    if was != dict(source):
        raise PipelineError(f"--out {directory}: is the run of another source, {_shown(was)}")
    if run["mode"] != mode:
        raise PipelineError(f"--out {directory}: is a {run['mode']} run, expected a new directory")
    if mode == "batch" and run["state"] == "complete" and not again:
        raise PipelineError(f"--out {directory}: has a run already; --overwrite replaces it")


def _shown(source: Mapping[str, str]) -> str:
    return " ".join(f"--{name} {value}" for name, value in source.items())


def _clear(directory: Path) -> None:
    for name in (RECORDS, TOUCHED, *BY_NAME):
        shutil.rmtree(directory / name, ignore_errors=True)
    (directory / RUN_FILE).unlink()
