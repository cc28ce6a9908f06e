"""Reads a partition's log and makes its groups."""

from coordinator_protocol.errors import Malformed
from coordinator_protocol.history import PackedHistory, is_known_history
from coordinator_protocol.markers import decode_marker
from coordinator_protocol.offset_commit_scanner import OffsetRun
from coordinator_protocol.records import (
    UnknownKey,
    decode_key,
    decode_value,
)
from coordinator_server.group.group import Group
from coordinator_server.group.replay import apply, apply_packed, end_transaction
from coordinator_server.storage.base import CorruptLog, LogRecord, PartitionLog


class Loader:
    """Replays records; transactional commits stay pending per producer until their marker."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.records = 0
        self.unknown_records = 0
        """Of types this version does not know; skipped."""
        self._open_transactions: dict[int, set[str]] = {}
        """Ids of groups with pending offsets, by producer id."""

    async def load(self, log: PartitionLog) -> None:
        """Replay the whole log. Raises CorruptLog, OSError."""
        async for loaded in log.load():
            if isinstance(loaded, OffsetRun):
                self._apply_run(loaded)
            else:
                for record in loaded:
                    self._replay(log.partition, record)
        self.groups = {name: group for name, group in self.groups.items() if not group.is_vacant}

    def _apply_run(self, run: OffsetRun) -> None:
        self.records += run.count
        for group_id, topic, values in run.offsets():
            apply_packed(self._group(group_id), topic, values.items())

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
        if isinstance(key, UnknownKey):
            self.unknown_records += 1
            return
        value = None if record.value is None else decode_value(key, record.value)
        if isinstance(value, PackedHistory) and not is_known_history(value):
            self.unknown_records += 1
            return
        group = self._group(key.group)
        producer_id = record.producer_id if record.transactional else -1
        apply(group, key, value, producer_id, record.offset)
        if producer_id >= 0:
            self._open_transactions.setdefault(producer_id, set()).add(key.group)

    def _replay_marker(self, record: LogRecord) -> None:
        commit = decode_marker(record.key or b"")
        for group_id in self._open_transactions.pop(record.producer_id, ()):
            end_transaction(self.groups[group_id], record.producer_id, commit=commit)
