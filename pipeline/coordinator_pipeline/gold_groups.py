"""The tables `generations`, `members`, `flapping` and `hot_partitions`.

Window functions run over ids and hashes only: with whole members they would take most of the time.
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from coordinator_pipeline.spark_queries import repartition_by_group, run_sql

READ: Final = [
    "group_id",
    "log_partition",
    "log_offset",
    "ts",
    "kind",
    "tombstone",
    "generation",
    "protocol",
    "leader",
    "state_ts",
    "members",
    "history",
    "headers",
]

_GROUPS: Final = """
SELECT group_id, log_partition, log_offset, ts, state_ts, generation, protocol, leader, tombstone,
       headers,
       coalesce(transform(members, m -> m.member_id), array()) AS member_ids,
       coalesce(flatten(transform(members, m -> coalesce(flatten(transform(m.assigned,
           a -> transform(a.partitions, p -> xxhash64(
               a.topic, p, coalesce(m.instance_id, m.member_id))))), array()))), array()) AS owned,
       coalesce(transform(members, m -> coalesce(m.instance_id, m.member_id)), array()) AS owners
FROM {records} WHERE kind = 2
"""

_CHAINED: Final = """
SELECT *,
       lag(struct(generation, tombstone, member_ids, owned, owners)) OVER chain AS before,
       lead(ts) OVER chain AS next_ts,
       lead(generation) OVER chain AS next_generation
FROM {groups} WINDOW chain AS (PARTITION BY group_id ORDER BY log_offset)
"""

_GENERATIONS: Final = """
SELECT *,
       IF(history_gap OR tombstone, NULL, array_except(member_ids, before_ids)) AS joined,
       IF(history_gap OR tombstone, NULL, array_except(before_ids, member_ids)) AS left,
       IF(history_gap OR tombstone, NULL, size(array_except(owned, before_owned)))
           AS moved_partitions
FROM (SELECT *,
             coalesce(before.member_ids, array()) AS before_ids,
             coalesce(before.owned, array()) AS before_owned,
             coalesce(before.owners, array()) AS before_owners,
             before.generation AS prev_generation,
             size(member_ids) AS n_members,
             size(member_ids) = 0 AS is_empty,
             NOT tombstone AND bigint(generation) - coalesce(before.generation, 0) NOT IN (0, 1)
                 AS history_gap
      FROM {groups})
"""


def of_groups(records: DataFrame) -> DataFrame:
    """Select the records of groups and of their history, all of a group in one task."""
    rows = records.where("kind IN (2, 32766) AND problem IS NULL").select(*READ)
    return repartition_by_group(rows)


def group_chain(spark: SparkSession, records: DataFrame) -> DataFrame:
    """Make `generations`, with columns for other tables: headers, before_ids, next_ts, ..."""
    groups = run_sql(spark, _GROUPS, records=records)
    chain = run_sql(spark, _GENERATIONS, groups=run_sql(spark, _CHAINED, groups=groups))
    return chain.drop("before")


_SEEN: Final = """
SELECT g.group_id, m.member_id, m.instance_id, m.client_id, m.host, g.ts, g.generation,
       g.log_offset, g.log_partition, g.next_ts, g.history_gap
FROM {chain} g JOIN {members} r
  ON r.group_id = g.group_id AND r.log_offset = g.log_offset
LATERAL VIEW explode(r.members) AS m
"""

_MEMBERSHIPS: Final = """
SELECT group_id, member_id,
       max_by(instance_id, log_offset) AS instance_id,
       max_by(client_id, log_offset) AS client_id,
       max_by(host, log_offset) AS host,
       min_by(ts, log_offset) AS first_seen,
       NOT min_by(history_gap, log_offset) AS first_is_exact,
       max_by(ts, log_offset) AS last_seen,
       max_by(next_ts, log_offset) AS gone_at,
       min_by(generation, log_offset) AS gen_in,
       max_by(generation, log_offset) AS gen_out,
       count(*) AS generations,
       first(log_partition) AS log_partition
FROM {seen} GROUP BY group_id, member_id
"""

# A history names a replaced static member by its new or by its old member id.
_ENDS: Final = """
SELECT group_id, member_id, max_by(reason, log_offset) AS reason
FROM (SELECT group_id, log_offset, cause.member_id, cause.reason
      FROM {rebalances} LATERAL VIEW explode(rounds) AS cause
      WHERE cause.reason NOT IN
        ('member_joined', 'leader_rejoined', 'follower_rejoined', 'metadata_changed')
      UNION ALL
      SELECT group_id, log_offset, gone.member_id, 'member_left'
      FROM {rebalances} LATERAL VIEW explode(left_members) AS gone
      UNION ALL
      SELECT group_id, log_offset - 1, gone.member_id, 'evicted'
      FROM {rebalances} LATERAL VIEW explode(evicted_members) AS gone)
WHERE member_id IS NOT NULL GROUP BY group_id, member_id
"""

_MEMBERS: Final = """
SELECT s.group_id, s.member_id, s.instance_id, s.client_id, s.host, s.first_seen, s.first_is_exact,
       s.last_seen, s.gone_at, s.gen_in, s.gen_out, s.generations,
       IF(s.gone_at IS NULL, NULL,
          coalesce(e.reason, IF(s.replaced, 'static_replaced', 'unknown'))) AS end_reason,
       double(coalesce(s.gone_at, s.last_seen)) - double(s.first_seen) AS lifetime_s,
       s.log_partition
FROM (SELECT *, instance_id IS NOT NULL AND gone_at = lead(first_seen) OVER (
          PARTITION BY group_id, instance_id ORDER BY first_seen, gone_at) AS replaced
      FROM {memberships}) s
LEFT JOIN {ends} e ON e.group_id = s.group_id AND e.member_id = s.member_id
"""


def members(
    spark: SparkSession, records: DataFrame, chain: DataFrame, rebalances: DataFrame
) -> DataFrame:
    """Make the table `members` from the members in `records`."""
    listed = records.where("kind = 2 AND members IS NOT NULL").select(
        "group_id", "log_offset", "members"
    )
    light = chain.select(
        "group_id", "log_partition", "log_offset", "ts", "generation", "next_ts", "history_gap"
    )
    seen = run_sql(spark, _SEEN, chain=light, members=listed)
    ends = run_sql(spark, _ENDS, rebalances=rebalances)
    return run_sql(spark, _MEMBERS, memberships=run_sql(spark, _MEMBERSHIPS, seen=seen), ends=ends)


_FLAPPING: Final = """
SELECT r.group_id, r.window_start, r.rebalances, r.stalled_ms, r.top_reason, r.top_member,
       r.top_client, r.top_host, coalesce(m.short, 0L) AS members_short_lived, r.log_partition
FROM (SELECT group_id, window(ended_at, '10 minutes').start AS window_start,
             count(*) AS rebalances, try_sum(duration_ms) AS stalled_ms,
             mode(reason, true) AS top_reason, mode(cause_member, true) AS top_member,
             mode(cause_client, true) AS top_client, mode(cause_host, true) AS top_host,
             first(log_partition) AS log_partition
      FROM {rebalances} GROUP BY 1, 2 HAVING count(*) >= 5) r
LEFT JOIN (SELECT group_id, window(gone_at, '10 minutes').start AS window_start, count(*) AS short
           FROM {members} WHERE first_is_exact AND lifetime_s < 60 AND gone_at IS NOT NULL
           GROUP BY 1, 2) m
ON m.group_id = r.group_id AND m.window_start = r.window_start
"""


def flapping(spark: SparkSession, rebalances: DataFrame, memberships: DataFrame) -> DataFrame:
    """Make the table `flapping` from `rebalances` and `members`."""
    return run_sql(spark, _FLAPPING, rebalances=rebalances, members=memberships)


HOT_READ: Final = ["ts", "log_partition", "group_id", "kind", "bytes"]
_HOT: Final = """
SELECT window_start, log_partition, records, bytes, commits, rebalances, groups,
       records / sum(records) OVER (PARTITION BY window_start) AS share,
       top.group_id AS top_group, top.records / records AS top_group_share
FROM (SELECT window_start, log_partition, sum(records) AS records, sum(bytes) AS bytes,
             sum(commits) AS commits, sum(rebalances) AS rebalances, count(group_id) AS groups,
             max_by(struct(group_id, records), struct(records, group_id))
                 FILTER (WHERE group_id IS NOT NULL) AS top
      FROM (SELECT timestamp_seconds(600 * floor(unix_seconds(ts) / 600)) AS window_start,
                   log_partition, group_id, count(*) AS records, sum(bytes) AS bytes,
                   count_if(kind IN (0, 1)) AS commits, count_if(kind = 2) AS rebalances
            FROM {records} WHERE ts IS NOT NULL GROUP BY 1, 2, 3)
      GROUP BY 1, 2)
"""


def hot_partitions(spark: SparkSession, records: DataFrame) -> DataFrame:
    """Make the table `hot_partitions` from all records of its windows."""
    return run_sql(spark, _HOT, records=records)
