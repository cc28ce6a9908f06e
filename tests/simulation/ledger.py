"""Reads a partition's log with an independent model, for the invariant checker."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coordinator_protocol.history import RebalanceHistoryKey
from coordinator_protocol.markers import decode_marker
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    decode_key,
    decode_value,
)
from coordinator_server.group.group import Group
from coordinator_server.storage.base import LogRecord
from tests.support.classic import classic_of
from tests.support.written_group import is_as_written, written_now


class Erasure(NamedTuple):
    """A committed offset that a tombstone has removed."""

    place: "Place"
    committed_at: int
    """Position in the log."""
    age_ms: int
    """Since the commit, or since the group became Empty: by Kafka's rule that counts, even for
    offsets that were committed later."""
    has_members: bool
    """Whether the group's last record had any when the tombstone was written."""
    is_pending: bool
    """Whether a transaction with an offset of this place was open."""


Place = tuple[str, str, int]
"""Group, topic and partition."""

NOTHING = -1
"""The offset of a place that has none."""


class Ledger:
    """The state according to the durable records; reads on from its last position."""

    def __init__(self, records: Sequence[LogRecord]) -> None:
        self.assignments: dict[tuple[str, int], dict[str, bytes]] = {}
        """Everything ever assigned, by group and generation."""
        self._records = records
        self._read = 0
        self._offsets: defaultdict[str, dict[tuple[str, int], OffsetCommitValue]]
        self._offsets = defaultdict(dict)
        self._metadata: dict[str, GroupMetadataValue] = {}
        self._history: defaultdict[Place, list[tuple[int, int]]] = defaultdict(list)
        """Every offset a place ever had, with its position in the log."""
        self._pending: defaultdict[str, dict[tuple[int, str, int], OffsetCommitValue]]
        self._pending = defaultdict(dict)
        """Offsets of open transactions, by group; then producer, topic and partition."""
        self.has_news = False
        """Whether something was deleted, or should not have been."""
        self._broken: list[str] = []
        self._past: defaultdict[str, dict[tuple[int, int], bytes]] = defaultdict(dict)
        """Finished rebalances by generation and sequence."""
        self._deleted: list[str] = []
        self._erased: list[Erasure] = []

    def read(self) -> "Ledger":
        while self._read < len(self._records):
            self._apply(self._read, self._records[self._read])
            self._read += 1
        return self

    def _apply(self, position: int, record: LogRecord) -> None:
        if record.control:
            self._end_transaction(position, record)
            return
        key = decode_key(record.key or b"")
        if isinstance(key, OffsetCommitKey):
            self._apply_offset(position, key, record)
        elif isinstance(key, GroupMetadataKey):
            self._apply_group(key, record.value)
        elif isinstance(key, RebalanceHistoryKey):
            past = self._past[key.group]
            past.pop((key.generation, key.sequence), None)
            if record.value is not None:
                past[key.generation, key.sequence] = record.value

    def _apply_offset(self, position: int, key: OffsetCommitKey, record: LogRecord) -> None:
        history = self._history[key.group, key.topic, key.partition]
        if record.value is None:
            self._erase(key, record.timestamp)
            history.append((position, NOTHING))
            return
        value = decode_value(key, record.value)
        assert isinstance(value, OffsetCommitValue)
        if record.transactional:
            self._pending[key.group][record.producer_id, key.topic, key.partition] = value
            return
        self._offsets[key.group][key.topic, key.partition] = value
        history.append((position, value.offset))

    def _end_transaction(self, position: int, marker: LogRecord) -> None:
        for group, pending in self._pending.items():
            for of in [of for of in pending if of[0] == marker.producer_id]:
                value, (_, topic, partition) = pending.pop(of), of
                if decode_marker(marker.key or b""):
                    self._offsets[group][topic, partition] = value
                    self._history[group, topic, partition].append((position, value.offset))

    def _erase(self, key: OffsetCommitKey, timestamp: int) -> None:
        pending = self._pending[key.group]
        still_open = [of for of in pending if of[1:] == (key.topic, key.partition)]
        for of in still_open:
            del pending[of]
        value = self._offsets[key.group].pop((key.topic, key.partition), None)
        if value is not None:
            place = (key.group, key.topic, key.partition)
            metadata = self._metadata.get(key.group)
            has_members = metadata is not None and bool(metadata.members)
            committed_at = self._history[place][-1][0]
            since = value.commit_timestamp
            if metadata is not None and metadata.protocol_type and not has_members:
                since = min(since, metadata.current_state_timestamp)
            age_ms = timestamp - since
            erasure = Erasure(place, committed_at, age_ms, has_members, bool(still_open))
            self._erased.append(erasure)
            self.has_news = True

    def _apply_group(self, key: GroupMetadataKey, raw: bytes | None) -> None:
        if raw is None:
            self._metadata.pop(key.group, None)
            self._deleted.append(key.group)
            self.has_news = True
            if self._pending[key.group]:
                self._broken.append(f"{key.group} was ended although a transaction is open")
            for of in [of for of in self.assignments if of[0] == key.group]:
                del self.assignments[of]
            return
        value = decode_value(key, raw)
        assert isinstance(value, GroupMetadataValue)
        self._metadata[key.group] = value
        assigned = self.assignments.setdefault((key.group, value.generation), {})
        assigned.update((member.member_id, member.assignment) for member in value.members)

    # --- questions ---

    @property
    def length(self) -> int:
        return len(self._records)

    def has(self, place: Place, offset: int) -> bool:
        """Whether an offset was ever committed there."""
        return any(committed == offset for _, committed in self._history[place])

    def has_record_of(self, group: str) -> bool:
        """Whether a load finds generations and members of a group."""
        return group in self._metadata

    def since(self, place: Place, mark: int) -> set[int]:
        """The offset that was valid at log length `mark`, and all later ones."""
        history = self._history[place]
        before = [offset for position, offset in history if position < mark]
        later = {offset for position, offset in history if position >= mark}
        return later | {before[-1] if before else NOTHING}

    def groups(self) -> set[str]:
        """Every group with records in the log."""
        return self._metadata.keys() | {
            group
            for of_groups in (self._offsets, self._pending)
            for group, offsets in of_groups.items()
            if offsets
        }

    def offset_count(self) -> int:
        return sum(map(len, self._offsets.values()))

    def older_than(self, topic: str, position: int) -> list[Place]:
        """The current offsets of a topic that were committed before this log length."""
        found = [(group, *place) for group, offsets in self._offsets.items() for place in offsets]
        return [p for p in found if p[1] == topic and self._history[p][-1][0] < position]

    def take_broken(self) -> list[str]:
        broken, self._broken = self._broken, []
        return broken

    def take_deleted(self) -> list[str]:
        deleted, self._deleted = self._deleted, []
        self.has_news = False
        return deleted

    def take_erased(self) -> list[Erasure]:
        erased, self._erased = self._erased, []
        return erased

    def differences(self, group_id: str, group: Group) -> Iterator[str]:
        """Differences between a group in memory and in the log."""
        written = self._metadata.get(group_id)
        if not is_as_written(group, written):
            now = None if group.kind is None else written_now(classic_of(group))
            yield f"{now} in memory, {written} in the log"
        past = tuple(self._past[group_id].values())
        if group.past != past:
            yield f"{len(group.past)} rebalances in memory, {len(past)} in the log"
        committed = {
            (topic, partition): value
            for topic, offsets in group.offsets.committed.items()
            for partition, value in offsets.items()
        }
        if committed != self._offsets[group_id]:
            yield f"{committed} in memory, {self._offsets[group_id]} in the log"
        pending = {
            (producer, *place)
            for producer, offsets in group.offsets.pending.items()
            for place in offsets
        }
        if pending != self._pending[group_id].keys():
            yield f"{pending} pending in memory, {self._pending[group_id]} in the log"
