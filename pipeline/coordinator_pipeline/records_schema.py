"""The bronze table `records`: one row per record of the coordinator's log.

(log_partition, log_offset, incarnation) identifies a row. All records of a group are in one log
partition, in the order of log_offset; timestamps give no order. This module does not import Spark.
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
"""A member of a classic group. `topics` and `assigned` are null if the client's bytes do not follow
the consumer protocol; rebalance_timeout_ms is null in values of version 0."""

_FIELDS: Final[tuple[tuple[str, pa.DataType, str], ...]] = (
    ("log_partition", pa.int32(), "Partition of the log, N of `__consumer_offsets-N`."),
    ("log_offset", pa.int64(), "Offset in that partition. Compaction leaves holes."),
    (
        "incarnation",
        pa.int32(),
        (
            "0 at first. A stream that finds its partition truncated and rewritten increments it "
            "and reads again from the newest common batch: rows with an older incarnation are void "
            "from the first offset of the newer one on."
        ),
    ),
    ("ts", _TIME, "Timestamp of the record; null outside the years 2 to 9998, as in all times."),
    (
        "kind",
        pa.int16(),
        (
            "Version of the key: 0 and 1 a committed offset, 2 a group, 32766 a rebalance "
            "history; others are raw bytes. Null for markers, records without a key, problems."
        ),
    ),
    ("tombstone", pa.bool_(), "Whether the value is null, which deletes the key."),
    ("bytes", pa.int32(), "Size of key and value in bytes."),
    ("group_id", _TEXT, "The group, of kinds 0, 1, 2 and 32766."),
    ("topic", _TEXT, "Topic of a committed offset."),
    ("partition", pa.int32(), "Partition of a committed offset."),
    ("value_version", pa.int16(), "Version of the value, of kinds 0, 1 and 2."),
    ("committed_offset", pa.int64(), "The committed offset."),
    (
        "leader_epoch",
        pa.int32(),
        "Leader epoch committed with it; null if it is -1 or the version has none.",
    ),
    ("metadata", _TEXT, "The client's metadata."),
    ("commit_ts", _TIME, "When it was committed."),
    ("expire_ts", _TIME, "When it expires, if the request had a retention time (version 1)."),
    ("topic_id", pa.binary(), "Topic id, 16 bytes, if the value has one (version 4)."),
    ("protocol_type", _TEXT, "Protocol type of a group, `consumer`."),
    ("generation", pa.int32(), "Generation of a group, or of a rebalance's history."),
    ("protocol", _TEXT, "The assignor of the group; null if there is none."),
    ("leader", _TEXT, "Member id of the leader."),
    ("state_ts", _TIME, "When the group entered its state; null before version 2."),
    ("members", pa.list_(MEMBER), "Members of a group."),
    ("history", _TEXT, "The value of kind 32766 as JSON text."),
    (
        "headers",
        pa.map_(_TEXT, _TEXT),
        "Headers of the record, including `rb.*`; the last of equal names. Null if none.",
    ),
    ("producer_id", pa.int64(), "Producer id; null if there is none."),
    ("producer_epoch", pa.int16(), "Producer epoch; null if there is none."),
    ("is_txn", pa.bool_(), "Whether the record belongs to a transaction."),
    ("is_control", pa.bool_(), "Whether the record is a transaction marker."),
    ("control_type", _TEXT, "Type of a marker: `commit` or `abort`."),
    ("raw_key", pa.binary(), "The key, if it or the value could not be decoded."),
    ("raw_value", pa.binary(), "The value, if it or the key could not be decoded."),
    (
        "problem",
        _TEXT,
        (
            "Why a record could not be decoded; or why a batch could not be read, with file and "
            "position: such a row has no other fields except log_offset, the first missing offset."
        ),
    ),
)

RECORDS: Final = pa.schema(
    [pa.field(name, kind, metadata={"doc": doc}) for name, kind, doc in _FIELDS]
)
"""The Arrow schema; the metadata `doc` of a field is its documentation."""

HISTORY_KIND: Final = 32766
KNOWN_KINDS: Final = (0, 1, 2, HISTORY_KIND)


def select(names: list[str] | None) -> pa.Schema:
    """Return the schema with the named columns, in their order; None selects all.

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
    """Return a schema in Spark's SQL."""
    return ", ".join(f"`{field.name}` {_spark_type(field.type)}" for field in schema)


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return f"map<{_spark_type(kind.key_type)},{_spark_type(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "struct<" + ",".join(f"{part.name}:{_spark_type(part.type)}" for part in kind) + ">"
    return _DDL[kind]
