"""Reads and checks the coordinator's log on disk.

Implements `coordinator-server log dump` and `log verify`, which only read, so a server may be
running. segment_repair.py removes damage and holds the lock of the data directory.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from coordinator_protocol.batch import HEADER_BYTES, BatchHeader, LogRecord, check_crc, read_header
from coordinator_protocol.batch_records import iter_records
from coordinator_protocol.errors import Malformed
from coordinator_protocol.history import RebalanceHistoryKey, decode_history
from coordinator_protocol.history_form import history_form
from coordinator_protocol.markers import decode_marker
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    RecordKey,
    RecordValue,
    UnknownKey,
    decode_key,
    decode_value,
)
from coordinator_protocol.subscription import decode_assignment, decode_subscription
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.directory import LOCK_FILE, DirectoryInUse
from coordinator_server.storage.segments.journal_names import FILE_PREFIX
from coordinator_server.storage.segments.segment import SUFFIX
from coordinator_server.storage.segments.shares import await_nobody

TOPIC: Final = "__consumer_offsets"

Progress = Callable[[int], None]
"""Called with the bytes done since the last call."""


@dataclass(slots=True)
class InspectedBatch:
    """A batch and where it lies in its segment."""

    path: Path
    position: int
    header: BatchHeader
    raw: bytes


# --- finding ---


def segments(path: Path) -> list[Path]:
    """The segments of a file or of a partition's directory. Raises FileNotFoundError."""
    if path.is_file():
        return [path]
    found = sorted(each for each in path.glob(f"*{SUFFIX}") if each.stem.isdecimal())
    if not found:
        raise FileNotFoundError(
            errno.ENOENT, f"no segments (*{SUFFIX}), expected a partition's directory", str(path)
        )
    return found


def partitions(data: Path, partition: int | None = None) -> list[Path]:
    """The coordinator's partitions in a data directory. Raises FileNotFoundError."""
    name = f"{TOPIC}-*" if partition is None else f"{TOPIC}-{partition}"
    found = [each for each in data.glob(name) if each.name[len(TOPIC) + 1 :].isdecimal()]
    if not found:
        raise FileNotFoundError(errno.ENOENT, f"no {name}, expected a data directory", str(data))
    return sorted(found, key=lambda each: int(each.name[len(TOPIC) + 1 :]))


def has_journal(data: Path) -> bool:
    """Whether a server runs on a data directory, or was not stopped in order."""
    return any(data.glob(f"{FILE_PREFIX}*"))


# --- reading ---


def batches(path: Path) -> Iterator[InspectedBatch]:
    """Every batch of a segment, checked. Raises CorruptLog at the first that is damaged."""
    size = path.stat().st_size
    expected = int(path.stem) if path.stem.isdecimal() else 0
    with path.open("rb") as file:
        at = 0
        while at < size:
            try:
                batch = _read_batch(path, at, file, size - at)
                check_offset(batch.header, expected)
            except Malformed as error:
                raise CorruptLog(f"{path}, position {at}: {error}") from error
            yield batch
            expected = batch.header.last_offset + 1
            at += batch.header.size


def _read_batch(path: Path, at: int, file: BinaryIO, left: int) -> InspectedBatch:
    head = file.read(HEADER_BYTES)
    header = read_header(head)
    if header.size > left:
        raise Malformed(f"a batch of {header.size} bytes, {left} are there")
    raw = head + file.read(header.size - HEADER_BYTES)
    check_crc(header, raw)
    return InspectedBatch(path, at, header, raw)


def check_offset(header: BatchHeader, expected: int) -> None:
    """Offsets may have gaps, but never go back. Raises Malformed."""
    if not 0 <= header.base_offset - expected < 1 << 31:
        raise Malformed(f"offset {header.base_offset}, expected {expected}")


def records(batch: InspectedBatch) -> Iterator[LogRecord]:
    """The records of a batch. Raises CorruptLog."""
    try:
        yield from iter_records(batch.header, batch.raw)
    except Malformed as error:
        raise CorruptLog(f"{batch.path}, position {batch.position}: {error}") from error


def verify(path: Path, progress: Progress = lambda _: None) -> int:
    """Read every record of a segment as a load would; returns how many there are.

    Raises CorruptLog, which names file and position.
    """
    count = 0
    for batch in batches(path):
        for record in records(batch):
            try:
                describe(record)
            except Malformed as error:
                where = f"{path}, position {batch.position}, offset {record.offset}"
                raise CorruptLog(f"{where}: {error}") from error
            count += 1
        progress(batch.header.size)
    return count


# --- showing ---


def describe(record: LogRecord) -> dict[str, Any]:
    """A record for people and for JSON. Raises Malformed."""
    out: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if record.producer_id >= 0:
        out |= {"producer_id": record.producer_id, "producer_epoch": record.producer_epoch}
        out |= {"transactional": record.transactional}
    if record.control:
        out["marker"] = "commit" if decode_marker(record.key or b"") else "abort"
        return out
    key = None if record.key is None else decode_key(record.key)
    out["key"] = _key(key, record.key)
    if record.value is None:
        out["value"] = None
    elif key is not None and not isinstance(key, UnknownKey):
        value = decode_value(key, record.value)
        out["value"] = _value(value)
    else:
        out["value"] = {"bytes": record.value.hex()}
    out["headers"] = {name: value.decode("utf-8", "replace") for name, value in record.headers}
    return out


def _key(key: RecordKey | UnknownKey | None, raw: bytes | None) -> Any:
    if key is None or raw is None:
        return None
    if isinstance(key, OffsetCommitKey):
        place = {"group": key.group, "topic": key.topic, "partition": key.partition}
        return {"type": "offset_commit", **place}
    if isinstance(key, GroupMetadataKey):
        return {"type": "group_metadata", "group": key.group}
    if isinstance(key, RebalanceHistoryKey):
        return {"type": "rebalance_history", **asdict(key)}
    return {"type": key.type, "bytes": raw.hex()}


def _value(value: RecordValue) -> dict[str, Any]:
    if isinstance(value, GroupMetadataValue):
        return _group(value)
    return (
        _offset(value)
        if isinstance(value, OffsetCommitValue)
        else history_form(decode_history(value))
    )


def _offset(value: OffsetCommitValue) -> dict[str, Any]:
    out: dict[str, Any] = {
        "offset": value.offset,
        "leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "commit_timestamp": value.commit_timestamp,
    }
    if value.expire_timestamp != -1:
        out["expire_timestamp"] = value.expire_timestamp
    if any(value.topic_id):
        out["topic_id"] = value.topic_id.hex()
    return out


def _group(value: GroupMetadataValue) -> dict[str, Any]:
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "current_state_timestamp": value.current_state_timestamp,
        "members": [_member(member, value.protocol_type) for member in value.members],
    }


def _member(member: MemberMetadata, protocol_type: str) -> dict[str, Any]:
    consumer = protocol_type == "consumer"
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "session_timeout_ms": member.session_timeout,
        "subscription": _subscription(member.subscription) if consumer else None,
        "subscription_bytes": member.subscription.hex(),
        "assignment": _assignment(member.assignment) if consumer else None,
        "assignment_bytes": member.assignment.hex(),
    }


def _subscription(raw: bytes) -> dict[str, Any] | None:
    """Show unreadable metadata as bytes: members may send anything, so it is no damage."""
    try:
        found = decode_subscription(raw)
    except Malformed:
        return None
    owned = {topic: list(numbers) for topic, numbers in found.owned_partitions.items()}
    return {"topics": list(found.topics), "owned_partitions": owned}


def _assignment(raw: bytes) -> dict[str, list[int]] | None:
    try:
        found = decode_assignment(raw)
    except Malformed:
        return None
    return {topic: list(numbers) for topic, numbers in found.partitions.items()}


@contextmanager
def held(data: Path) -> Iterator[None]:
    """Hold a data directory as a server does, for as long as it lasts. Raises DirectoryInUse."""
    descriptor = os.open(data / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            await_nobody(data, patience=0)
        except OSError as error:
            raise DirectoryInUse(
                error.errno, f"{data} is in use by a server; stop it first"
            ) from error
        yield
    finally:
        os.close(descriptor)


def total_size(paths: Iterable[Path]) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in paths)
