"""The table `rebalances`, from history records, else `rb.*` headers, else changes of members."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from coordinator_pipeline.decode.row_decoder import EARLIEST_MS, LATEST_MS
from coordinator_pipeline.spark_queries import run_sql

_MEMBER: Final = (
    "struct<member_id:string,group_instance_id:string,client_id:string,client_host:string>"
)

_HISTORY_TYPE: Final = (
    "sequence bigint, generation_before int, generation_after int, started_ms bigint, "
    "ended_ms bigint, join_phase_ms bigint, sync_phase_ms bigint, reason string, outcome string, "
    f"culprit {_MEMBER}, client_reason string, "
    "counts struct<members_before:int,members_after:int,joined:int,left:int,evicted:int>, "
    f"joined array<{_MEMBER}>, left array<{_MEMBER}>, evicted array<{_MEMBER}>, "
    "rounds array<struct<reason:string,culprit:struct<member_id:string>>>"
)
"""The fields read from the JSON of a history record, as a type in Spark's SQL."""


def _members(name: str) -> str:
    """Return SQL for an array of members with the column names of the tables."""
    return (
        f"transform({name}, m -> struct(m.member_id AS member_id, "
        "m.group_instance_id AS instance_id, m.client_id AS client_id, m.client_host AS host))"
    )


def _time(millis: str) -> str:
    """Return SQL for a time from milliseconds; null outside EARLIEST_MS to LATEST_MS."""
    return f"timestamp_millis(IF({millis} BETWEEN {EARLIEST_MS} AND {LATEST_MS}, {millis}, NULL))"


_FROM_HISTORY: Final = f"""
SELECT group_id, h.generation_after AS generation, h.generation_before AS prev_generation,
       {_time("h.started_ms")} AS started_at, {_time("h.ended_ms")} AS ended_at,
       try_add(h.join_phase_ms, h.sync_phase_ms) AS duration_ms, h.join_phase_ms AS join_ms,
       h.sync_phase_ms AS sync_ms, h.reason, 'history' AS reason_source, h.client_reason, h.outcome,
       nullif(h.culprit.member_id, '') AS cause_member,
       h.culprit.group_instance_id AS cause_instance,
       nullif(h.culprit.client_id, '') AS cause_client,
       nullif(h.culprit.client_host, '') AS cause_host,
       h.counts.members_before, h.counts.members_after, h.counts.joined, h.counts.left,
       h.counts.evicted,
       {_members("h.joined")} AS joined_members, {_members("h.left")} AS left_members,
       {_members("h.evicted")} AS evicted_members,
       transform(h.rounds, r -> struct(r.reason AS reason,
           nullif(r.culprit.member_id, '') AS member_id)) AS rounds,
       h.sequence, log_partition, log_offset
FROM (SELECT group_id, log_partition, log_offset, from_json(history, '{_HISTORY_TYPE}') AS h
      FROM {{records}} WHERE kind = 32766 AND history IS NOT NULL)
"""

_WITHOUT_HISTORY: Final = """
SELECT c.*
FROM {chain} c LEFT ANTI JOIN {history} t
  ON t.group_id = c.group_id AND t.generation = c.generation
     AND abs(t.log_offset - c.log_offset) <= {near}
WHERE NOT c.tombstone AND (c.headers['rb.reason'] IS NOT NULL
    OR coalesce(c.generation != c.prev_generation, c.generation > 0))
"""

NEAR: Final = 1_000
"""A history record is in the same append as its group's record, within so many offsets."""

_INFERRED: Final = """
CASE WHEN headers['rb.reason'] IS NOT NULL THEN headers['rb.reason']
     WHEN history_gap THEN 'unknown'
     WHEN size(joined) > 0 AND size(left) > 0 AND array_except(owners, before_owners) = array()
          AND array_except(before_owners, owners) = array() THEN 'static_replaced'
     WHEN size(joined) > 0 AND size(left) > 0 THEN 'members_changed'
     WHEN size(joined) > 0 THEN 'member_joined'
     WHEN size(left) > 0 THEN 'member_gone'
     ELSE 'unknown' END
"""

_NONE: Final = (
    "CAST(NULL AS array<struct<member_id:string,instance_id:string,client_id:string,host:string>>)"
)

_FROM_GROUPS: Final = f"""
SELECT group_id, generation, coalesce(prev, prev_generation) AS prev_generation,
       started_at, ended_at,
       unix_millis(ended_at) - unix_millis(started_at) AS duration_ms,
       unix_millis(join_end) - unix_millis(started_at) AS join_ms,
       unix_millis(ended_at) - unix_millis(join_end) AS sync_ms,
       reason,
       CASE WHEN headed THEN 'header' WHEN reason = 'unknown' THEN 'unknown' ELSE 'inferred' END
           AS reason_source,
       headers['rb.client_reason'] AS client_reason,
       coalesce(headers['rb.outcome'], IF(n_members = 0, 'emptied', 'completed')) AS outcome,
       nullif(headers['rb.member'], '') AS cause_member, headers['rb.instance'] AS cause_instance,
       nullif(headers['rb.client'], '') AS cause_client,
       nullif(headers['rb.host'], '') AS cause_host,
       coalesce(try_cast(headers['rb.members_before'] AS int),
                IF(history_gap, NULL, size(before_ids)))
           AS members_before,
       n_members AS members_after, size(joined) AS joined, size(left) AS left,
       CASE WHEN headed THEN coalesce(try_cast(headers['rb.evicted'] AS int), 0) END AS evicted,
       {_NONE} AS joined_members, {_NONE} AS left_members, {_NONE} AS evicted_members,
       IF(headed, array(struct(reason AS reason, nullif(headers['rb.member'], '') AS member_id)),
          NULL) AS rounds,
       try_cast(headers['rb.sequence'] AS bigint) AS sequence, log_partition, log_offset
FROM (SELECT *, headers['rb.reason'] IS NOT NULL AS headed, {_INFERRED} AS reason,
             try_cast(headers['rb.prev_gen'] AS int) AS prev,
             {_time("try_cast(headers['rb.start'] AS bigint)")} AS started_at,
             coalesce({_time("try_cast(headers['rb.join_end'] AS bigint)")}, state_ts) AS join_end,
             coalesce({_time("try_cast(headers['rb.end'] AS bigint)")}, ts) AS ended_at
      FROM {{unexplained}})
"""


def of_log(spark: SparkSession, records: DataFrame, chain: DataFrame) -> DataFrame:
    """Derive the rebalances from records of groups and histories, without commit gaps and moves."""
    from_history = run_sql(spark, _FROM_HISTORY, records=records)
    ids = from_history.select("group_id", "generation", "log_offset")
    unexplained = run_sql(spark, _WITHOUT_HISTORY, chain=chain, history=ids, near=NEAR)
    return from_history.unionByName(run_sql(spark, _FROM_GROUPS, unexplained=unexplained))


_WITH_GAPS: Final = """
SELECT r.*, g.commit_gap_ms, c.moved_partitions AS partitions_moved, c.partitions
FROM {rebalances} r
LEFT JOIN {gaps} g ON g.group_id = r.group_id AND g.log_offset = r.log_offset
LEFT JOIN {moved} c ON c.group_id = r.group_id AND c.log_offset = r.log_offset
"""

_MOVED: Final = """
SELECT r.group_id, r.log_offset, max_by(c.moved_partitions, c.log_offset) AS moved_partitions,
       max_by(c.partitions, c.log_offset) AS partitions
FROM {rebalances} r JOIN {chain} c
  ON c.group_id = r.group_id AND c.generation = r.generation
     AND abs(c.log_offset - r.log_offset) <= {near}
GROUP BY 1, 2
"""


def rebalances(
    spark: SparkSession, found: DataFrame, chain: DataFrame, gaps: DataFrame
) -> DataFrame:
    """Make the table from `of_log`, the chain of gold_groups.py and the gaps of commits.py."""
    marks = found.select("group_id", "log_offset", "generation")
    moved = run_sql(
        spark,
        _MOVED,
        rebalances=marks,
        chain=chain.selectExpr(
            "group_id", "generation", "log_offset", "moved_partitions", "size(owned) AS partitions"
        ),
        near=NEAR,
    )
    return run_sql(spark, _WITH_GAPS, rebalances=found, gaps=gaps, moved=moved)
