"""The tables that a run makes from `records`: their columns, types and meaning.

`records_schema.py` describes `records`. Times are UTC. Every table has a column `date`, the day by
which its files are partitioned. This module does not import Spark.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `kind` is its type in Spark's SQL."""

    name: str
    kind: str
    doc: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `date` is the day of the column `day`."""

    name: str
    doc: str
    day: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns without `date`."""
        return [column.name for column in self.columns]

    @property
    def ddl(self) -> str:
        """The columns in Spark's SQL."""
        return ", ".join(f"`{column.name}` {column.kind}" for column in self.columns)


def _table(name: str, day: str, doc: str, *columns: tuple[str, str, str]) -> Table:
    return Table(name, doc, day, tuple(Column(*column) for column in columns))


_GROUP = ("group_id", "string", "The group.")
_LOG_PARTITION = ("log_partition", "int", "Log partition of the group.")
_LOG_OFFSET = ("log_offset", "bigint", "Offset in the log partition; the order within a group.")
_MEMBERS = "array<struct<member_id:string,instance_id:string,client_id:string,host:string>>"

OFFSET_COMMITS: Final = _table(
    "offset_commits",
    "ts",
    "Committed offsets, without those of open and aborted transactions.",
    _GROUP,
    ("topic", "string", "Topic."),
    ("partition", "int", "Partition of the topic."),
    ("committed_offset", "bigint", "The committed offset."),
    ("leader_epoch", "int", "Leader epoch committed with it; null if none."),
    ("metadata", "string", "The client's metadata."),
    ("commit_ts", "timestamp", "When it was committed."),
    ("ts", "timestamp", "Timestamp of the record."),
    (
        "advance",
        "bigint",
        "Offsets since the previous commit, negative for a rewind; null for the first known one.",
    ),
    ("rewind", "boolean", "Whether the offset went back: a reset, or records consumed twice."),
    (
        "history_gap",
        "boolean",
        "Whether records before this one are missing: compacted or damaged.",
    ),
    _LOG_PARTITION,
    _LOG_OFFSET,
)

GENERATIONS: Final = _table(
    "generations",
    "ts",
    "Records of groups: each generation, and the deletion of a group.",
    _GROUP,
    ("generation", "int", "The generation; null for a deletion."),
    ("ts", "timestamp", "When the record was written, after the leader had sent the assignment."),
    ("state_ts", "timestamp", "When the group entered its state, at the end of the join phase."),
    ("protocol", "string", "The assignor."),
    ("leader", "string", "Member id of the leader."),
    ("n_members", "int", "Number of members."),
    ("member_ids", "array<string>", "Member ids."),
    ("prev_generation", "int", "Generation of the previous record; null if there is none."),
    ("joined", "array<string>", "New member ids; null after a gap."),
    ("left", "array<string>", "Removed member ids; null after a gap."),
    (
        "moved_partitions",
        "int",
        "Partitions with a new owner (a static member keeps its own); null after a gap.",
    ),
    (
        "history_gap",
        "boolean",
        "Whether generations before this one are missing: compacted, or never written.",
    ),
    ("is_empty", "boolean", "Whether the group has no members."),
    ("tombstone", "boolean", "Whether the group was deleted."),
    _LOG_PARTITION,
    _LOG_OFFSET,
)

REBALANCES: Final = _table(
    "rebalances",
    "ended_at",
    "Rebalances with reason, culprit and duration.",
    _GROUP,
    ("generation", "int", "Generation after the rebalance."),
    ("prev_generation", "int", "Generation before it."),
    ("started_at", "timestamp", "When it started; null if the log does not record it."),
    ("ended_at", "timestamp", "When it ended."),
    ("duration_ms", "bigint", "Duration, by the coordinator's monotonic clock if it recorded one."),
    ("join_ms", "bigint", "Duration of the join phase; null if unknown."),
    ("sync_ms", "bigint", "Duration of the sync phase; null if unknown."),
    (
        "commit_gap_ms",
        "bigint",
        (
            "Time from the group's last commit before the end of the rebalance to its first after "
            "it. Null if one of the two is missing."
        ),
    ),
    (
        "reason",
        "string",
        (
            "The coordinator's reason; or, inferred from the members: `member_joined`, "
            "`member_gone`, `members_changed`, `static_replaced`; or `unknown`."
        ),
    ),
    (
        "reason_source",
        "string",
        (
            "`history`: a history record; `header`: headers of the group's record; `inferred`: "
            "the members before and after; `unknown`."
        ),
    ),
    ("client_reason", "string", "The client's reason (KIP-800)."),
    ("outcome", "string", "`completed`, `emptied`, `aborted`."),
    ("cause_member", "string", "Member id of the culprit; null if unknown or none."),
    ("cause_instance", "string", "Instance id of the culprit."),
    ("cause_client", "string", "Client id of the culprit."),
    ("cause_host", "string", "Host of the culprit."),
    ("members_before", "int", "Number of members before."),
    ("members_after", "int", "Number of members after."),
    ("joined", "int", "Number of new members."),
    ("left", "int", "Number of removed members."),
    ("evicted", "int", "Number of members that the coordinator removed; null if unknown."),
    ("joined_members", _MEMBERS, "New members, as far as the history lists them."),
    ("left_members", _MEMBERS, "Members that left."),
    ("evicted_members", _MEMBERS, "Members that the coordinator removed."),
    (
        "rounds",
        "array<struct<reason:string,member_id:string>>",
        "Reasons that started or restarted it, in order.",
    ),
    ("partitions", "int", "Partitions assigned in the new generation; null if unknown."),
    ("partitions_moved", "int", "Partitions with a new owner; null if unknown."),
    ("sequence", "bigint", "Number of the rebalance in its group; null if unknown."),
    _LOG_PARTITION,
    _LOG_OFFSET,
)

MEMBERS: Final = _table(
    "members",
    "first_seen",
    "Member ids and their time in their group.",
    _GROUP,
    ("member_id", "string", "Member id."),
    ("instance_id", "string", "Instance id of a static member."),
    ("client_id", "string", "Client id."),
    ("host", "string", "Host."),
    ("first_seen", "timestamp", "Time of its first generation."),
    (
        "first_is_exact",
        "boolean",
        "Whether it joined at `first_seen`; false after a gap in the history.",
    ),
    ("last_seen", "timestamp", "Time of its last generation."),
    ("gone_at", "timestamp", "Time of the first generation without it; null for an active member."),
    ("gen_in", "int", "First generation."),
    ("gen_out", "int", "Last generation."),
    ("generations", "bigint", "Number of its generations in the log."),
    (
        "end_reason",
        "string",
        (
            "`member_left`, `session_expired`, `sync_timeout`, ...; `unknown` if the log does not "
            "record it; null for an active member."
        ),
    ),
    ("lifetime_s", "double", "Seconds from `first_seen` to `gone_at`, or to `last_seen`."),
    _LOG_PARTITION,
)

COMMIT_RATE: Final = _table(
    "commit_rate",
    "minute",
    "Commits per minute, group and topic.",
    ("minute", "timestamp", "Beginning of the minute."),
    _GROUP,
    ("topic", "string", "Topic."),
    ("commits", "bigint", "Number of committed offsets."),
    ("records_advanced", "bigint", "Sum of the advances, without rewinds; null on overflow."),
    ("rewinds", "bigint", "Number of rewinds."),
    ("partitions", "bigint", "Number of partitions with a commit."),
    _LOG_PARTITION,
)

LAG: Final = _table(
    "lag",
    "minute",
    "Lag of groups in the minutes in which they commit.",
    (
        "minute",
        "timestamp",
        "Beginning of the minute; committed and end offsets are those at its end.",
    ),
    _GROUP,
    ("topic", "string", "Topic."),
    (
        "lag_sum",
        "bigint",
        "Lag in records, over partitions with a known end offset; null if there are none.",
    ),
    ("lag_max", "bigint", "Largest lag of a partition."),
    ("partitions_known", "bigint", "Partitions committed in this minute with a known end offset."),
    (
        "partitions_unknown",
        "bigint",
        "Other partitions: no end offset, or one older than five minutes.",
    ),
    (
        "end_offset_age_s",
        "double",
        "Age of the oldest end offset used, in seconds; 0 if read from the topic's log.",
    ),
    _LOG_PARTITION,
)

END_OFFSETS: Final = _table(
    "end_offsets",
    "ts",
    "End offsets of topic partitions.",
    ("ts", "timestamp", "Time of the end offset."),
    ("topic", "string", "Topic."),
    ("partition", "int", "Partition of the topic."),
    ("end_offset", "bigint", "The offset after its last record."),
    (
        "source",
        "string",
        "`log`: from the topic's log, valid until the next row; `list_offsets`: a sample.",
    ),
)

HOT_PARTITIONS: Final = _table(
    "hot_partitions",
    "window_start",
    "Load of log partitions per ten minutes.",
    ("window_start", "timestamp", "Beginning of the ten minutes."),
    ("log_partition", "int", "Log partition."),
    ("records", "bigint", "Number of records."),
    ("bytes", "bigint", "Size of their keys and values in bytes."),
    ("commits", "bigint", "Number of committed offsets."),
    ("rebalances", "bigint", "Number of records of groups."),
    ("groups", "bigint", "Number of groups."),
    ("share", "double", "Share of all records of those ten minutes, 0 to 1."),
    ("top_group", "string", "Group with most records."),
    ("top_group_share", "double", "Its share of the partition's records, 0 to 1."),
)

FLAPPING: Final = _table(
    "flapping",
    "window_start",
    "Groups with five rebalances or more in ten minutes.",
    _GROUP,
    ("window_start", "timestamp", "Beginning of the ten minutes."),
    ("rebalances", "bigint", "Number of rebalances."),
    ("stalled_ms", "bigint", "Sum of their known durations; null on overflow."),
    ("top_reason", "string", "The most frequent reason."),
    ("top_member", "string", "The most frequent culprit."),
    ("top_client", "string", "The most frequent client id of culprits."),
    ("top_host", "string", "The most frequent host of culprits."),
    ("members_short_lived", "bigint", "Members with a lifetime below a minute."),
    _LOG_PARTITION,
)

TABLES: Final[tuple[Table, ...]] = (
    OFFSET_COMMITS,
    GENERATIONS,
    REBALANCES,
    MEMBERS,
    COMMIT_RATE,
    END_OFFSETS,
    LAG,
    HOT_PARTITIONS,
    FLAPPING,
)
