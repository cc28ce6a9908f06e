"""A group's committed offsets, and those that wait for their transaction to end.

Follows Kafka's `OffsetMetadataManager`. Offsets of an open transaction are pending per producer
until its marker; a newer offset of the same partition, by position in the log, wins over them.

Offsets are kept as the bytes of their records and decoded when somebody looks: most are written
again, or fetched as they are, before anybody does.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator_protocol.commit_template import CommitTemplate
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.offset_value import OffsetCommitValue, decode_offset
from coordinator_protocol.records import encode_value
from coordinator_server.group.effects import FetchedTopic
from coordinator_server.group.empty_dict import NOTHING

TopicPartition = tuple[str, int]
Packed = bytes
"""The value of an offset as it is in the log, one that `is_plain_offset`."""


@dataclass(slots=True)
class PendingOffset:
    """An offset of an open transaction."""

    order: int
    """Its place in the log, to tell which of two offsets is newer."""
    value: OffsetCommitValue | None
    """None once a newer offset has been committed: the marker then changes nothing."""


class OffsetStore:
    """The offsets of one group; only `replay` changes them."""

    __slots__ = ("_laid_open", "_latest", "pending")

    def __init__(self) -> None:
        self._laid_open: dict[str, dict[int, Packed]] = NOTHING
        """See `_committed`; without what is in the latest commit."""
        self._latest: tuple[CommitTemplate, bytes] | None = None
        """A commit that has come again and again, as it was encoded: most are followed by the next
        one before anybody looks."""
        self.pending: dict[int, dict[TopicPartition, PendingOffset]] = NOTHING
        """Of open transactions, by producer id."""

    @property
    def _committed(self) -> dict[str, dict[int, Packed]]:
        """By topic and partition; read with `get` and `of_topic`, which unpack."""
        if self._latest is not None:
            self._lay_open(*self._latest)
        return self._laid_open

    def _lay_open(self, template: CommitTemplate, encoded: bytes) -> None:
        self._latest = None
        for topic, values in template.values(encoded):
            (self._laid_open.get(topic) or self._begin_topic(topic)).update(values)

    def __bool__(self) -> bool:
        """Whether there is any offset, pending ones included."""
        return bool(self._committed or self.pending)

    def __len__(self) -> int:
        """How many offsets are committed."""
        return sum(map(len, self._committed.values()))

    def get(self, topic: str, partition: int) -> OffsetCommitValue | None:
        """The committed offset of a partition."""
        value = self._committed.get(topic, _NO_OFFSETS).get(partition)
        return None if value is None else decode_offset(value)

    def has(self, topic: str, partition: int) -> bool:
        """Whether there is a committed offset of a partition."""
        return partition in self._committed.get(topic, _NO_OFFSETS)

    def topics(self) -> Collection[str]:
        """The topics with committed offsets."""
        return self._committed.keys()

    def of_topic(self, topic: str) -> Mapping[int, OffsetCommitValue]:
        """The committed offsets of a topic by partition."""
        packed = self._committed.get(topic, _NO_OFFSETS)
        return {partition: decode_offset(value) for partition, value in packed.items()}

    @property
    def committed(self) -> dict[str, Mapping[int, OffsetCommitValue]]:
        """All committed offsets by topic and partition."""
        return {topic: self.of_topic(topic) for topic in self._committed}

    def is_pending(self, topic: str, partition: int) -> bool:
        """Whether a transaction with an offset of this partition is open."""
        return bool(self.pending) and any(
            (topic, partition) in offsets for offsets in self.pending.values()
        )

    def has_any_of(self, topics: frozenset[str]) -> bool:
        """Whether there is an offset, be it pending, of one of these topics."""
        return not topics.isdisjoint(self._committed) or any(
            topic in topics for offsets in self.pending.values() for topic, _ in offsets
        )

    def partitions(self) -> Iterator[TopicPartition]:
        """Every partition with a committed or pending offset, once."""
        for topic, offsets in self._committed.items():
            for partition in offsets:
                yield topic, partition
        pending = {place for offsets in self.pending.values() for place in offsets}
        for topic, partition in pending:
            if partition not in self._committed.get(topic, ()):
                yield topic, partition

    # --- changes ---

    def put(self, topic: str, partition: int, value: OffsetCommitValue) -> None:
        """Commit an offset outside of transactions; it is newer than all pending ones."""
        self.put_packed(topic, ((partition, encode_value(value)),))

    def put_packed(self, topic: str, values: Collection[tuple[int, Packed]]) -> None:
        """`put` for several partitions of a topic, in order."""
        (self._committed.get(topic) or self._begin_topic(topic)).update(values)
        if self.pending:
            for partition, _ in values:
                self._supersede(topic, partition, None)

    def put_encoded(self, template: CommitTemplate, encoded: bytes) -> None:
        """`put` for a commit as its template has encoded it."""
        latest = self._latest
        if latest is not None and latest[0] is not template:
            self._lay_open(*latest)
        self._latest = template, encoded
        if self.pending:
            for topic, values in template.values(encoded):
                self.put_packed(topic, values)

    def put_pending(
        self, producer_id: int, order: int, topic: str, partition: int, value: OffsetCommitValue
    ) -> None:
        """Note an offset of an open transaction."""
        self.pending = self.pending or {}
        offsets = self.pending.setdefault(producer_id, {})
        offsets[topic, partition] = PendingOffset(order, value)

    def remove(self, topic: str, partition: int) -> None:
        """Forget a partition's offset, and what transactions would make of it."""
        of_topic = self._committed.get(topic)
        if of_topic is not None:
            of_topic.pop(partition, None)
            if not of_topic:
                del self._committed[topic]
        for producer_id in list(self.pending):
            self.pending[producer_id].pop((topic, partition), None)
            if not self.pending[producer_id]:
                del self.pending[producer_id]

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply or drop what a producer's transaction has left pending."""
        offsets = self.pending.pop(producer_id, None)
        if offsets is None or not commit:
            return
        for (topic, partition), pending in offsets.items():
            if pending.value is not None:
                of_topic = self._committed.get(topic) or self._begin_topic(topic)
                of_topic[partition] = encode_value(pending.value)
                self._supersede(topic, partition, pending.order)

    def _begin_topic(self, topic: str) -> dict[int, Packed]:
        self._laid_open = self._laid_open or {}
        of_topic = self._laid_open[topic] = {}
        return of_topic

    def _supersede(self, topic: str, partition: int, order: int | None) -> None:
        """Mark pending offsets of a partition that are older than `order` (None: all)."""
        for offsets in self.pending.values():
            pending = offsets.get((topic, partition))
            if pending is not None and (order is None or pending.order < order):
                pending.value = None

    # --- reading ---

    def fetch(
        self, topics: Sequence[tuple[str, Sequence[int]]] | None, *, require_stable: bool
    ) -> list[FetchedTopic]:
        """OffsetFetch's answer; `topics` of None asks for every committed offset."""
        found: list[FetchedTopic] = []
        if topics is None:
            found += [(topic, list(packed.items())) for topic, packed in self._committed.items()]
        for topic, partitions in topics or ():
            packed = self._committed.get(topic, _NO_OFFSETS)
            found.append((topic, [(partition, packed.get(partition)) for partition in partitions]))
        return self._stable(found) if require_stable and self.pending else found

    def _stable(self, found: Iterable[FetchedTopic]) -> list[FetchedTopic]:
        """The same, where no transaction is open."""
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
        return [
            (
                topic,
                [
                    (partition, unstable if self.is_pending(topic, partition) else value)
                    for partition, value in offsets
                ],
            )
            for topic, offsets in found
        ]


_NO_OFFSETS: Final[dict[int, Packed]] = {}
