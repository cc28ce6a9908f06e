"""Follows the log with Structured Streaming.

Each batch adds its records and makes the tables of the groups in it again, from all their records.
A batch that is done again after a crash puts its files in the place of those it had.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pipeline.gold import Gold
from pipeline.run import Source, end_offsets
from pipeline.source.datasource import NAME
from pipeline.store import RECORDS, TOUCHED, Store
from pipeline.tables import END_OFFSETS

CHECKPOINT: Final = "checkpoint"
DEFAULT_TRIGGER: Final = "1 second"

# A marker ends the transactions of its producer, a newer incarnation undoes older records: both
# change groups that have no record in the batch. So does a later end of a topic in a minute.
_GROUPS: Final = """
SELECT DISTINCT group_id AS key FROM {new} WHERE group_id IS NOT NULL
UNION
SELECT DISTINCT o.group_id FROM {old} o JOIN {new} n
  ON n.is_control AND o.is_txn AND o.log_partition = n.log_partition
     AND o.producer_id = n.producer_id WHERE o.group_id IS NOT NULL
UNION
SELECT DISTINCT o.group_id FROM {old} o JOIN {new} n
  ON n.incarnation > o.incarnation AND o.log_partition = n.log_partition
     AND o.log_offset >= n.log_offset WHERE o.group_id IS NOT NULL
UNION
SELECT DISTINCT o.group_id FROM {old} o JOIN {ends} e
  ON o.topic = e.topic AND o.partition = e.partition
     AND date_trunc('MINUTE', o.ts) >= date_trunc('MINUTE', e.ts)
"""

_WINDOWS: Final = """
SELECT DISTINCT CAST(600 * floor(unix_seconds(ts) / 600) AS string) AS key
FROM {new} WHERE ts IS NOT NULL
UNION
SELECT DISTINCT CAST(600 * floor(unix_seconds(o.ts) / 600) AS string) FROM {old} o JOIN {new} n
  ON n.incarnation > o.incarnation AND o.log_partition = n.log_partition
     AND o.log_offset >= n.log_offset WHERE o.ts IS NOT NULL
"""

_OF_GROUPS: Final = """
SELECT r.* FROM {records} r LEFT SEMI JOIN {groups} g ON g.key = r.group_id
UNION ALL SELECT * FROM {records} WHERE is_control
"""

_OF_PARTITIONS: Final = """
SELECT r.* FROM {records} r LEFT SEMI JOIN {mine} m ON m.log_partition = r.log_partition
"""

_OF_WINDOWS: Final = """
SELECT r.* FROM {records} r LEFT SEMI JOIN {windows} w
ON w.key = CAST(600 * floor(unix_seconds(r.ts) / 600) AS string)
"""


def _unsaid(name: str) -> None:
    """Tables of a batch are not worth a line each."""


class Follower:
    """What is done with each batch of new records."""

    def __init__(self, store: Store, source: Source, told: Callable[[str], None]) -> None:
        self._store = store
        self._source = source
        self._told = told

    def batch(self, new: DataFrame, number: int) -> None:
        """Take in the new records of a batch; for `foreachBatch`."""
        began = time.monotonic()
        store, spark = self._store, self._store.spark
        store.write(RECORDS, new, number, "ts")
        new = store.of_batch(RECORDS, number).persist()
        records = store.records(number)
        ends = self._new_ends(records, number)
        groups = spark.sql(_GROUPS, new=new, old=records, ends=ends).persist()
        windows = spark.sql(_WINDOWS, new=new, old=records).persist()
        mine = spark.sql(_OF_GROUPS, records=records, groups=groups).persist()
        there = mine.select("log_partition").distinct()
        Gold(store, number, _unsaid).make(
            mine,
            store.table(END_OFFSETS.name),
            spark.sql(_OF_PARTITIONS, records=records, mine=there),
            spark.sql(_OF_WINDOWS, records=records, windows=windows),
        )
        touched = groups.selectExpr("'group' AS unit", "key").unionAll(
            windows.selectExpr("'window' AS unit", "key")
        )
        store.write(TOUCHED, touched.coalesce(1), number)
        count = new.count()
        for kept in (new, groups, windows, mine):
            kept.unpersist()
        took = time.monotonic() - began
        self._told(f"batch {number}: {count:,} records, {took:.1f} s")

    def _new_ends(self, records: DataFrame, number: int) -> DataFrame:
        """Write and return the ends of topics that are not known yet."""
        store = self._store
        known = store.table(END_OFFSETS.name, before=number).select(*END_OFFSETS.names)
        found = end_offsets(store.spark, self._source, records).exceptAll(known)
        store.write_table(END_OFFSETS, found.coalesce(1), number)
        return store.of_batch(END_OFFSETS.name, number)


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
    follower = Follower(Store(spark, directory), source, told)
    stream = spark.readStream.format(NAME).options(**source.options).load()
    writer = stream.writeStream.foreachBatch(follower.batch).option(
        "checkpointLocation", str(directory / CHECKPOINT)
    )
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=DEFAULT_TRIGGER).start()


def follow_log(
    spark: SparkSession, source: Source, directory: Path, told: Callable[[str], None]
) -> None:
    """Follow until interrupted."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    query = start_following(spark, source, directory, told)
    try:
        query.awaitTermination()
    finally:
        query.stop()
