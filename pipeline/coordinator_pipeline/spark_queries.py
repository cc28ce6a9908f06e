"""Runs SQL over data frames, and controls their caching, partitioning and planning."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def run_sql(spark: SparkSession, query: str, **given: Any) -> DataFrame:
    """Run `spark.sql` without dropping the cache of persisted frames.

    `spark.sql` makes a temporary view of each frame, and dropping a view also drops the cached
    data of its plan. A filter that passes all rows gives the view a plan without cached data.
    """
    frames = {
        name: value.where("true") if isinstance(value, DataFrame) else value
        for name, value in given.items()
    }
    return spark.sql(query, **frames)


def repartition_by_group(rows: DataFrame) -> DataFrame:
    """Repartition rows so that one task has all rows of a group."""
    tasks = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    return rows.coalesce(1) if tasks == 1 else rows.repartition(tasks, "group_id")


def configure_planning(spark: SparkSession, *, small: bool) -> None:
    """Configure the planning of the next queries for one task, or for two tasks for each core.

    One task joins small tables faster than it would broadcast them.
    """
    tasks = 1 if small else 2 * int(spark.sparkContext.defaultParallelism)
    spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
    spark.conf.set("spark.sql.adaptive.enabled", str(not small).lower())
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1" if small else "10MB")


def frame_of_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Make a data frame of an Arrow table, in one task."""
    return spark.createDataFrame(rows.combine_chunks()).coalesce(1)


@contextmanager
def frame_cache() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Return a function that persists a frame until the block ends.

    Spark would use a remaining cache instead of files that are written again.
    """
    with ExitStack() as stack:

        def cached(rows: DataFrame) -> DataFrame:
            stack.callback(rows.unpersist)
            return rows.persist()

        yield cached
