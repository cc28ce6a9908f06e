"""Follows the log with Structured Streaming.

The stream gives the new offsets. Each batch writes their records and makes the tables of the groups
among them again, from all records of these groups. This process finds the changed keys; if the
batch is small, this process also reads and writes its rows, and Spark has one task for each table.
A batch that is repeated after a crash replaces its own files; `touched`, written last, completes
it.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import Final

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr
from pyspark.sql.streaming import StreamingQuery

from coordinator_pipeline import record_files
from coordinator_pipeline.changed_keys import (
    WINDOW_SECONDS,
    ChangedKeys,
    find_changed_keys,
    window_bounds,
)
from coordinator_pipeline.end_offsets import EndOffset, TopicEndReader, from_bootstrap
from coordinator_pipeline.errors import PipelineError
from coordinator_pipeline.gold import GoldTables
from coordinator_pipeline.record_files import RecordFile, RecordFiles
from coordinator_pipeline.run import LogSource, committed_partitions, write_end_offsets
from coordinator_pipeline.small_batch import SmallBatchReader
from coordinator_pipeline.source.datasource import NAME, OffsetRange
from coordinator_pipeline.source.options import RANGES_VIEW
from coordinator_pipeline.spark_queries import configure_planning
from coordinator_pipeline.store import TOUCHED, Store, write_rows
from coordinator_pipeline.tables import END_OFFSETS

CHECKPOINT: Final = "checkpoint"
DEFAULT_TRIGGER: Final = "200 milliseconds"
_POLL_SECONDS: Final = 1
_LISTED_KEYS: Final = 500
"""Up to so many keys are literals of a query, which lets Spark skip parts of files."""


def _ignore(name: str) -> None:
    """Print no line for each table of a batch."""


def problems(files: Sequence[RecordFile]) -> list[str]:
    """Return the problems in some files, with their partitions and offsets."""
    damaged = [one for one in files if one.is_damaged]
    columns = ["log_partition", "log_offset", "problem"]
    found = record_files.read_rows(damaged, columns, ds.field("problem").is_valid())
    return [
        f"partition {row['log_partition']}, offset {row['log_offset']}: {row['problem']}"
        for row in found.to_pylist()
    ]


class FollowStopped(Exception):
    """The process stops; the next run makes the batch."""


class MicroBatchHandler:
    """Writes the records and tables of each micro-batch of the stream."""

    def __init__(self, store: Store, source: LogSource, print_line: Callable[[str], None]) -> None:
        self._store = store
        self._source = source
        self._print_line = print_line
        self._bronze = RecordFiles(store.directory)
        self._topics = TopicEndReader(source.log) if source.log else None
        self._committed: set[tuple[str, int]] = set()
        self._is_first = True
        self._has_ends = False
        self._is_ending = False
        self._busy = Lock()
        self._reader = SmallBatchReader()
        self._executor = ThreadPoolExecutor(1, "small-batch-tables")

    @property
    def options(self) -> dict[str, str]:
        """The options of the data source for the log."""
        return self._source.options

    def end(self) -> None:
        """Wait for the current batch; later calls of `batch` raise FollowStopped."""
        self._is_ending = True
        with self._busy:
            pass

    def batch(self, ranges: DataFrame, number: int) -> None:
        """Write the batch of a range of offsets; `foreachBatch` calls it."""
        with self._busy:
            if self._is_ending:
                raise FollowStopped
            self._take(ranges, number)

    def _take(self, ranges: DataFrame, number: int) -> None:
        began = time.monotonic()
        found = [OffsetRange(*row) for row in ranges.collect()]
        self._begin(number)
        new = self._bronze.write(self._store.spark, self._source.options, found, number)
        files = self._bronze.files()
        ends = self._new_ends(files if self._is_first else new, number)
        changed = find_changed_keys(new, files, ends)
        self._make(files, changed, number)
        write_rows(self._store.directory / TOUCHED, changed.table(number), number)
        took = time.monotonic() - began
        unread = problems(new)
        records = sum(one.rows for one in new) - len(unread)
        self._print_line(f"batch {number}: {records:,} records, {took:.1f} s")
        if unread:
            self._print_line(
                f"batch {number}: {len(unread):,} batches or records could not be read, "
                f"the first: {unread[0]}"
            )

    def _begin(self, number: int) -> None:
        """Remove the files that mark an earlier attempt at the batch as complete."""
        newer = [n for n in self._store.batch_numbers(TOUCHED) if n > number]
        if newer:
            raise PipelineError(
                f"--out {self._store.directory}: the stream begins batch {number}, but batch "
                f"{newer[-1]} exists: {CHECKPOINT} is missing or of another run, "
                "expected a new directory"
            )
        for name in (TOUCHED, END_OFFSETS.name):
            shutil.rmtree(self._store.directory / name / f"batch={number}", ignore_errors=True)

    def _make(self, files: Sequence[RecordFile], changed: ChangedKeys, number: int) -> None:
        store, spark = self._store, self._store.spark
        gold = GoldTables(store, number, _ignore)
        small = self._reader.read(files, changed)
        configure_planning(spark, small=small is not None)
        if small is not None:
            gold.make_small(small, self._known_ends(), self._executor)
            return
        mine = record_files.files_of_partitions(files, changed.partitions)
        records, hot = record_files.read_frame(spark, mine), record_files.read_frame(spark, files)
        groups = changed.groups if number else None
        if groups is not None:
            records = _of_groups(records, groups)
            hot = _of_windows(hot, changed.windows)
        gold.make(mine, records, self._known_ends(), groups, hot)

    def _known_ends(self) -> DataFrame | None:
        """Return all end offsets, including those of this unfinished batch."""
        return self._store.all_rows(END_OFFSETS.name) if self._has_ends else None

    def _new_ends(self, new: Sequence[RecordFile], number: int) -> list[EndOffset]:
        """Read and write the end offsets that no earlier batch has."""
        if self._topics is not None:
            found = self._topics.read_new()
        else:
            self._committed.update(committed_partitions(new))
            found = from_bootstrap(str(self._source.bootstrap), sorted(self._committed))
        if self._is_first:
            known = set(self._ends_of_earlier_runs())
            found = [end for end in found if end not in known]
            self._has_ends = bool(known)
        self._is_first = False
        self._has_ends |= bool(found)
        write_end_offsets(self._store.directory, found, number)
        return found

    def _ends_of_earlier_runs(self) -> Iterator[EndOffset]:
        directory = self._store.directory / END_OFFSETS.name
        for path in directory.glob("batch=*/date=*/*.parquet"):
            for row in pq.ParquetFile(path).read().to_pylist():
                ts, topic, partition, end, source = (row[name] for name in END_OFFSETS.names)
                yield ts, topic, partition, end, source


def _of_groups(rows: DataFrame, groups: Collection[str]) -> DataFrame:
    """Select the rows of some groups."""
    if len(groups) <= _LISTED_KEYS:
        return rows.where(col("group_id").isin(list(groups)))
    listed = rows.sparkSession.createDataFrame([(group,) for group in groups], "group_id string")
    return rows.join(listed, "group_id", "left_semi")


def _of_windows(rows: DataFrame, windows: Collection[int]) -> DataFrame:
    """Select the rows of some windows; the bounds of all let Spark skip files."""
    first, end = window_bounds(windows)
    found = rows.where((col("ts") >= first) & (col("ts") < end))
    begin = expr(f"{WINDOW_SECONDS} * floor(unix_seconds(ts) / {WINDOW_SECONDS})")
    if len(windows) <= _LISTED_KEYS:
        return found.where(begin.isin(list(windows)))
    listed = rows.sparkSession.createDataFrame([(at,) for at in windows], "begin bigint")
    return found.join(listed, begin == col("begin"), "left_semi")


def start_following(
    spark: SparkSession,
    source: LogSource,
    directory: Path,
    print_line: Callable[[str], None],
    *,
    once: bool = False,
) -> StreamingQuery:
    """Start the stream where an earlier run of the same directory stopped.

    Args:
        spark: The session.
        source: The log.
        directory: The output directory, locked by `prepare`.
        print_line: Receives a line for each batch.
        once: Stop at the current end of the log.
    """
    return _start(
        spark, MicroBatchHandler(Store(spark, directory), source, print_line), directory, once=once
    )


def _start(
    spark: SparkSession, follower: MicroBatchHandler, directory: Path, *, once: bool = False
) -> StreamingQuery:
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "10000")
    stream = spark.readStream.format(NAME).options(**follower.options, view=RANGES_VIEW).load()
    writer = stream.writeStream.foreachBatch(follower.batch).option(
        "checkpointLocation", str(directory / CHECKPOINT)
    )
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=DEFAULT_TRIGGER).start()


def follow_log(
    spark: SparkSession, source: LogSource, directory: Path, print_line: Callable[[str], None]
) -> None:
    """Follow until SIGINT or SIGTERM, then finish the current batch; a second signal exits at once.

    Raises:
        StreamingQueryException: a batch failed.
    """
    stop_requested = Event()

    def request_stop(number: int, _frame: object) -> None:
        if stop_requested.is_set():
            os._exit(128 + number)
        stop_requested.set()

    # Spark's own handler calls Java during a call of Java.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, request_stop)
    follower = MicroBatchHandler(Store(spark, directory), source, print_line)
    query = _start(spark, follower, directory)
    while not stop_requested.is_set():
        if query.awaitTermination(_POLL_SECONDS):
            return
    print_line("Stopping after the current batch; repeat the signal to stop at once.")
    follower.end()
    query.stop()
