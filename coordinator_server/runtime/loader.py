"""Reads a partition's log and makes its groups."""

from collections.abc import Sequence
from typing import Final

from coordinator_server.group.machine import Group
from coordinator_server.group.replay import apply, apply_packed, end_transaction
from coordinator_server.storage.base import CorruptLog, LogRecord, PartitionLog
from protocol.errors import Malformed
from protocol.records import (
    GroupMetadataKey,
    OffsetCommitKey,
    decode_key,
    decode_marker,
    decode_value,
    is_plain_offset,
    plain_offset_place,
)

LONGEST_RUN: Final = 16_384
"""Commits that are applied together, which takes some ten milliseconds."""


class Loader:
    """Replays records; transactional commits stay pending per producer until their marker."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.records = 0
        self.unknown_records = 0
        """Of types this version does not know; skipped."""
        self._open_transactions: dict[int, set[str]] = {}
        """Ids of groups with pending offsets, by producer id."""
        self._run: dict[bytes, dict[int, bytes]] = {}
        """Plain commits that are not applied yet: by key up to its partition, and partition."""
        self._applied = 0
        """How many records there were when the run began."""
        self._places: dict[bytes, tuple[str, str]] = {}
        """Group and topic of such a key."""

    async def load(self, log: PartitionLog) -> None:
        """Replay the whole log. Raises CorruptLog, OSError."""
        async for records in log.load():
            self._replay_all(log.partition, records)
        self._apply_run()
        self._places.clear()
        self.groups = {name: group for name, group in self.groups.items() if not group.is_vacant}

    def _replay_all(self, partition: int, records: Sequence[LogRecord]) -> None:
        """Replay records in order; of plain commits in a row only the last per key counts."""
        run, partition_of = self._run, int.from_bytes
        for record in records:
            key, value = record.key, record.value
            if (
                key is None
                or value is None
                or record.transactional
                or record.control
                or not is_plain_offset(value)
            ):
                self._apply_run()
                self._replay(partition, record)
                continue
            of_topic = run.get(key[:-4])
            if of_topic is None:
                if not self._has_place(key):
                    self._apply_run()
                    self._replay(partition, record)
                    continue
                of_topic = run[key[:-4]] = {}
            of_topic[partition_of(key[-4:], "big", signed=True)] = value
            self.records += 1
        if self.records - self._applied >= LONGEST_RUN:
            self._apply_run()

    def _has_place(self, key: bytes) -> bool:
        """Whether this is the key of a plain commit, whose place is then known."""
        if key[:-4] in self._places:
            return True
        try:
            place = plain_offset_place(key)
        except Malformed:
            return False
        if place is not None:
            self._places[key[:-4]] = place
        return place is not None

    def _apply_run(self) -> None:
        for key, values in self._run.items():
            group_id, topic = self._places[key]
            apply_packed(self._group(group_id), topic, values.items())
        self._run.clear()
        self._applied = self.records

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    def _replay(self, partition: int, record: LogRecord) -> None:
        self.records += 1
        try:
            if record.control:
                self._replay_marker(record)
            else:
                self._replay_record(record)
        except Malformed as error:
            raise CorruptLog(
                f"partition {partition}: the record at offset {record.offset}: {error}"
            ) from error

    def _replay_record(self, record: LogRecord) -> None:
        if record.key is None:
            self.unknown_records += 1
            return
        key = decode_key(record.key)
        if not isinstance(key, OffsetCommitKey | GroupMetadataKey):
            self.unknown_records += 1
            return
        value = None if record.value is None else decode_value(key, record.value)
        group = self._group(key.group)
        producer_id = record.producer_id if record.transactional else -1
        apply(group, key, value, producer_id, record.offset)
        if producer_id >= 0:
            self._open_transactions.setdefault(producer_id, set()).add(key.group)

    def _replay_marker(self, record: LogRecord) -> None:
        commit = decode_marker(record.key or b"")
        for group_id in self._open_transactions.pop(record.producer_id, ()):
            end_transaction(self.groups[group_id], record.producer_id, commit=commit)
