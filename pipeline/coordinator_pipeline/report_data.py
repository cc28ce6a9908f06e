"""Queries the tables for the report; each query returns a bounded number of rows.

Charts omit rows without a time; sums that overflow are null.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]

# The cost in partition-seconds: the duration times the assigned partitions.
_COST: Final = "coalesce(duration_ms, 0) / 1000D * coalesce(partitions, 0)"

QUERIES: Final = {
    "totals": """
        SELECT (SELECT count(*) FROM rebalances) AS rebalances,
               (SELECT count(DISTINCT group_id) FROM records WHERE group_id IS NOT NULL) AS groups,
               (SELECT count(*) FROM offset_commits) AS commits,
               (SELECT count(*) FROM flapping) AS flapping,
               (SELECT try_sum(duration_ms) FROM rebalances) / 1000 AS stalled_s,
               (SELECT count_if(history_gap) FROM generations) AS gaps,
               (SELECT count_if(rewind) FROM offset_commits) AS rewinds,
               coalesce((SELECT min(ts) FROM records),
                        (SELECT min(ended_at) FROM rebalances)) AS first,
               coalesce((SELECT max(ts) FROM records),
                        (SELECT max(ended_at) FROM rebalances)) AS last
    """,
    "stops": """
        SELECT group_id, generation, ended_at, duration_ms, commit_gap_ms, reason, reason_source,
               client_reason, cause_member, cause_client, cause_host, members_before, members_after
        FROM rebalances WHERE commit_gap_ms IS NOT NULL OR duration_ms IS NOT NULL
        ORDER BY coalesce(commit_gap_ms, 0) DESC, duration_ms DESC, ended_at LIMIT 20
    """,
    "busiest": f"""
        SELECT group_id, count(*) AS rebalances, try_sum(duration_ms) / 1000 AS stalled_s,
               sum({_COST}) AS cost
        FROM rebalances GROUP BY 1 ORDER BY stalled_s DESC NULLS LAST, rebalances DESC, group_id
        LIMIT 8
    """,
    "timeline": """
        SELECT * FROM (
        SELECT row_number() OVER (PARTITION BY r.group_id ORDER BY r.duration_ms DESC) AS place,
               r.group_id, r.started_at, r.ended_at,
               r.duration_ms, r.reason, r.generation,
               r.cause_client, r.members_after
        FROM rebalances r JOIN shown_groups USING (group_id) WHERE r.ended_at IS NOT NULL
        ) WHERE place <= 300
    """,
    "commits": """
        SELECT group_id, timestamp_seconds({step} * floor(unix_seconds(minute) / {step})) AS at,
               sum(commits) AS commits
        FROM commit_rate JOIN shown_groups USING (group_id) WHERE minute IS NOT NULL
        GROUP BY 1, 2 ORDER BY 1, 2
    """,
    "heat": """
        SELECT group_id, reason, count(*) AS n FROM rebalances
        WHERE group_id IN (SELECT group_id FROM (SELECT group_id, count(*) AS times
                                                 FROM rebalances GROUP BY 1)
                           ORDER BY times DESC, 1 LIMIT 15)
        GROUP BY 1, 2
    """,
    "culprits": f"""
        SELECT coalesce(cause_instance, cause_client, '?') AS culprit,
               coalesce(cause_host, '?') AS host,
               count(*) AS rebalances, count(DISTINCT group_id) AS groups,
               mode(reason, true) AS reason,
               try_sum(duration_ms) / 1000 AS stalled_s, sum({_COST}) AS cost
        FROM rebalances WHERE cause_member IS NOT NULL
        GROUP BY 1, 2 ORDER BY cost DESC, rebalances DESC, culprit LIMIT 15
    """,
    "restarts": f"""
        SELECT group_id, min(coalesce(started_at, ended_at)) AS began, max(ended_at) AS ended,
               count(*) AS rebalances,
               count(DISTINCT coalesce(cause_client, cause_host)) AS clients,
               count_if(reason IN ('member_left', 'session_expired', 'static_replaced',
                                   'member_gone')) AS gone,
               count_if(reason IN ('member_joined', 'static_replaced')) AS came,
               try_sum(duration_ms) / 1000 AS stalled_s, sum({_COST}) AS cost
        FROM (SELECT *, sum(is_first) OVER (PARTITION BY group_id ORDER BY log_offset) AS run
              FROM (SELECT *, int(coalesce(unix_seconds(ended_at) - unix_seconds(
                        lag(ended_at) OVER (PARTITION BY group_id ORDER BY log_offset)), 1e9)
                        > 180) AS is_first FROM rebalances))
        GROUP BY group_id, run HAVING count(*) >= 3 AND gone >= 1 AND came >= 1
        ORDER BY cost DESC, rebalances DESC, group_id LIMIT 12
    """,
    "lifetimes": """
        SELECT * FROM (
        SELECT row_number() OVER (PARTITION BY group_id ORDER BY first_seen DESC) AS place,
               group_id, coalesce(instance_id, client_id, member_id) AS name, member_id,
               first_seen,
               coalesce(gone_at, last_seen) AS until, gone_at IS NULL AS alive, end_reason,
               lifetime_s
        FROM members WHERE group_id IN (SELECT group_id FROM (
                               SELECT group_id, count(gone_at) AS gone
                                                 FROM members GROUP BY 1)
                           ORDER BY gone DESC, 1 LIMIT 3)
              AND first_seen IS NOT NULL AND coalesce(gone_at, last_seen) IS NOT NULL
        ) WHERE place <= 24
    """,
    "lag": """
        SELECT group_id, timestamp_seconds({step} * floor(unix_seconds(minute) / {step})) AS at,
               max(lag) AS lag
        FROM (SELECT group_id, minute, try_sum(lag_sum) AS lag FROM lag
              WHERE lag_sum IS NOT NULL AND minute IS NOT NULL GROUP BY 1, 2)
        WHERE group_id IN (SELECT group_id FROM (SELECT group_id, max(lag_sum) AS most FROM lag
                                                  GROUP BY 1)
                           WHERE most IS NOT NULL ORDER BY most DESC, 1 LIMIT 4)
        GROUP BY 1, 2 ORDER BY 1, 2
    """,
    "lag_marks": """
        SELECT * FROM (
        SELECT row_number() OVER (PARTITION BY group_id ORDER BY duration_ms DESC) AS place,
               group_id, ended_at, reason FROM rebalances
        WHERE group_id IN (SELECT group_id FROM (SELECT group_id, max(lag_sum) AS most FROM lag
                                                  GROUP BY 1)
                           WHERE most IS NOT NULL ORDER BY most DESC, 1 LIMIT 4)
              AND ended_at IS NOT NULL
        ) WHERE place <= 100
    """,
    "hot": """
        SELECT log_partition, sum(records) AS records, sum(bytes) AS bytes,
               sum(records) / sum(sum(records)) OVER () AS share,
               max_by(top_group, records) AS top_group, max(top_group_share) AS top_group_share
        FROM hot_partitions GROUP BY 1 ORDER BY records DESC LIMIT 12
    """,
    "load": """
        SELECT timestamp_seconds({step} * floor(unix_seconds(minute) / {step})) AS at,
               sum(commits) AS commits
        FROM commit_rate WHERE minute IS NOT NULL GROUP BY 1 ORDER BY 1
    """,
    "rewinds": """
        SELECT group_id, topic, partition, ts, advance, committed_offset FROM offset_commits
        WHERE rewind ORDER BY advance, ts LIMIT 12
    """,
    "flapping": """
        SELECT group_id, window_start, rebalances, stalled_ms, top_reason, top_client, top_host,
               members_short_lived
        FROM flapping ORDER BY rebalances DESC, window_start LIMIT 12
    """,
}
POINTS: Final = 240
"""The largest number of points of a line."""


@dataclass(frozen=True)
class ReportData:
    """Rows by the name of their query; `step` is the seconds of a point of a line."""

    rows: dict[str, Rows]
    step: int
    source: str
    made: datetime

    @property
    def totals(self) -> dict[str, Any]:
        """The counts of the whole log."""
        return self.rows["totals"][0]


def collect(spark: SparkSession, run: dict[str, Any]) -> ReportData:
    """Run all queries; the tables are registered as views of the session."""
    rows = {"totals": _query(spark, "totals"), "busiest": _query(spark, "busiest")}
    total = rows["totals"][0]
    shown = [(row["group_id"],) for row in rows["busiest"]]
    spark.createDataFrame(shown, "group_id string").createOrReplaceTempView("shown_groups")
    seconds = (total["last"] - total["first"]).total_seconds() if total["first"] else 0
    step = max(60, -(-int(seconds) // POINTS // 60) * 60)
    for name in QUERIES:
        if name not in rows:
            rows[name] = _query(spark, name, step=step)
    source = run["source"].get("log") or run["source"].get("bootstrap", "")
    return ReportData(rows, step, source, datetime.now(UTC))


def _query(spark: SparkSession, name: str, **values: int) -> Rows:
    text = QUERIES[name]
    for key, value in values.items():
        text = text.replace("{" + key + "}", str(value))
    return [
        {key: _utc(value) for key, value in row.asDict().items()}
        for row in spark.sql(text).collect()
    ]


def _utc(value: Any) -> Any:
    """Convert a time: Spark returns it without a zone, in that of this process."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value
