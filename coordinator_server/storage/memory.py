"""A storage that forgets everything with the process, and fails when a test tells it to."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from coordinator_protocol.batch_builder import NewBatch
from coordinator_server.storage.base import (
    AppendCallback,
    Fenced,
    LogRecord,
    OutcomeUnknown,
    PartitionCallback,
    TooLarge,
)

CHUNK = 1_000
"""Records that a load hands out at a time."""


class MemoryLog:
    """One tenure of a partition; its records outlive it in the storage."""

    def __init__(self, storage: "MemoryStorage", partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self._storage = storage
        self._in_flight: deque[tuple[list[LogRecord], AppendCallback]] = deque()
        self._failed: Exception | None = None
        """Why nothing can be appended any more: what follows a lost append is lost too."""
        self._closed = False

    async def load(self) -> AsyncIterator[Sequence[LogRecord]]:
        """See PartitionLog."""
        records = self._storage.records(self.partition)
        for start in range(0, len(records), CHUNK):
            yield records[start : start + CHUNK]

    def append(self, batch: NewBatch, then: AppendCallback) -> None:
        """See PartitionLog; a fault that is planned for this append happens instead."""
        if batch.size > self._storage.max_append_bytes:
            most = self._storage.max_append_bytes
            raise TooLarge(f"a batch of {batch.size} bytes, at most {most} are taken")
        if self._closed:
            then(OutcomeUnknown("the log is closed"))
            return
        self._in_flight.append((batch.decoded(), then))
        if not self._storage.is_held(self.partition):
            asyncio.get_running_loop().call_soon(self.complete)

    def complete(self) -> None:
        """Make durable, or fail, everything in flight."""
        while self._in_flight:
            records, then = self._in_flight.popleft()
            fault: Exception | None
            if self.is_current():
                fault = self._storage.take_fault(self.partition, records)
            else:
                fault = Fenced(f"partition {self.partition}, epoch {self.epoch}: claimed since")
            self._failed = self._failed or fault
            then(self._failed or self._storage.store(self.partition, records))

    def is_current(self) -> bool:
        """Whether nobody has claimed the partition since."""
        return self._storage.epoch(self.partition) == self.epoch

    async def close(self) -> None:
        """See PartitionLog."""
        self.complete()
        self._closed = True


class MemoryStorage:
    """Implements storage.base.Storage."""

    def __init__(self, partitions: int = 50, max_append_bytes: int = 16 * 1024 * 1024) -> None:
        self.max_append_bytes = max_append_bytes
        self._records: list[list[LogRecord]] = [[] for _ in range(partitions)]
        self._logs: dict[int, MemoryLog] = {}
        self._faults: dict[int, deque[tuple[Exception, bool]]] = {}
        self._fenced: dict[int, int] = {}
        """Epochs of those who fenced ours, by partition."""
        self._held: set[int] = set()

    # --- storage.base.Storage ---

    async def start(self, on_assigned: PartitionCallback, _on_lost: PartitionCallback) -> None:
        """Announce every partition as ours."""
        for partition in range(len(self._records)):
            await on_assigned(partition)

    async def claim(self, partition: int) -> MemoryLog:
        """Begin a tenure, which fences all older ones."""
        log = MemoryLog(self, partition, self.epoch(partition) + 1)
        self._logs[partition] = log
        return log

    async def stop(self) -> None:
        """Nothing is to be done."""

    # --- for tests ---

    def records(self, partition: int) -> list[LogRecord]:
        """Everything durable in a partition, in order."""
        return list(self._records[partition])

    def fail_next(self, partition: int, error: Exception, *, stored: bool = False) -> None:
        """Let the next append, after those planned already, fail, and its tenure with it.

        With `stored` its records are in the log all the same, as may be after OutcomeUnknown.
        """
        self._faults.setdefault(partition, deque()).append((error, stored))

    def fence(self, partition: int) -> None:
        """Claim the partition for somebody else: its tenure is no longer current."""
        self._fenced[partition] = self.epoch(partition) + 1

    def hold(self, partition: int) -> None:
        """Let appends neither succeed nor fail until `release`."""
        self._held.add(partition)

    def release(self, partition: int) -> None:
        """Complete what was held, and hold no more."""
        self._held.discard(partition)
        if partition in self._logs:
            self._logs[partition].complete()

    # --- for MemoryLog ---

    def epoch(self, partition: int) -> int:
        """The epoch of the latest claim, ours or another's; 0 before the first."""
        log = self._logs.get(partition)
        return max(0 if log is None else log.epoch, self._fenced.get(partition, 0))

    def is_held(self, partition: int) -> bool:
        """Whether appends are held."""
        return partition in self._held

    def take_fault(self, partition: int, records: Sequence[LogRecord]) -> Exception | None:
        """The fault planned for the coming append of `records`."""
        faults = self._faults.get(partition)
        if not faults:
            return None
        error, stored = faults.popleft()
        if stored:
            self.store(partition, records)
        return error

    def store(self, partition: int, records: Sequence[LogRecord]) -> int:
        """Append durably; the last offset."""
        log = self._records[partition]
        base = len(log)
        log.extend(replace(record, offset=base + i) for i, record in enumerate(records))
        return len(log) - 1
