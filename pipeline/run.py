"""A batch run: the log as it is now, to Parquet, to tables."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pipeline.end_offsets import from_bootstrap, from_directory
from pipeline.errors import PipelineError
from pipeline.gold import Gold
from pipeline.source.datasource import NAME
from pipeline.store import RECORDS, Store, begin_run, read_run, save_run
from pipeline.tables import END_OFFSETS


@dataclass(frozen=True)
class Source:
    """Where the log is: a directory or the address of a server."""

    log: Path | None = None
    bootstrap: str | None = None
    topic: str = "__consumer_offsets"

    @property
    def options(self) -> dict[str, str]:
        """For the data source."""
        if (self.log is None) == (self.bootstrap is None):
            raise PipelineError("expected one of --log DIR and --bootstrap HOST:PORT")
        where = {"path": str(self.log)} if self.log else {"bootstrap": str(self.bootstrap)}
        return where | {"topic": self.topic}

    def check(self) -> None:
        """Look whether there is a log, before anything is made or started.

        Raises:
            PipelineError: there is none, or it may not be read.
        """
        assert self.options
        if self.log is None:
            return
        from pipeline.source.errors import SourceError
        from pipeline.source.listing import partitions_of

        try:
            for number in partitions_of(self.log, self.topic):
                list((self.log / f"{self.topic}-{number}").iterdir())
        except SourceError as error:
            raise PipelineError(f"--log: {error}") from None
        except OSError as error:
            raise PipelineError(f"--log {self.log}: {error.filename}: {error.strerror}") from None


@dataclass
class Summary:
    """What a run has found; goes into run.json."""

    records: int = 0
    groups: int = 0
    problems: int = 0
    """Batches and records that could not be read or decoded."""
    unknown_kinds: int = 0
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)
    """What some of the problems were."""

    @property
    def form(self) -> dict[str, Any]:
        """For JSON."""
        return dict(vars(self))


_COUNT = """
SELECT count_if(problem IS NULL) AS records, count(DISTINCT group_id) AS groups,
       count(problem) AS problems,
       count_if(kind NOT IN (0, 1, 2, 32766) AND NOT is_control) AS unknown_kinds
FROM {records}
"""


def summarize(spark: SparkSession, records: DataFrame) -> Summary:
    """Count what is in `records`."""
    row = spark.sql(_COUNT, records=records).first()
    assert row is not None
    found = Summary(row["records"], row["groups"], row["problems"], row["unknown_kinds"])
    if found.problems:
        bad = records.where("problem IS NOT NULL").select("log_partition", "log_offset", "problem")
        found.examples = [
            f"partition {one['log_partition']}, offset {one['log_offset']}: {one['problem']}"
            for one in bad.orderBy("log_partition", "log_offset").limit(5).collect()
        ]
    return found


def read_log(spark: SparkSession, source: Source) -> DataFrame:
    """The records of a log as they are now."""
    return spark.read.format(NAME).options(**source.options).load()


def prepare(
    source: Source, directory: Path, *, follow: bool = False, overwrite: bool = False
) -> None:
    """Check what can be checked before Spark is started, and take the output directory.

    Raises:
        PipelineError: there is no log, or the directory has something else.
    """
    source.check()
    begin_run(directory, source_form(source), follow=follow, again=overwrite)


def run_batch(
    spark: SparkSession,
    source: Source,
    directory: Path,
    told: Callable[[str], None],
) -> Summary:
    """Read everything, write all tables into a directory that `prepare` has taken."""
    began = time.monotonic()
    store = Store(spark, directory)
    told(RECORDS)
    store.write(RECORDS, read_log(spark, source), 0, "ts")
    told(END_OFFSETS.name)
    records = store.records()
    store.write_table(END_OFFSETS, end_offsets(spark, source, records), 0)
    Gold(store, 0, told).make(records, store.table(END_OFFSETS.name))
    summary = summarize(spark, records)
    summary.seconds = round(time.monotonic() - began, 1)
    finish(directory, summary)
    return summary


def end_offsets(spark: SparkSession, source: Source, records: DataFrame) -> DataFrame:
    """The ends of topics: from their own logs beside the coordinator's, or asked for."""
    if source.log is not None:
        rows = from_directory(source.log)
    else:
        assert source.bootstrap is not None
        commits = records.where("kind IN (0, 1) AND topic IS NOT NULL")
        wanted = commits.select("topic", "partition").distinct().collect()
        rows = from_bootstrap(source.bootstrap, [(row[0], row[1]) for row in wanted])
    return spark.createDataFrame(rows, END_OFFSETS.ddl)


def source_form(source: Source) -> Mapping[str, str]:
    """For run.json."""
    where = {"log": str(source.log.resolve())} if source.log else {"bootstrap": source.bootstrap}
    return {name: str(value) for name, value in where.items()} | {"topic": source.topic}


def finish(directory: Path, summary: Summary) -> None:
    """Note in run.json that all tables are there."""
    ended = datetime.now(UTC).isoformat(timespec="seconds")
    run = read_run(directory) | {"state": "complete", "ended": ended, "summary": summary.form}
    save_run(directory, run)
