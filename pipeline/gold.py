"""All tables from records, each written as soon as it is known."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from pipeline import gold_groups, gold_offsets, gold_rebalances
from pipeline.asking import in_memory
from pipeline.store import BY_NAME, Store


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
    ) -> None:
        """Write all tables.

        Args:
            records: Those of the groups to be made, and all markers.
            ends: The table `end_offsets`; None if it is empty.
            holey: All records of the log partitions in which offsets are missing; None if none is.
            hot: All records of the times of which `hot_partitions` is made; by default `records`.
        """
        spark = self._store.spark
        with in_memory() as cached:
            commits = cached(gold_offsets.offset_commits(spark, records, holey))
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

    def _keep(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table; returns it as it can be read now."""
        self._told(name)
        table = BY_NAME[name]
        self._store.write_table(table, rows, self._batch)
        path = str(self._store.directory / name / f"batch={self._batch}")
        return self._store.spark.read.schema(table.ddl).parquet(path)
