"""The table `lag`, from `offset_commits`, `commit_rate` and `end_offsets`."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from coordinator_pipeline.spark_queries import run_sql

STALE_SECONDS: Final = 300
"""The age above which a sampled end offset is not used."""

_LAST_COMMITS: Final = """
SELECT date_trunc('MINUTE', ts) AS minute, group_id, topic, partition,
       max_by(committed_offset, log_offset) AS committed_offset,
       first(log_partition) AS log_partition
FROM {commits} GROUP BY 1, 2, 3, 4
"""

_LAST_ENDS: Final = """
SELECT topic, partition, date_trunc('MINUTE', ts) AS minute,
       max_by(struct(ts, end_offset, source), struct(ts, end_offset)) AS last
FROM {ends} GROUP BY 1, 2, 3
"""

_SPANS: Final = """
SELECT topic, partition, last.end_offset, last.ts AS sampled, last.source, minute AS from_minute,
       lead(minute) OVER (PARTITION BY topic, partition ORDER BY minute) AS to_minute
FROM {ends}
"""

# The hour allows an equi-join; an end that holds for long is in several hours.
_BY_HOUR: Final = """
SELECT s.*, h.hour
FROM (SELECT DISTINCT topic, partition, date_trunc('HOUR', minute) AS hour FROM {commits}) h
JOIN {spans} s ON s.topic = h.topic AND s.partition = h.partition
     AND s.from_minute < h.hour + INTERVAL 1 HOUR
     AND (s.to_minute IS NULL OR s.to_minute > h.hour)
"""

_LAG: Final = """
SELECT minute, group_id, topic,
       try_sum(behind) AS lag_sum,
       max(behind) AS lag_max,
       count(end_offset) AS partitions_known,
       count(*) - count(end_offset) AS partitions_unknown,
       max(age) AS end_offset_age_s,
       first(log_partition) AS log_partition
FROM (SELECT minute, group_id, topic, log_partition,
             IF(age <= {stale}, end_offset, NULL) AS end_offset,
             IF(age <= {stale}, greatest(try_subtract(end_offset, committed_offset), 0L), NULL)
                 AS behind,
             IF(age <= {stale}, age, NULL) AS age
      FROM (SELECT l.*, e.end_offset,
                   CASE WHEN e.source = 'log' THEN 0D
                        WHEN e.sampled IS NOT NULL
                        THEN greatest(0D, double(l.minute) + 60 - double(e.sampled)) END AS age
            FROM {commits} l LEFT JOIN {ends} e
            ON e.topic = l.topic AND e.partition = l.partition
               AND e.hour = date_trunc('HOUR', l.minute)
               AND e.from_minute <= l.minute AND (e.to_minute IS NULL OR l.minute < e.to_minute)))
GROUP BY 1, 2, 3
"""


def lag(
    spark: SparkSession, commits: DataFrame, rate: DataFrame, end_offsets: DataFrame | None
) -> DataFrame:
    """Make the table `lag`; `end_offsets` is None if that table is empty."""
    if end_offsets is None:
        return run_sql(spark, _UNKNOWN_LAG, rate=rate)
    last = run_sql(spark, _LAST_COMMITS, commits=commits)
    spans = run_sql(spark, _SPANS, ends=run_sql(spark, _LAST_ENDS, ends=end_offsets))
    hours = run_sql(spark, _BY_HOUR, commits=last, spans=spans)
    return run_sql(spark, _LAG, commits=last, ends=hours, stale=STALE_SECONDS)


_UNKNOWN_LAG: Final = """
SELECT minute, group_id, topic, bigint(NULL) AS lag_sum, bigint(NULL) AS lag_max,
       0L AS partitions_known, partitions AS partitions_unknown, double(NULL) AS end_offset_age_s,
       log_partition
FROM {rate}
"""
