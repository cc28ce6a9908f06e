"""Runs a batch: reads the current log into `records` and makes all tables."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from coordinator_pipeline.end_offsets import EndOffset, TopicEndReader, from_bootstrap
from coordinator_pipeline.errors import PipelineError, WrongArguments
from coordinator_pipeline.gold import GoldTables
from coordinator_pipeline.record_files import (
    RecordFile,
    RecordFiles,
    in_portions,
    is_small,
    read_frame,
    read_rows,
)
from coordinator_pipeline.source.datasource import LogReader, open_log
from coordinator_pipeline.source.errors import SourceError
from coordinator_pipeline.source.options import parse_options
from coordinator_pipeline.source.segments import open_segments
from coordinator_pipeline.spark_queries import configure_planning
from coordinator_pipeline.store import RECORDS, Store, begin_run, read_run, save_run, write_rows
from coordinator_pipeline.tables import END_OFFSETS


@dataclass(frozen=True)
class LogSource:
    """The location of the log: a directory or the address of a server."""

    log: Path | None = None
    bootstrap: str | None = None
    topic: str = "__consumer_offsets"

    @property
    def options(self) -> dict[str, str]:
        """The options of the data source. Raises WrongArguments."""
        if (self.log is None) == (self.bootstrap is None):
            raise WrongArguments("expected one of --log DIR and --bootstrap HOST:PORT")
        where = {"path": str(self.log)} if self.log else {"bootstrap": str(self.bootstrap)}
        return where | {"topic": self.topic}

    def check(self) -> None:
        """Check that the log can be read, before Spark starts.

        Raises:
            PipelineError: there is no log, it may not be read, or no server answers.
        """
        flag = "--log" if self.options.get("path") else "--bootstrap"
        try:
            numbers = open_log(parse_options(self.options)).partitions()
            if self.log is not None:
                for number in numbers:
                    with open_segments(self.log / f"{self.topic}-{number}"):
                        pass
        except SourceError as error:
            raise PipelineError(f"{flag}: {error}") from None


@dataclass
class RunSummary:
    """The counts of a run, which run.json holds."""

    records: int = 0
    groups: int = 0
    problems: int = 0
    """Batches and records that could not be read or decoded."""
    unknown_kinds: int = 0
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)
    """The first five problems."""

    @property
    def form(self) -> dict[str, Any]:
        """The JSON object for run.json."""
        return dict(vars(self))


_COUNT = """
SELECT count_if(problem IS NULL) AS records, count(DISTINCT group_id) AS groups,
       count(problem) AS problems,
       count_if(kind NOT IN (0, 1, 2, 32766) AND NOT is_control) AS unknown_kinds
FROM {records}
"""


def summarize(spark: SparkSession, records: DataFrame) -> RunSummary:
    """Count the records, groups and problems in `records`."""
    row = spark.sql(_COUNT, records=records).first()
    assert row is not None
    found = RunSummary(row["records"], row["groups"], row["problems"], row["unknown_kinds"])
    if found.problems:
        bad = records.where("problem IS NOT NULL").select("log_partition", "log_offset", "problem")
        found.examples = [
            f"partition {one['log_partition']}, offset {one['log_offset']}: {one['problem']}"
            for one in bad.orderBy("log_partition", "log_offset").limit(5).collect()
        ]
    return found


def prepare(
    source: LogSource, directory: Path, *, follow: bool = False, overwrite: bool = False
) -> None:
    """Check the log and lock the output directory, before Spark starts.

    Raises:
        PipelineError: the log cannot be read, or the directory holds something else.
    """
    source.check()
    begin_run(directory, source_fields(source), follow=follow, overwrite=overwrite)


def run_batch(
    spark: SparkSession,
    source: LogSource,
    directory: Path,
    on_table: Callable[[str], None],
) -> RunSummary:
    """Read the log and write all tables into a directory that `prepare` has locked."""
    began = time.monotonic()
    store, bronze = Store(spark, directory), RecordFiles(directory)
    on_table(END_OFFSETS.name)
    ranges = LogReader(parse_options(source.options)).ranges()
    # Read together with the ranges: later records of the topics are no lag of these commits.
    ends = [] if source.log is None else TopicEndReader(source.log).read_new()
    on_table(RECORDS)
    new = bronze.write(spark, source.options, ranges, 0)
    records = read_frame(spark, new)
    is_few = is_small(new)
    configure_planning(spark, small=is_few)
    if is_few:
        records = records.coalesce(1).persist()
    if source.bootstrap is not None:
        ends = from_bootstrap(source.bootstrap, committed_partitions(new))
    write_end_offsets(directory, ends, 0)
    known = store.table(END_OFFSETS.name) if ends else None
    GoldTables(store, 0, on_table).make(new, records, known)
    summary = summarize(spark, records)
    if is_few:
        records.unpersist()
    summary.seconds = round(time.monotonic() - began, 1)
    finish(directory, summary)
    return summary


def committed_partitions(files: Sequence[RecordFile]) -> list[tuple[str, int]]:
    """Return the topic partitions with committed offsets, sorted."""
    commits = ds.field("kind").isin([0, 1]) & ~ds.field("topic").is_null()
    found: set[tuple[str, int]] = set()
    for some in in_portions(files):
        rows = read_rows(some, ["topic", "partition"], commits)
        distinct = rows.group_by(["topic", "partition"]).aggregate([]).to_pylist()
        found.update((row["topic"], row["partition"]) for row in distinct)
    return sorted(found)


def write_end_offsets(directory: Path, ends: Sequence[EndOffset], batch: int) -> None:
    """Write the rows of `end_offsets` of a batch."""
    schema = pa.schema(
        [
            ("ts", pa.timestamp("us", tz="UTC")),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("end_offset", pa.int64()),
            ("source", pa.string()),
        ]
    )
    rows = [dict(zip(schema.names, end, strict=True)) for end in ends]
    write_rows(directory / END_OFFSETS.name, pa.Table.from_pylist(rows, schema=schema), batch)


def source_fields(source: LogSource) -> Mapping[str, str]:
    """Return the source as run.json holds it."""
    where = {"log": str(source.log.resolve())} if source.log else {"bootstrap": source.bootstrap}
    return {name: str(value) for name, value in where.items()} | {"topic": source.topic}


def finish(directory: Path, summary: RunSummary) -> None:
    """Mark the run as complete in run.json."""
    ended = datetime.now(UTC).isoformat(timespec="seconds")
    run = read_run(directory) | {"state": "complete", "ended": ended, "summary": summary.form}
    save_run(directory, run)
