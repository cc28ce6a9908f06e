"""Follows the log with Structured Streaming.

The stream says which offsets are new; each batch writes their records and makes the tables of the
groups among them again, from all their records. What the batch changes is found in this process;
where it is little, this process reads and writes it too, and Spark has one task for each table.
A batch that is done again after a crash replaces the files it had; `touched`, written last, makes
it count.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Lock
from typing import Final

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr
from pyspark.sql.streaming import StreamingQuery

from coordinator_pipeline import record_files
from coordinator_pipeline.changed_keys import WINDOW_SECONDS, ChangedKeys, find_changed_keys
from coordinator_pipeline.end_offsets import EndOffset, TopicEndReader, from_bootstrap
from coordinator_pipeline.errors import PipelineError
from coordinator_pipeline.gold import GoldTables
from coordinator_pipeline.record_files import RecordFile, RecordFiles
from coordinator_pipeline.run import Source, committed_partitions, write_end_offsets
from coordinator_pipeline.small_batch import SmallBatchReader
from coordinator_pipeline.source.datasource import NAME, OffsetRange
from coordinator_pipeline.source.options import RANGES_VIEW
from coordinator_pipeline.spark_queries import configure_planning
from coordinator_pipeline.store import TOUCHED, Store, write_rows
from coordinator_pipeline.tables import END_OFFSETS

CHECKPOINT: Final = "checkpoint"
DEFAULT_TRIGGER: Final = "200 milliseconds"
_LOOK_SECONDS: Final = 1
_NAMED: Final = 500
"""So many keys are told to Spark one by one, which lets it leave out parts of files."""


def _unsaid(name: str) -> None:
    """Tables of a batch are not worth a line each."""


def problems(files: Sequence[RecordFile]) -> list[str]:
    """What could not be read of some files, and where it is."""
    damaged = [one for one in files if one.is_damaged]
    columns = ["log_partition", "log_offset", "problem"]
    found = record_files.look(damaged, columns, ds.field("problem").is_valid())
    return [
        f"partition {row['log_partition']}, offset {row['log_offset']}: {row['problem']}"
        for row in found.to_pylist()
    ]


class FollowStopped(Exception):
    """The batch is left to the next run."""


class MicroBatchHandler:
    """What is done with each batch of new offsets."""

    def __init__(self, store: Store, source: Source, told: Callable[[str], None]) -> None:
        self._store = store
        self._source = source
        self._told = told
        self._bronze = RecordFiles(store.directory)
        self._topics = TopicEndReader(source.log) if source.log else None
        self._committed: set[tuple[str, int]] = set()
        self._is_first = True
        self._has_ends = False
        self._is_ending = False
        self._busy = Lock()
        self._reader = SmallBatchReader()
        self._beside = ThreadPoolExecutor(1, "beside")

    @property
    def options(self) -> dict[str, str]:
        """Of the log, for the data source."""
        return self._source.options

    def end(self) -> None:
        """Wait until the batch that has begun is done; no other is, in this process."""
        self._is_ending = True
        with self._busy:
            pass

    def batch(self, ranges: DataFrame, number: int) -> None:
        """Take in the offsets of a batch; for `foreachBatch`."""
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
        touched = find_changed_keys(new, files, ends)
        self._make(files, touched, number)
        write_rows(self._store.directory / TOUCHED, touched.table(number), number)
        took = time.monotonic() - began
        unread = problems(new)
        records = sum(one.rows for one in new) - len(unread)
        self._told(f"batch {number}: {records:,} records, {took:.1f} s")
        if unread:
            many = f"{len(unread):,} batches or records"
            self._told(f"batch {number}: {many} could not be read, the first: {unread[0]}")

    def _begin(self, number: int) -> None:
        """What an earlier attempt at the batch has left behind does not count."""
        newer = [n for n in self._store.numbers(TOUCHED) if n > number]
        if newer:
            raise PipelineError(
                f"--out {self._store.directory}: the stream begins batch {number}, but {newer[-1]} "
                f"is there: {CHECKPOINT} is gone or of another run, expected a new directory"
            )
        for name in (TOUCHED, END_OFFSETS.name):
            shutil.rmtree(self._store.directory / name / f"batch={number}", ignore_errors=True)

    def _make(self, files: Sequence[RecordFile], touched: ChangedKeys, number: int) -> None:
        store, spark = self._store, self._store.spark
        gold = GoldTables(store, number, _unsaid)
        few = self._reader.take(files, touched)
        configure_planning(spark, small=few is not None)
        if few is not None:
            gold.make_small(few, self._known_ends(), self._beside)
            return
        mine = record_files.files_of_partitions(files, touched.partitions)
        records, hot = record_files.read(spark, mine), record_files.read(spark, files)
        groups = touched.groups if number else None
        if groups is not None:
            records = _of_groups(records, groups)
            hot = _of_windows(hot, touched.windows)
        gold.make(mine, records, self._known_ends(), groups, hot)

    def _known_ends(self) -> DataFrame | None:
        """With those of this batch, which does not count for others yet."""
        return self._store.written(END_OFFSETS.name) if self._has_ends else None

    def _new_ends(self, new: Sequence[RecordFile], number: int) -> list[EndOffset]:
        """Find and write the ends of topics that are not known yet."""
        if self._topics is not None:
            found = self._topics.new()
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
    """The rows of some groups. SmallBatch are told one by one: then less is read."""
    if len(groups) <= _NAMED:
        return rows.where(col("group_id").isin(list(groups)))
    listed = rows.sparkSession.createDataFrame([(group,) for group in groups], "group_id string")
    return rows.join(listed, "group_id", "left_semi")


def _of_windows(rows: DataFrame, windows: Collection[int]) -> DataFrame:
    """The rows of some windows; what is outside of their span is not even read."""
    begins = [datetime.fromtimestamp(at, UTC) for at in windows] or [datetime.fromtimestamp(0, UTC)]
    end = max(begins) + timedelta(seconds=WINDOW_SECONDS)
    found = rows.where((col("ts") >= min(begins)) & (col("ts") < end))
    begin = expr(f"{WINDOW_SECONDS} * floor(unix_seconds(ts) / {WINDOW_SECONDS})")
    if len(windows) <= _NAMED:
        return found.where(begin.isin(list(windows)))
    listed = rows.sparkSession.createDataFrame([(at,) for at in windows], "begin bigint")
    return found.join(listed, begin == col("begin"), "left_semi")


def start_following(
    spark: SparkSession,
    source: Source,
    directory: Path,
    told: Callable[[str], None],
    *,
    once: bool = False,
) -> StreamingQuery:
    """Begin to follow, where an earlier run of the same directory stopped.

    Args:
        spark: The session.
        source: The log.
        directory: The output directory, taken with `prepare`.
        told: Called with a line for each batch.
        once: Stop when all that is there now is done.
    """
    return _start(
        spark, MicroBatchHandler(Store(spark, directory), source, told), directory, once=once
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
    spark: SparkSession, source: Source, directory: Path, told: Callable[[str], None]
) -> None:
    """Follow until SIGINT or SIGTERM, and finish the batch that has begun; a second ends at once.

    Raises:
        StreamingQueryException: a batch failed.
    """
    asked = Event()

    def ask(number: int, _frame: object) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()

    # Spark's own handler calls Java in the middle of a call of Java.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    follower = MicroBatchHandler(Store(spark, directory), source, told)
    query = _start(spark, follower, directory)
    while not asked.is_set():
        if query.awaitTermination(_LOOK_SECONDS):
            return
    told("ending when this batch is done; once more: at once")
    follower.end()
    query.stop()
