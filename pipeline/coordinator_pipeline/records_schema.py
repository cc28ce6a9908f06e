"""The bronze table `records`: one row per record of the coordinator's log, as it is stored.

Rows are identified by (log_partition, log_offset, incarnation); within a group, which lives in one
log partition, their order is log_offset, never a timestamp. Needs pyarrow, but not Spark.
"""

from typing import Final

import pyarrow as pa

_TEXT = pa.string()
_TIME = pa.timestamp("us", tz="UTC")
_ASSIGNED = pa.struct([("topic", _TEXT), ("partitions", pa.list_(pa.int32()))])

MEMBER: Final = pa.struct(
    [
        ("member_id", _TEXT),
        ("instance_id", _TEXT),
        ("client_id", _TEXT),
        ("host", _TEXT),
        ("rebalance_timeout_ms", pa.int32()),
        ("session_timeout_ms", pa.int32()),
        ("topics", pa.list_(_TEXT)),
        ("assigned", pa.list_(_ASSIGNED)),
    ]
)
"""A member of a classic group. `topics` and `assigned` are null where the client's own bytes are
not those of the consumer protocol; rebalance_timeout_ms is null in values of version 0."""

_FIELDS: Final[tuple[tuple[str, pa.DataType, str], ...]] = (
    ("log_partition", pa.int32(), "Partition of the log, N of `__consumer_offsets-N`."),
    ("log_offset", pa.int64(), "Offset in that partition. Compaction leaves holes."),
    (
        "incarnation",
        pa.int32(),
        (
            "0; one more each time a stream finds its partition cut and written anew. It is read "
            "again from a batch it has in common: rows of the partition with an older "
            "incarnation, from the first offset of the newer one on, are void."
        ),
    ),
    ("ts", _TIME, "The record's timestamp; null outside of the years 2 to 9998, as all times."),
    (
        "kind",
        pa.int16(),
        (
            "Version of the key: 0 and 1 a committed offset, 2 a group, 32766 a rebalance's "
            "history; others are kept as bytes. Null for markers, records without a key, problems."
        ),
    ),
    ("tombstone", pa.bool_(), "Whether the value is null: the key is removed."),
    ("bytes", pa.int32(), "Size of key and value."),
    ("group_id", _TEXT, "The group, of kinds 0, 1, 2 and 32766."),
    ("topic", _TEXT, "Topic of a committed offset."),
    ("partition", pa.int32(), "Partition of a committed offset."),
    ("value_version", pa.int16(), "Version of the value, of kinds 0, 1 and 2."),
    ("committed_offset", pa.int64(), "The committed offset."),
    ("leader_epoch", pa.int32(), "Leader epoch committed with it; null where it is -1 or older."),
    ("metadata", _TEXT, "The client's text beside it."),
    ("commit_ts", _TIME, "When it was committed."),
    ("expire_ts", _TIME, "When it expires, where the request gave a retention (version 1)."),
    ("topic_id", pa.binary(), "Id of the topic, 16 bytes, where one was written (version 4)."),
    ("protocol_type", _TEXT, "Protocol type of a group, `consumer`."),
    ("generation", pa.int32(), "Generation of a group, or of a rebalance's history."),
    ("protocol", _TEXT, "The assignor the members agreed on; null while there is none."),
    ("leader", _TEXT, "Member id of the leader."),
    ("state_ts", _TIME, "When the group came into its state; null before version 2."),
    ("members", pa.list_(MEMBER), "Members of a group."),
    ("history", _TEXT, "The value of kind 32766 as JSON text."),
    (
        "headers",
        pa.map_(_TEXT, _TEXT),
        "Headers of the record, `rb.*` among them; of equal names the last. Null if none.",
    ),
    ("producer_id", pa.int64(), "The producer; null where there is none."),
    ("producer_epoch", pa.int16(), "Its epoch; null where there is none."),
    ("is_txn", pa.bool_(), "Whether it belongs to a transaction: it counts once that commits."),
    ("is_control", pa.bool_(), "Whether it is a transaction's marker."),
    ("control_type", _TEXT, "Of a marker: `commit` or `abort`."),
    ("raw_key", pa.binary(), "The key, where it or the value could not be decoded."),
    ("raw_value", pa.binary(), "The value, likewise."),
    (
        "problem",
        _TEXT,
        (
            "What is wrong with a record that could not be decoded; or with a batch that could "
            "not be read, with file and position: such a row has no other fields than this and "
            "its offset, the first one that is missing."
        ),
    ),
)

RECORDS: Final = pa.schema(
    [pa.field(name, kind, metadata={"doc": doc}) for name, kind, doc in _FIELDS]
)
"""The Arrow schema, each field with its documentation as metadata `doc`."""

HISTORY_KIND: Final = 32766
KNOWN_KINDS: Final = (0, 1, 2, HISTORY_KIND)


def select(names: list[str] | None) -> pa.Schema:
    """The schema with only some columns, in the order asked for; None is all.

    Raises:
        ValueError: there is no such column.
    """
    if names is None:
        return RECORDS
    for name in names:
        if RECORDS.get_field_index(name) < 0:
            raise ValueError(f"column {name!r}: expected some of {', '.join(RECORDS.names)}")
    return pa.schema([RECORDS.field(name) for name in names])


_DDL: Final = {
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    _TEXT: "string",
    _TIME: "timestamp",
}


def spark_ddl(schema: pa.Schema = RECORDS) -> str:
    """The same schema for Spark."""
    return ", ".join(f"`{field.name}` {_spark_type(field.type)}" for field in schema)


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return f"map<{_spark_type(kind.key_type)},{_spark_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{part.name}:{_spark_type(part.type)}" for part in kind) + ">"
    return _DDL[kind]
