"""Decodes one record at a time with `coordinator_protocol`.

The decoder uses it for records that the numpy code does not decode; tests compare both. A row is a
dict by column name; missing columns are null.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from coordinator_pipeline.records_schema import HISTORY_KIND
from coordinator_protocol.batch import LogRecord
from coordinator_protocol.errors import Malformed
from coordinator_protocol.history import decode_history, decode_history_key, is_known_history
from coordinator_protocol.history_form import history_form
from coordinator_protocol.markers import decode_marker
from coordinator_protocol.offset_value import NO_TOPIC_ID, OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    decode_key,
    decode_value,
)
from coordinator_protocol.subscription import decode_assignment, subscribed_topics

Row = dict[str, Any]
_as_json: Final = json.JSONEncoder(ensure_ascii=False).encode
_HISTORY: Final = HISTORY_KIND.to_bytes(2, "big")

EARLIEST_MS: Final = -62_104_060_800_000
"""Year 2: Python has no first days of year 1 in every time zone."""
LATEST_MS: Final = 253_370_764_799_999
"""The end of year 9998, for the same reason."""


def micros(millis: int) -> int | None:
    """Convert milliseconds for Arrow; None for -1 and outside EARLIEST_MS to LATEST_MS."""
    return None if millis == -1 or not EARLIEST_MS <= millis <= LATEST_MS else millis * 1000


def record_row(record: LogRecord) -> Row:
    """Decode a record into a row; the row has a `problem` if the key or value is malformed."""
    row: Row = {
        "log_offset": record.offset,
        "ts": micros(record.timestamp),
        "tombstone": record.value is None,
        "bytes": len(record.key or b"") + len(record.value or b""),
        "headers": {name: value.decode("utf-8", "replace") for name, value in record.headers}
        or None,
        "producer_id": None if record.producer_id == -1 else record.producer_id,
        "producer_epoch": None if record.producer_id == -1 else record.producer_epoch,
        "is_txn": record.transactional,
        "is_control": record.control,
    }
    try:
        row |= _marker(record) if record.control else _body(record.key, record.value)
    except Malformed as error:
        row |= {"raw_key": record.key, "raw_value": record.value, "problem": str(error)}
        if not record.control and len(record.key or b"") >= 2:
            row["kind"] = int.from_bytes((record.key or b"")[:2], "big", signed=True)
    return row


def _marker(record: LogRecord) -> Row:
    committed = decode_marker(record.key or b"")
    return {"control_type": "commit" if committed else "abort"}


def _body(raw_key: bytes | None, raw_value: bytes | None) -> Row:
    if raw_key is None:
        return {"raw_value": raw_value}
    if raw_key.startswith(_HISTORY):
        return _history(raw_key, raw_value)
    key = decode_key(raw_key)
    if not isinstance(key, OffsetCommitKey | GroupMetadataKey):
        kind = int.from_bytes(raw_key[:2], "big", signed=True)
        return {"kind": kind, "raw_key": raw_key, "raw_value": raw_value}
    row: Row = {"kind": int.from_bytes(raw_key[:2], "big"), "group_id": key.group}
    if isinstance(key, OffsetCommitKey):
        row |= {"topic": key.topic, "partition": key.partition}
    if raw_value is not None:
        value = decode_value(key, raw_value)
        row["value_version"] = int.from_bytes(raw_value[:2], "big")
        if isinstance(value, OffsetCommitValue):
            row |= _offset(value)
        elif isinstance(value, GroupMetadataValue):
            row |= _group(value)
    return row


def _history(raw_key: bytes, raw_value: bytes | None) -> Row:
    key = decode_history_key(raw_key)
    row: Row = {"kind": HISTORY_KIND, "group_id": key.group, "generation": key.generation}
    if raw_value is None:
        return row
    if not is_known_history(raw_value):
        return row | {"raw_key": raw_key, "raw_value": raw_value}
    return row | {"history": history_text(raw_value)}


def history_text(raw: bytes) -> str:
    """Convert a rebalance history value to JSON text. Raises Malformed."""
    return _as_json(history_form(decode_history(raw)))


def _offset(value: OffsetCommitValue) -> Row:
    return {
        "committed_offset": value.offset,
        "leader_epoch": None if value.leader_epoch == -1 else value.leader_epoch,
        "metadata": value.metadata,
        "commit_ts": micros(value.commit_timestamp),
        "expire_ts": micros(value.expire_timestamp),
        "topic_id": None if value.topic_id == NO_TOPIC_ID else value.topic_id,
    }


def _group(value: GroupMetadataValue) -> Row:
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "state_ts": micros(value.current_state_timestamp),
        "members": [_member(member) for member in value.members],
    }


def _member(member: MemberMetadata) -> Row:
    timeout = member.rebalance_timeout
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "rebalance_timeout_ms": None if timeout == -1 else timeout,
        "session_timeout_ms": member.session_timeout,
        "topics": topics_of(member.subscription),
        "assigned": assigned_of(member.assignment),
    }


def topics_of(subscription: bytes) -> list[str] | None:
    """Decode a member's topics; None if the bytes do not follow the consumer protocol."""
    try:
        return subscribed_topics(subscription)
    except Malformed:
        return None


def assigned_of(assignment: bytes) -> list[Row] | None:
    """Decode a member's assignment; None if the bytes do not follow the consumer protocol."""
    try:
        partitions: Mapping[str, Sequence[int]] = decode_assignment(assignment).partitions
    except Malformed:
        return None
    return [{"topic": topic, "partitions": numbers} for topic, numbers in partitions.items()]


def rows_to_arrow(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows to Arrow; columns that the schema does not have are dropped."""
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
