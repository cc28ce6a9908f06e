"""The data plane behind Produce, Fetch, ListOffsets and the topic APIs.

Partitions are opened on first use and stored in Kafka's segment format. A parked Fetch is a waiter
of its partitions; the append that makes enough bytes readable completes it.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import structlog

from coordinator_protocol.errors import ErrorCode
from coordinator_server.clock import Clock
from coordinator_server.loop.time_slice import TimeSlice
from coordinator_server.ports import TopicInfo
from coordinator_server.storage.segments.flusher import Flusher
from coordinator_server.storage.segments.threads import TOPIC_THREADS
from coordinator_server.topics.auto_creation import AutoCreation
from coordinator_server.topics.catalog_interface import Catalog
from coordinator_server.topics.coordinator_log import CoordinatorLogs, CoordinatorPartition
from coordinator_server.topics.directories import PartitionDirectories
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.names import GROUP_METADATA_TOPIC
from coordinator_server.topics.partition import Appended, FetchWaiter, TopicPartitionLog
from coordinator_server.topics.searches import Searches
from coordinator_server.topics.timestamps import TimestampAndOffset, first_from, latest
from coordinator_server.topics.transactions import Aborted
from coordinator_server.topics.validation import BatchRules, validated

if TYPE_CHECKING:
    from uuid import UUID

LEADER_EPOCH = 0
"""This node leads every partition, so the leader epoch never changes."""

FETCH_MAX_BYTES = 57_671_680
"""The default of Kafka's `fetch.max.bytes`."""
FEW_WANTS = 50
"""Reading up to this many partitions takes a small part of a millisecond."""

INLINE_CHECK_BYTES = 16 * 1024
"""Larger batches are validated in a thread: 16 KiB of small records take about a millisecond."""

log = structlog.get_logger(__name__)


class FetchWant(NamedTuple):
    """One partition of a Fetch request; the partition exists."""

    topic: TopicInfo
    partition: int
    offset: int
    max_bytes: int


@dataclass(slots=True)
class FetchPart:
    """The result of a Fetch for one partition; offsets are -1 if there is an error."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    last_stable_offset: int = -1
    aborted: Sequence[Aborted] = ()
    """Aborted transactions in the range, whose records a read_committed client skips."""


class ResponseMemory(Protocol):
    """Accounts for the memory of a response."""

    async def grown(self, size: int) -> None:
        """Wait until a response of `size` bytes fits into memory."""
        ...

    def dropped(self) -> None:
        """Release the memory of the response, which was dropped."""
        ...


ReadablePartition = TopicPartitionLog | CoordinatorPartition


class Topics:
    """The catalog of topics and their records, in standalone mode."""

    def __init__(
        self,
        catalog: Catalog,
        directories: PartitionDirectories,
        flusher: Flusher,
        clock: Clock,
        rules: BatchRules,
        *,
        auto_create_max: int,
        fetch_max_bytes: int = FETCH_MAX_BYTES,
    ) -> None:
        self.catalog = catalog
        self._directories = directories
        self._flusher = flusher
        self._searches = Searches()
        self._clock = clock
        self._rules = rules
        self._fetch_max_bytes = fetch_max_bytes
        self.auto_creation = AutoCreation(catalog, clock, auto_create_max)
        self._partitions: dict[tuple[UUID, int], ReadablePartition] = {}
        self._coordinator_logs: CoordinatorLogs | None = None
        self._removals: set[asyncio.Task[None]] = set()
        self._parked: set[FetchWaiter] = set()
        self._draining = False

    @property
    def parked(self) -> int:
        """The number of parked Fetches."""
        return len(self._parked)

    def serve_coordinator_logs(self, logs: CoordinatorLogs) -> None:
        """Allow clients to read `__consumer_offsets` from now on."""
        self._coordinator_logs = logs

    def is_readable(self, topic: TopicInfo) -> bool:
        """Whether clients may read a topic; the only internal one is `__consumer_offsets`."""
        served = self._coordinator_logs is not None
        return not topic.internal or (served and topic.name == GROUP_METADATA_TOPIC)

    async def delete(self, names: Sequence[str]) -> None:
        """Delete topics and their records; cancelling the caller does not stop it.

        Raises TopicError or OSError before anything is deleted.
        """
        await self._run_uncancelled(self._delete(names))

    async def _delete(self, names: Sequence[str]) -> None:
        # The catalog replaces its mapping on changes: this one keeps the deleted topics.
        before = self.catalog.topics()
        await self.catalog.delete_durably(names)
        pace = TimeSlice(self._clock)
        to_delete: list[tuple[TopicInfo, list[TopicPartitionLog]]] = []
        for name in names:
            if pace.is_over():
                await pace.rest()
            to_delete.append((before[name], self._discard_partitions(before[name])))
        await self._remove(to_delete)

    async def _run_uncancelled(self, work: Coroutine[Any, Any, None]) -> None:
        removal = asyncio.create_task(work)
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)
        await asyncio.shield(removal)

    async def drop(self, topics: Iterable[TopicInfo]) -> None:
        """Remove the records of topics that are no longer in the catalog.

        Cancelling the caller does not stop it.
        """
        to_delete = [(topic, self._discard_partitions(topic)) for topic in topics]
        await self._run_uncancelled(self._remove(to_delete))

    async def removals(self) -> None:
        """Wait until all running removals have ended."""
        while self._removals:
            await asyncio.wait(self._removals)

    def _discard_partitions(self, topic: TopicInfo) -> list[TopicPartitionLog]:
        """Refuse requests for a topic's partitions; returns those that may have open files."""
        keys = [(topic.topic_id, index) for index in range(topic.partitions)]
        given_up = [self._partitions.pop(key) for key in keys if key in self._partitions]
        partitions = [each for each in given_up if isinstance(each, TopicPartitionLog)]
        for partition in partitions:
            partition.discard()
        return partitions

    async def _remove(
        self, to_delete: Sequence[tuple[TopicInfo, Sequence[TopicPartitionLog]]]
    ) -> None:
        for topic, partitions in to_delete:
            for partition in partitions:
                await partition.wait_closed()
            try:
                await TOPIC_THREADS.run(partial(self._remove_files, topic, partitions))
            except OSError as failure:
                log.error("topic_files_not_removed", topic=topic.name, why=str(failure))
            else:
                if self._directories.is_whole:
                    self.catalog.removed(topic)

    def _remove_files(self, topic: TopicInfo, partitions: Iterable[TopicPartitionLog]) -> None:
        for partition in partitions:
            partition.close_files()
        self._directories.remove(topic)

    async def produce(
        self, topic: TopicInfo, index: int, records: bytes | None, *, zstd_allowed: bool = True
    ) -> Appended:
        """Validate and append one batch of a client. Raises TopicError."""
        check = partial(
            validated, records, self._rules, self._clock.wall_ms(), zstd_allowed=zstd_allowed
        )
        large = len(records or b"") > INLINE_CHECK_BYTES
        batch = await asyncio.to_thread(check) if large else check()
        partition = self._partition(topic, index)
        assert isinstance(partition, TopicPartitionLog)
        await partition.open(create=True)
        return await partition.append(batch)

    async def fetch(
        self,
        wants: Sequence[FetchWant],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        committed: bool = False,
        memory: ResponseMemory | None = None,
    ) -> list[FetchPart]:
        """Read records for every want, in order; waits up to `max_wait_ms` for `min_bytes`.

        The result has at most `max_bytes` and at most the server's limit, except that the first
        batch may be larger, so that a client can read past it (KIP-74). An error in any partition
        ends the wait, as in Kafka. `committed` reads up to the first open transaction. `memory`
        accounts for the records while they are read.
        """
        partitions = [self._partition(want.topic, want.partition) for want in wants]
        refused = await self._open(partitions)
        max_bytes = min(max_bytes, self._fetch_max_bytes)
        read = partial(
            self._read, wants, partitions, refused, max_bytes, committed=committed, memory=memory
        )
        parts = await read()
        missing = min(min_bytes, max_bytes) - sum(len(part.records) for part in parts)
        failed = any(part.error != ErrorCode.NONE for part in parts)
        if not wants or missing <= 0 or max_wait_ms <= 0 or failed or self._draining:
            return parts
        seen = [part.high_watermark for part in parts]
        del parts
        if memory is not None:
            memory.dropped()
        await self._park(partitions, seen, missing, max_wait_ms)
        if len(wants) > FEW_WANTS:
            # One append may release hundreds of such Fetches in one turn of the event loop.
            await TimeSlice(self._clock).rest()
        return await read()

    def known_end(self, name: str, index: int) -> int | None:
        """The high watermark of a partition; None if its log is not open."""
        topic = self.catalog.get(name)
        partition = None if topic is None else self._partitions.get((topic.topic_id, index))
        return None if partition is None or not partition.is_open else partition.high_watermark

    async def offsets(
        self, topic: TopicInfo, index: int, *, committed: bool = False
    ) -> tuple[int, int]:
        """The first offset, and the high watermark or last stable offset. Raises TopicError."""
        partition = self._partition(topic, index)
        end = await partition.latest(committed=committed)
        return partition.start_offset, end

    async def offset_for_timestamp(
        self, topic: TopicInfo, index: int, timestamp: int, *, committed: bool = False
    ) -> TimestampAndOffset | None:
        """The first record not older than `timestamp` (ms), if there is one. Raises TopicError."""
        search = partial(first_from, timestamp)
        return await self._partition(topic, index).search(search, committed=committed)

    async def offset_of_max_timestamp(
        self, topic: TopicInfo, index: int, *, committed: bool = False
    ) -> TimestampAndOffset | None:
        """The first record with the largest timestamp, if there are any. Raises TopicError."""
        return await self._partition(topic, index).search(latest, committed=committed)

    def release(self) -> None:
        """Complete every parked Fetch with the readable records, and park no more."""
        self._draining = True
        for waiter in tuple(self._parked):
            waiter.release()

    async def stop(self) -> None:
        """Release parked Fetches and close all logs in a thread."""
        await TOPIC_THREADS.run(partial(_close_files, self._end()))

    def close(self) -> None:
        """Release parked Fetches and close all logs. Blocks; for callers without an event loop."""
        _close_files(self._end())

    def _end(self) -> list[TopicPartitionLog]:
        """Refuse requests from now on; returns the partitions that may have open files."""
        self.release()
        self._searches.close()
        partitions = list(self._partitions.values())
        self._partitions.clear()
        for partition in partitions:
            partition.refuse()
        return [each for each in partitions if isinstance(each, TopicPartitionLog)]

    def _partition(self, topic: TopicInfo, index: int) -> ReadablePartition:
        """Return the partition. Raises TopicError if the topic was deleted meanwhile."""
        key = (topic.topic_id, index)
        partition = self._partitions.get(key)
        if partition is None:
            if self.catalog.by_id(topic.topic_id) is None:
                raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "It has been deleted.")
            partition = self._partitions[key] = self._make_partition(topic, index)
        return partition

    def _make_partition(self, topic: TopicInfo, index: int) -> ReadablePartition:
        if topic.name == GROUP_METADATA_TOPIC:
            assert self._coordinator_logs is not None
            return CoordinatorPartition(
                self._coordinator_logs, index, self._flusher, self._searches
            )
        open_log = partial(self._directories.open_log, topic, index)
        return TopicPartitionLog(open_log, self._flusher, self._searches)

    async def _open(
        self, partitions: Iterable[ReadablePartition]
    ) -> dict[ReadablePartition, TopicError]:
        """Open all partitions; returns the errors of those that cannot be opened."""
        refused: dict[ReadablePartition, TopicError] = {}
        for partition in partitions:
            if not partition.is_open:
                try:
                    await partition.open()
                except TopicError as refusal:
                    refused[partition] = refusal
        return refused

    async def _read(
        self,
        wants: Sequence[FetchWant],
        partitions: Sequence[ReadablePartition],
        refused: dict[ReadablePartition, TopicError],
        max_bytes: int,
        *,
        committed: bool,
        memory: ResponseMemory | None,
    ) -> list[FetchPart]:
        parts: list[FetchPart] = []
        pace = TimeSlice(self._clock)
        left, empty, gathered = max_bytes, True, 0
        for want, partition in zip(wants, partitions, strict=True):
            if pace.is_over():
                await pace.rest()
            # A negative limit refuses the first partition that is read with it.
            most, left = min(want.max_bytes, left), max(left, 0)
            try:
                if partition in refused:
                    raise refused[partition]
                found = await partition.read(
                    want.offset, most, at_least_one=empty, committed=committed
                )
            except TopicError as refusal:
                parts.append(FetchPart(refusal.error))
                continue
            data, high_watermark, stable, start, aborted = found
            parts.append(FetchPart(ErrorCode.NONE, high_watermark, start, data, stable, aborted))
            if memory is not None and data:
                gathered += len(data)
                await memory.grown(gathered)
            left = max(left - len(data), 0)
            empty = empty and not data
        return parts

    async def _park(
        self,
        partitions: Sequence[ReadablePartition],
        seen: Sequence[int],
        missing: int,
        max_wait_ms: int,
    ) -> None:
        """Wait for so many bytes beyond what was seen, by high watermarks."""
        waiter = FetchWaiter(missing)
        self._parked.add(waiter)
        for partition in partitions:
            partition.watch(waiter)
        if [partition.high_watermark for partition in partitions] != list(seen):
            # Something arrived while others were read.
            waiter.release()
        try:
            await asyncio.wait((waiter.done,), timeout=max_wait_ms / 1000)
        finally:
            self._parked.discard(waiter)
            for partition in partitions:
                partition.unwatch(waiter)


def _close_files(partitions: Iterable[TopicPartitionLog]) -> None:
    for partition in partitions:
        partition.close_files()
