"""The tables a run makes of the log: columns, types and what they mean. Needs no Spark.

`records`, the first of them, is in `records_schema.py` beside this. Times are UTC. In every table
`date` is the day by which the files are partitioned.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, with its type in Spark's SQL."""

    name: str
    kind: str
    doc: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `day` is the column of which `date` is the day."""

    name: str
    doc: str
    day: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns, `date` not among them."""
        return [column.name for column in self.columns]

    @property
    def ddl(self) -> str:
        """The columns as Spark's SQL has them."""
        return ", ".join(f"`{column.name}` {column.kind}" for column in self.columns)


def _table(name: str, day: str, doc: str, *columns: tuple[str, str, str]) -> Table:
    return Table(name, doc, day, tuple(Column(*column) for column in columns))


_GROUP = ("group_id", "string", "The group.")
_LOG_PARTITION = ("log_partition", "int", "Where it is in the log.")
_LOG_OFFSET = ("log_offset", "bigint", "Likewise; the order within a group.")
_MEMBERS = "array<struct<member_id:string,instance_id:string,client_id:string,host:string>>"

OFFSET_COMMITS: Final = _table(
    "offset_commits",
    "ts",
    "Committed offsets that count: plain ones, and those of transactions that were committed.",
    _GROUP,
    ("topic", "string", "Topic."),
    ("partition", "int", "Its partition."),
    ("committed_offset", "bigint", "The committed offset."),
    ("leader_epoch", "int", "Leader epoch committed with it; null if none."),
    ("metadata", "string", "The client's text beside it."),
    ("commit_ts", "timestamp", "When it was committed."),
    ("ts", "timestamp", "The record's time."),
    (
        "advance",
        "bigint",
        "Offsets since the commit before, negative if back; null for the first one that is known.",
    ),
    ("rewind", "boolean", "Whether the offset went back: a reset, or work done twice."),
    (
        "history_gap",
        "boolean",
        "Whether records are missing before this one, compacted or damaged.",
    ),
    _LOG_PARTITION,
    _LOG_OFFSET,
)

GENERATIONS: Final = _table(
    "generations",
    "ts",
    "Each record of a group: its generations, and its deletion.",
    _GROUP,
    ("generation", "int", "The generation; null for a deletion."),
    ("ts", "timestamp", "When it was written: the leader had sent the assignment."),
    ("state_ts", "timestamp", "When the group came into its state: the end of the join phase."),
    ("protocol", "string", "The assignor."),
    ("leader", "string", "Member id of the leader."),
    ("n_members", "int", "How many members."),
    ("member_ids", "array<string>", "Their ids."),
    ("prev_generation", "int", "The generation of the record before; null if there is none."),
    ("joined", "array<string>", "Member ids that are new; null after a gap."),
    ("left", "array<string>", "Member ids that are gone; null after a gap."),
    (
        "moved_partitions",
        "int",
        "Partitions that have another owner (a static member keeps its own); null after a gap.",
    ),
    (
        "history_gap",
        "boolean",
        "Whether generations are missing before this one: compacted, or never written.",
    ),
    ("is_empty", "boolean", "Whether the group has no members."),
    ("tombstone", "boolean", "Whether the group was deleted."),
    _LOG_PARTITION,
    _LOG_OFFSET,
)

REBALANCES: Final = _table(
    "rebalances",
    "ended_at",
    "Each rebalance: why, by whom, how long.",
    _GROUP,
    ("generation", "int", "The generation after it."),
    ("prev_generation", "int", "The one before."),
    ("started_at", "timestamp", "When it began; null if the log does not tell."),
    ("ended_at", "timestamp", "When it was over."),
    ("duration_ms", "bigint", "Between the two, by the coordinator's monotonic clock if it told."),
    ("join_ms", "bigint", "The join phase; null if unknown."),
    ("sync_ms", "bigint", "The sync phase; null if unknown."),
    (
        "commit_gap_ms",
        "bigint",
        (
            "From the group's last commit before the end to its first after: how long nothing was "
            "reported as consumed. Null while one of the two is missing."
        ),
    ),
    (
        "reason",
        "string",
        (
            "As the coordinator told it; or, inferred from the members: `member_joined`, "
            "`member_gone`, `members_changed`, `static_replaced`; or `unknown`."
        ),
    ),
    (
        "reason_source",
        "string",
        (
            "`history`: a record of its own; `header`: headers of the group's record; `inferred` "
            "from who was there before and after; `unknown`."
        ),
    ),
    ("client_reason", "string", "The client's own words (KIP-800)."),
    ("outcome", "string", "`completed`, `emptied`, `aborted`."),
    ("cause_member", "string", "Member id of the culprit; null if unknown or nobody."),
    ("cause_instance", "string", "Its instance id."),
    ("cause_client", "string", "Its client id."),
    ("cause_host", "string", "Its host."),
    ("members_before", "int", "Members before."),
    ("members_after", "int", "Members after."),
    ("joined", "int", "How many are new."),
    ("left", "int", "How many are gone."),
    ("evicted", "int", "How many of them did not go by themselves; null if unknown."),
    ("joined_members", _MEMBERS, "Who is new, as far as it is listed."),
    ("left_members", _MEMBERS, "Who left."),
    ("evicted_members", _MEMBERS, "Who was removed."),
    (
        "rounds",
        "array<struct<reason:string,member_id:string>>",
        "What set it back while it was under way, the beginning first.",
    ),
    ("partitions", "int", "Partitions assigned in the new generation; null if unknown."),
    ("partitions_moved", "int", "Those with another owner; null if unknown."),
    ("sequence", "bigint", "The number of the rebalance in its group; null if not told."),
    _LOG_PARTITION,
    _LOG_OFFSET,
)

MEMBERS: Final = _table(
    "members",
    "first_seen",
    "Each member id's time in its group.",
    _GROUP,
    ("member_id", "string", "Member id."),
    ("instance_id", "string", "Its instance id, if static."),
    ("client_id", "string", "Its client id."),
    ("host", "string", "Its host."),
    ("first_seen", "timestamp", "Its first generation."),
    ("first_is_exact", "boolean", "Whether it joined then; false after a gap in the history."),
    ("last_seen", "timestamp", "Its last generation."),
    ("gone_at", "timestamp", "The first generation without it; null while it is there."),
    ("gen_in", "int", "Its first generation."),
    ("gen_out", "int", "Its last generation."),
    ("generations", "bigint", "How many the log has of them."),
    (
        "end_reason",
        "string",
        (
            "`member_left`, `session_expired`, `sync_timeout`, ...; `unknown` where the log "
            "does not tell; null while it is there."
        ),
    ),
    ("lifetime_s", "double", "From the first generation to the first without it, or the last."),
    _LOG_PARTITION,
)

COMMIT_RATE: Final = _table(
    "commit_rate",
    "minute",
    "Commits of each minute.",
    ("minute", "timestamp", "Beginning of the minute."),
    _GROUP,
    ("topic", "string", "Topic."),
    ("commits", "bigint", "Offsets committed."),
    ("records_advanced", "bigint", "Sum of the advances, those back not counted."),
    ("rewinds", "bigint", "How often the offset went back."),
    ("partitions", "bigint", "Partitions with a commit."),
    _LOG_PARTITION,
)

LAG: Final = _table(
    "lag",
    "minute",
    "How far groups are behind, in minutes in which they commit.",
    ("minute", "timestamp", "Beginning of the minute; both sides as they are at its end."),
    _GROUP,
    ("topic", "string", "Topic."),
    ("lag_sum", "bigint", "Records, over the partitions whose end is known; null if none is."),
    ("lag_max", "bigint", "The largest of a partition."),
    ("partitions_known", "bigint", "Partitions committed in this minute whose end is known."),
    ("partitions_unknown", "bigint", "Others: no end offset, or one older than five minutes."),
    ("end_offset_age_s", "double", "Age of the oldest sample used; 0 where the log itself tells."),
    _LOG_PARTITION,
)

END_OFFSETS: Final = _table(
    "end_offsets",
    "ts",
    "Ends of topic partitions.",
    ("ts", "timestamp", "When."),
    ("topic", "string", "Topic."),
    ("partition", "int", "Its partition."),
    ("end_offset", "bigint", "The offset behind its last record."),
    (
        "source",
        "string",
        "`log`: from the topic's own log, good until the next row; `list_offsets`: a sample.",
    ),
)

HOT_PARTITIONS: Final = _table(
    "hot_partitions",
    "window_start",
    "Load of the log's partitions in each ten minutes.",
    ("window_start", "timestamp", "Beginning of the ten minutes."),
    ("log_partition", "int", "Partition of the log."),
    ("records", "bigint", "Records."),
    ("bytes", "bigint", "Bytes of their keys and values."),
    ("commits", "bigint", "Committed offsets among them."),
    ("rebalances", "bigint", "Records of groups among them."),
    ("groups", "bigint", "Groups."),
    ("share", "double", "Part of all records of those ten minutes, 0 to 1."),
    ("top_group", "string", "The group with most records."),
    ("top_group_share", "double", "Its part of the partition's records, 0 to 1."),
)

FLAPPING: Final = _table(
    "flapping",
    "window_start",
    "Groups with five rebalances or more in ten minutes.",
    _GROUP,
    ("window_start", "timestamp", "Beginning of the ten minutes."),
    ("rebalances", "bigint", "How many."),
    ("stalled_ms", "bigint", "Sum of their durations, as far as known."),
    ("top_reason", "string", "The most frequent reason."),
    ("top_member", "string", "The most frequent culprit."),
    ("top_client", "string", "The most frequent client id of culprits."),
    ("top_host", "string", "The most frequent host of culprits."),
    ("members_short_lived", "bigint", "Members that came and were gone within a minute."),
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
