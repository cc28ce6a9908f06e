"""Makes all tables from records, and writes each as soon as it is computed."""

import shutil
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor

from pyspark.sql import DataFrame

from coordinator_pipeline import gold_groups, gold_offsets, gold_rebalances
from coordinator_pipeline.commits import (
    GAPS,
    GAPS_NAME,
    commit_gaps,
    commit_rate,
    offset_commits,
    write_commits,
)
from coordinator_pipeline.record_files import RecordFile, partitions_with_holes
from coordinator_pipeline.small_batch import SmallBatch
from coordinator_pipeline.spark_queries import frame_cache, frame_of_rows
from coordinator_pipeline.store import BY_NAME, Store, write_rows
from coordinator_pipeline.tables import COMMIT_RATE, OFFSET_COMMITS


class GoldTables:
    """Makes the tables of one batch."""

    def __init__(self, store: Store, batch: int, on_table: Callable[[str], None]) -> None:
        """`on_table` receives the name of each table before it is made."""
        self._store = store
        self._batch = batch
        self._on_table = on_table

    def make(
        self,
        files: Sequence[RecordFile],
        records: DataFrame,
        ends: DataFrame | None,
        groups: Collection[str] | None = None,
        hot: DataFrame | None = None,
    ) -> None:
        """Write all tables.

        Args:
            files: All files of the log partitions of the groups.
            records: The records of the groups.
            ends: The table `end_offsets`; None if it is empty.
            groups: The groups; None for all.
            hot: All records of the windows of `hot_partitions`; `records` by default.
        """
        spark = self._store.spark
        commits, rate, gaps = self._commits(files, groups)
        self._write("lag", gold_offsets.lag(spark, commits, rate, ends))
        with frame_cache() as cached:
            of_groups = cached(gold_groups.of_groups(records))
            chain = cached(gold_groups.group_chain(spark, of_groups))
            self._write("generations", chain)
            found = cached(gold_rebalances.of_log(spark, of_groups, chain))
            rebalances = gold_rebalances.rebalances(spark, found, chain, gaps)
            rebalances = self._write("rebalances", rebalances)
            shutil.rmtree(self._store.directory / GAPS_NAME)
            memberships = gold_groups.members(spark, of_groups, chain, rebalances)
            memberships = self._write("members", memberships)
        self._write("flapping", gold_groups.flapping(spark, rebalances, memberships))
        everywhere = records if hot is None else hot
        self._write("hot_partitions", gold_groups.hot_partitions(spark, everywhere))

    def make_small(self, batch: SmallBatch, ends: DataFrame | None, executor: Executor) -> None:
        """Write all tables of a small batch; this process holds the rows between two queries.

        Planning takes most of the time of a small batch, and a plan over local rows is small. The
        thread of `executor` makes the tables of rates while this one makes those of groups.
        """
        spark = self._store.spark

        def rates() -> None:
            self._write_small("lag", gold_offsets.lag(spark, commits, rate, ends))
            hot = frame_of_rows(spark, batch.hot)
            self._write_small("hot_partitions", gold_groups.hot_partitions(spark, hot))

        commits, rate, gaps = self._small_commits(batch)
        rates_written = executor.submit(rates)
        groups = frame_of_rows(spark, batch.groups)
        chain = self._write_small("generations", gold_groups.group_chain(spark, groups))
        found = frame_of_rows(spark, gold_rebalances.of_log(spark, groups, chain).toArrow())
        rebalances = self._write_small(
            "rebalances", gold_rebalances.rebalances(spark, found, chain, gaps)
        )
        memberships = self._write_small(
            "members", gold_groups.members(spark, groups, chain, rebalances)
        )
        self._write_small("flapping", gold_groups.flapping(spark, rebalances, memberships))
        rates_written.result()

    def _commits(
        self, files: Sequence[RecordFile], groups: Collection[str] | None
    ) -> tuple[DataFrame, DataFrame, DataFrame]:
        self._on_table(OFFSET_COMMITS.name)
        directory, spark = self._store.directory, self._store.spark
        write_commits(spark, files, partitions_with_holes(files), groups, directory, self._batch)
        gaps = spark.read.schema(GAPS).parquet(str(directory / GAPS_NAME / f"batch={self._batch}"))
        return self._written(OFFSET_COMMITS.name), self._written(COMMIT_RATE.name), gaps

    def _small_commits(self, batch: SmallBatch) -> tuple[DataFrame, DataFrame, DataFrame]:
        self._on_table(OFFSET_COMMITS.name)
        rows = offset_commits(batch.commits, batch.incomplete)
        write_rows(self._store.directory / OFFSET_COMMITS.name, rows, self._batch)
        self._on_table(COMMIT_RATE.name)
        rate, directory = commit_rate(rows), self._store.directory / COMMIT_RATE.name
        write_rows(directory, rate, self._batch, COMMIT_RATE.day)
        spark = self._store.spark
        gaps = frame_of_rows(spark, commit_gaps(rows, batch.groups))
        return self._written(OFFSET_COMMITS.name), frame_of_rows(spark, rate), gaps

    def _write(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table; returns a frame over the written files."""
        self._on_table(name)
        self._store.write_table(BY_NAME[name], rows, self._batch)
        return self._written(name)

    def _written(self, name: str) -> DataFrame:
        path = str(self._store.directory / name / f"batch={self._batch}")
        return self._store.spark.read.schema(BY_NAME[name].ddl).parquet(path)

    def _write_small(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a small table; returns its rows, including columns that the table does not have."""
        self._on_table(name)
        found = self._store.write_small(BY_NAME[name], rows, self._batch)
        return frame_of_rows(self._store.spark, found)
