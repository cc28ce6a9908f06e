"""Queries over data frames: those that are kept in memory and how they are spread, and few rows."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession


def run_sql(spark: SparkSession, query: str, **given: Any) -> DataFrame:
    """`spark.sql`, after which data frames that are persisted still are.

    It makes a view of each frame and drops it, and Spark drops with a view what is kept of its
    plan. So the view is one of a filter that lets everything through, of which nothing is kept.
    """
    frames = {
        name: value.where("true") if isinstance(value, DataFrame) else value
        for name, value in given.items()
    }
    return spark.sql(query, **frames)


def repartition_by_group(rows: DataFrame) -> DataFrame:
    """The same with all rows of a group in one task, of as many as a shuffle has."""
    tasks = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    return rows.coalesce(1) if tasks == 1 else rows.repartition(tasks, "group_id")


def configure_planning(spark: SparkSession, *, small: bool) -> None:
    """Have what comes be planned for few rows in one task, or for many in a few for each core.

    SmallBatch rows are joined before a task would have sent them to all others.
    """
    tasks = 1 if small else 2 * int(spark.sparkContext.defaultParallelism)
    spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
    spark.conf.set("spark.sql.adaptive.enabled", str(not small).lower())
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1" if small else "10MB")


def frame_of_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A data frame of few rows, in one task."""
    return spark.createDataFrame(rows.combine_chunks()).coalesce(1)


@contextmanager
def frame_cache() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Gives what keeps a data frame in memory until the block ends, whichever way.

    Spark would take what is left there for the rows of files that are written anew.
    """
    with ExitStack() as stack:

        def cached(rows: DataFrame) -> DataFrame:
            stack.callback(rows.unpersist)
            return rows.persist()

        yield cached
