"""All tables from records, each written as soon as it is known."""

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
from coordinator_pipeline.record_files import RecordFile, partitions_with_gaps
from coordinator_pipeline.small_batch import SmallBatch
from coordinator_pipeline.spark_queries import frame_cache, frame_of_rows
from coordinator_pipeline.store import BY_NAME, Store, write_rows
from coordinator_pipeline.tables import COMMIT_RATE, OFFSET_COMMITS


class GoldTables:
    """Makes the tables of a batch from its records."""

    def __init__(self, store: Store, batch: int, told: Callable[[str], None]) -> None:
        """`told` is called with the name of each table that is about to be made."""
        self._store = store
        self._batch = batch
        self._told = told

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
            files: All files of the log partitions in which the groups are.
            records: Those of the groups to be made.
            ends: The table `end_offsets`; None if it is empty.
            groups: Which groups; None for all.
            hot: All records of the times of which `hot_partitions` is made; by default `records`.
        """
        spark = self._store.spark
        commits, rate, gaps = self._commits(files, groups)
        self._keep("lag", gold_offsets.lag(spark, commits, rate, ends))
        with frame_cache() as cached:
            of_groups = cached(gold_groups.of_groups(records))
            chain = cached(gold_groups.group_chain(spark, of_groups))
            self._keep("generations", chain)
            found = cached(gold_rebalances.of_log(spark, of_groups, chain))
            rebalances = gold_rebalances.rebalances(spark, found, chain, gaps)
            rebalances = self._keep("rebalances", rebalances)
            shutil.rmtree(self._store.directory / GAPS_NAME)
            stays = gold_groups.members(spark, of_groups, chain, rebalances)
            stays = self._keep("members", stays)
        self._keep("flapping", gold_groups.flapping(spark, rebalances, stays))
        everywhere = records if hot is None else hot
        self._keep("hot_partitions", gold_groups.hot_partitions(spark, everywhere))

    def make_small(self, few: SmallBatch, ends: DataFrame | None, beside: Executor) -> None:
        """Write all tables of few records, which are in this process between any two of them.

        Planning is most of the work then: a plan that begins with rows is small. What needs
        nothing of each other is made at the same time, by the thread that is `beside`.
        """
        spark = self._store.spark

        def rates() -> None:
            self._write_small("lag", gold_offsets.lag(spark, commits, rate, ends))
            hot = frame_of_rows(spark, few.hot)
            self._write_small("hot_partitions", gold_groups.hot_partitions(spark, hot))

        commits, rate, gaps = self._small_commits(few)
        making = beside.submit(rates)
        groups = frame_of_rows(spark, few.groups)
        chain = self._write_small("generations", gold_groups.group_chain(spark, groups))
        found = frame_of_rows(spark, gold_rebalances.of_log(spark, groups, chain).toArrow())
        rebalances = self._write_small(
            "rebalances", gold_rebalances.rebalances(spark, found, chain, gaps)
        )
        stays = self._write_small("members", gold_groups.members(spark, groups, chain, rebalances))
        self._write_small("flapping", gold_groups.flapping(spark, rebalances, stays))
        making.result()

    def _begin(self, name: str) -> None:
        self._told(name)

    def _commits(
        self, files: Sequence[RecordFile], groups: Collection[str] | None
    ) -> tuple[DataFrame, DataFrame, DataFrame]:
        self._begin(OFFSET_COMMITS.name)
        directory, spark = self._store.directory, self._store.spark
        write_commits(spark, files, partitions_with_gaps(files), groups, directory, self._batch)
        gaps = spark.read.schema(GAPS).parquet(str(directory / GAPS_NAME / f"batch={self._batch}"))
        return self._written(OFFSET_COMMITS.name), self._written(COMMIT_RATE.name), gaps

    def _small_commits(self, few: SmallBatch) -> tuple[DataFrame, DataFrame, DataFrame]:
        self._begin(OFFSET_COMMITS.name)
        rows = offset_commits(few.commits, few.holey)
        write_rows(self._store.directory / OFFSET_COMMITS.name, rows, self._batch)
        self._begin(COMMIT_RATE.name)
        rate, directory = commit_rate(rows), self._store.directory / COMMIT_RATE.name
        write_rows(directory, rate, self._batch, COMMIT_RATE.day)
        spark = self._store.spark
        gaps = frame_of_rows(spark, commit_gaps(rows, few.groups))
        return self._written(OFFSET_COMMITS.name), frame_of_rows(spark, rate), gaps

    def _keep(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table; returns it as it can be read now."""
        self._begin(name)
        self._store.write_table(BY_NAME[name], rows, self._batch)
        return self._written(name)

    def _written(self, name: str) -> DataFrame:
        path = str(self._store.directory / name / f"batch={self._batch}")
        return self._store.spark.read.schema(BY_NAME[name].ddl).parquet(path)

    def _write_small(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table of few rows; returns them, with what they have besides its columns."""
        self._begin(name)
        found = self._store.write_small(BY_NAME[name], rows, self._batch)
        return frame_of_rows(self._store.spark, found)
