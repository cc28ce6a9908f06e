"""Tables of committed offsets: `offset_commits`, `commit_rate`, `lag`.

The order within a partition's commits is that of the log; times only put rows into minutes.
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from pipeline.asking import ask, by_group

STALE_SECONDS: Final = 300
"""A sampled end offset older than this is not used."""

NUMBERED_READ: Final = ["log_partition", "log_offset", "problem"]
# A row that stands for damage may have the offset of a record behind it: then it comes first.
_NUMBERED: Final = """
SELECT log_partition, log_offset, is_damage,
       sum(is_hole) OVER (PARTITION BY log_partition ORDER BY log_offset, NOT is_damage
                          ROWS UNBOUNDED PRECEDING) AS hole
FROM (SELECT log_partition, log_offset, is_damage,
             int(is_damage OR coalesce(log_offset - lag(log_offset) OVER (
                 PARTITION BY log_partition ORDER BY log_offset) > 1, false)) AS is_hole
      FROM (SELECT log_partition, log_offset, problem IS NOT NULL AS is_damage FROM {records}))
"""

_COLUMNS: Final = """
log_partition, log_offset, ts, group_id, topic, partition, committed_offset, leader_epoch,
metadata, commit_ts
"""

READ: Final = [
    *(name.strip() for name in _COLUMNS.split(",")),
    "kind",
    "tombstone",
    "producer_id",
    "producer_epoch",
    "is_txn",
    "is_control",
    "control_type",
    "problem",
]

_PLAIN: Final = f"""
SELECT {_COLUMNS} FROM {{records}}
WHERE kind IN (0, 1) AND NOT tombstone AND NOT is_txn AND problem IS NULL
"""

_TRANSACTIONAL: Final = f"""
SELECT {_COLUMNS}
FROM (SELECT *, first(control_type, true) OVER (
          PARTITION BY log_partition, producer_id, producer_epoch ORDER BY log_offset
          ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS ended
      FROM {{records}} WHERE is_txn OR is_control)
WHERE kind IN (0, 1) AND NOT is_control AND NOT tombstone AND problem IS NULL
  AND ended = 'commit'
"""

_ADVANCES: Final = """
SELECT group_id, topic, partition, committed_offset, leader_epoch, metadata, commit_ts, ts,
       try_subtract(committed_offset, before) AS advance,
       coalesce(committed_offset < before, false) AS rewind,
       coalesce(hole != hole_before, false) AS history_gap,
       log_partition, log_offset
FROM (SELECT *,
             lag(committed_offset) OVER key AS before,
             lag(hole) OVER key AS hole_before
      FROM {commits}
      WINDOW key AS (PARTITION BY group_id, topic, partition ORDER BY log_offset))
"""

_AFTER_GAPS: Final = """
SELECT group_id, topic, partition, committed_offset, leader_epoch, metadata, commit_ts, ts,
       IF(history_gap, NULL, advance) AS advance, rewind AND NOT history_gap AS rewind,
       history_gap, log_partition, log_offset
FROM {commits}
"""

_RATE: Final = """
SELECT date_trunc('MINUTE', ts) AS minute, group_id, topic,
       count(*) AS commits,
       try_sum(greatest(coalesce(advance, 0L), 0L)) AS records_advanced,
       count_if(rewind) AS rewinds,
       count(DISTINCT partition) AS partitions,
       first(log_partition) AS log_partition
FROM {commits} GROUP BY 1, 2, 3
"""


def transactional_or_plain(spark: SparkSession, records: DataFrame) -> DataFrame:
    """The commits of `records` that count; one in a transaction does once that is committed."""
    return plain(spark, records).unionByName(ask(spark, _TRANSACTIONAL, records=records))


def plain(spark: SparkSession, records: DataFrame) -> DataFrame:
    """Those of them that are in no transaction."""
    return ask(spark, _PLAIN, records=records)


def offset_commits(
    spark: SparkSession,
    records: DataFrame,
    holey: DataFrame | None = None,
    *,
    transactions: bool = True,
) -> DataFrame:
    """The table; `holey` has all records of the log partitions in which some are missing.

    Without `transactions` no commit of `records` is in one, which saves half of the work.
    """
    commits = transactional_or_plain(spark, records) if transactions else plain(spark, records)
    if holey is None:
        commits = commits.selectExpr("*", "0 AS hole")
    else:
        holes = ask(spark, _NUMBERED, records=holey).where("NOT is_damage").drop("is_damage")
        commits = commits.join(holes, ["log_partition", "log_offset"], "left")
    advances = ask(spark, _ADVANCES, commits=by_group(commits))
    return ask(spark, _AFTER_GAPS, commits=advances)


def commit_rate(spark: SparkSession, commits: DataFrame) -> DataFrame:
    """The table, from `offset_commits`."""
    return ask(spark, _RATE, commits=commits)


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

# Hours make the join one of equals; an end that lasts for long is in several of them.
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
    """The table, from `offset_commits`, `commit_rate` and `end_offsets`, None if that is empty."""
    if end_offsets is None:
        return ask(spark, _UNKNOWN_LAG, rate=rate)
    last = ask(spark, _LAST_COMMITS, commits=commits)
    spans = ask(spark, _SPANS, ends=ask(spark, _LAST_ENDS, ends=end_offsets))
    hours = ask(spark, _BY_HOUR, commits=last, spans=spans)
    return ask(spark, _LAG, commits=last, ends=hours, stale=STALE_SECONDS)


_UNKNOWN_LAG: Final = """
SELECT minute, group_id, topic, bigint(NULL) AS lag_sum, bigint(NULL) AS lag_max,
       0L AS partitions_known, partitions AS partitions_unknown, double(NULL) AS end_offset_age_s,
       log_partition
FROM {rate}
"""
