"""All tables from records, each written as soon as it is known."""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from pyspark.sql import DataFrame

from pipeline import gold_groups, gold_offsets, gold_rebalances
from pipeline.asking import in_memory, of_rows
from pipeline.few import Few
from pipeline.store import BY_NAME, Store

_MOST_ROWS: Final = 2_000
"""More than these are read sooner from the file they are in, by column."""


class Gold:
    """Makes the tables of a batch from its records."""

    def __init__(self, store: Store, batch: int, told: Callable[[str], None]) -> None:
        """`told` is called with the name of each table that is about to be made."""
        self._store = store
        self._batch = batch
        self._told = told

    def make(
        self,
        records: DataFrame,
        ends: DataFrame | None,
        holey: DataFrame | None = None,
        hot: DataFrame | None = None,
        *,
        transactions: bool = True,
    ) -> None:
        """Write all tables.

        Args:
            records: Those of the groups to be made, and all markers.
            ends: The table `end_offsets`; None if it is empty.
            holey: All records of the log partitions in which offsets are missing; None if none is.
            hot: All records of the times of which `hot_partitions` is made; by default `records`.
            transactions: Whether some of the records are in transactions.
        """
        spark = self._store.spark
        with in_memory() as cached:
            commits = cached(
                gold_offsets.offset_commits(spark, records, holey, transactions=transactions)
            )
            self._keep("offset_commits", commits)
            rate = self._keep("commit_rate", gold_offsets.commit_rate(spark, commits))
            self._keep("lag", gold_offsets.lag(spark, commits, rate, ends))
            groups = cached(gold_groups.of_groups(records))
            chain = cached(gold_groups.group_chain(spark, groups))
            self._keep("generations", chain)
            found = cached(gold_rebalances.of_log(spark, groups, chain))
            rebalances = gold_rebalances.rebalances(spark, found, chain, commits)
            rebalances = self._keep("rebalances", rebalances)
            stays = gold_groups.members(spark, groups, chain, rebalances)
            stays = self._keep("members", stays)
        self._keep("flapping", gold_groups.flapping(spark, rebalances, stays))
        everywhere = records if hot is None else hot
        self._keep("hot_partitions", gold_groups.hot_partitions(spark, everywhere))

    def make_few(self, few: Few, ends: DataFrame | None, beside: Executor) -> None:
        """Write all tables of few records, which are in this process between any two of them.

        Planning is most of the work then: a plan that begins with rows is small. What needs
        nothing of each other is made at the same time, by the thread that is `beside`.
        """
        spark = self._store.spark

        def offsets() -> DataFrame:
            commits = gold_offsets.offset_commits(
                spark,
                of_rows(spark, few.commits),
                None if few.holey is None else of_rows(spark, few.holey),
                transactions=few.has_transactions,
            )
            return self._keep_few("offset_commits", commits)

        def rates(commits: DataFrame) -> None:
            rate = self._keep_few("commit_rate", gold_offsets.commit_rate(spark, commits))
            self._keep_few("lag", gold_offsets.lag(spark, commits, rate, ends))
            hot = of_rows(spark, few.hot)
            self._keep_few("hot_partitions", gold_groups.hot_partitions(spark, hot))

        making = beside.submit(offsets)
        groups = of_rows(spark, few.groups)
        chain = self._keep_few("generations", gold_groups.group_chain(spark, groups))
        found = of_rows(spark, gold_rebalances.of_log(spark, groups, chain).toArrow())
        commits = making.result()
        making_rates = beside.submit(rates, commits)
        rebalances = self._keep_few(
            "rebalances", gold_rebalances.rebalances(spark, found, chain, commits)
        )
        stays = self._keep_few("members", gold_groups.members(spark, groups, chain, rebalances))
        self._keep_few("flapping", gold_groups.flapping(spark, rebalances, stays))
        making_rates.result()

    def _keep(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table; returns it as it can be read now."""
        self._told(name)
        self._store.write_table(BY_NAME[name], rows, self._batch)
        return self._written(name)

    def _written(self, name: str) -> DataFrame:
        path = str(self._store.directory / name / f"batch={self._batch}")
        return self._store.spark.read.schema(BY_NAME[name].ddl).parquet(path)

    def _keep_few(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table of few rows; returns them, with what they have besides its columns."""
        self._told(name)
        found = self._store.write_few(BY_NAME[name], rows, self._batch)
        if found.num_rows > _MOST_ROWS and found.column_names == BY_NAME[name].names:
            return self._written(name)
        return of_rows(self._store.spark, found)
