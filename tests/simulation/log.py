"""The virtual log: completed operations are durable, pending ones may fail.

Every operation of a node on a partition (claim, read, append, close) waits in a queue and takes
effect when the simulator completes it, in order per partition and node. Until then it may fail,
or the node may crash with any number of its appends done. All nodes share one disk.
"""

import asyncio  # noqa: TC003 - futures are named in annotations that dataclasses read
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from coordinator_protocol.batch_builder import NewBatch
from coordinator_server.storage.base import (
    AppendCallback,
    Fenced,
    LogRecord,
    OutcomeUnknown,
    PartitionCallback,
    TooLarge,
)
from tests.simulation.loop import VirtualLoop

NOBODY = -1


class FailureKind(Enum):
    """The ways in which an operation can fail."""

    FAILED = "fails and leaves nothing"
    LOST = "has an unknown outcome and has left nothing"
    DONE_IN_SECRET = "has an unknown outcome and was done"


@dataclass(slots=True, eq=False)
class Operation:
    """An operation that a node waits for."""

    node: int
    partition: int
    kind: str
    epoch: int
    begun: int
    """Monotonic milliseconds."""
    work: Callable[[], int]
    """Does it; returns what the future resolves to, raises Fenced."""
    future: "asyncio.Future[int] | None" = None
    """None for a notification, which has no waiter."""
    is_loss: bool = False
    """A notification that a partition belongs to another node."""

    @property
    def tenure(self) -> tuple[int, int, int]:
        return self.node, self.partition, self.epoch

    @property
    def is_append(self) -> bool:
        return self.kind == "append"

    def __str__(self) -> str:
        return f"{self.kind} of node {self.node} on partition {self.partition}"


class Disk:
    """The disk shared by all nodes."""

    def __init__(self, partitions: int, max_append_bytes: int) -> None:
        self.records: list[list[LogRecord]] = [[] for _ in range(partitions)]
        self.epochs = [0] * partitions
        self.owners = [NOBODY] * partitions
        self.max_append_bytes = max_append_bytes
        self.queue: list[Operation] = []

    def next_operations(self) -> list[Operation]:
        """What could be completed now: the first of each node, partition and line."""
        first: dict[tuple[int, int, bool], Operation] = {}
        for operation in self.queue:
            line = (operation.node, operation.partition, operation.future is None)
            first.setdefault(line, operation)
        return list(first.values())

    def writes_under_way(self, node: int, partition: int) -> bool:
        return any(o.is_append and o.node == node and o.partition == partition for o in self.queue)

    def oldest_write(self, node: int, partition: int, epoch: int) -> int | None:
        """The start of the oldest append in progress of a tenure."""
        tenure = (node, partition, epoch)
        begun = (o.begun for o in self.queue if o.is_append and o.tenure == tenure)
        return min(begun, default=None)

    def complete(self, operation: Operation) -> None:
        self.queue.remove(operation)
        future = operation.future
        try:
            result = operation.work()
        except Fenced as fenced:
            if future is not None and not future.done():
                future.set_exception(fenced)
            return
        if future is not None and not future.done():
            future.set_result(result)

    def fail(self, operation: Operation, trouble: FailureKind) -> None:
        """Fail an operation and all later ones of the same tenure."""
        if trouble is FailureKind.DONE_IN_SECRET:
            try:
                operation.work()
            except Fenced:
                trouble = FailureKind.LOST
        for other in self._same_tenure(operation):
            self.queue.remove(other)
            known = trouble is FailureKind.FAILED or not other.is_append
            error = OSError("injected") if known else OutcomeUnknown("injected")
            if other.future is not None and not other.future.done():
                other.future.set_exception(error)

    def _same_tenure(self, operation: Operation) -> list[Operation]:
        return [
            other
            for other in self.queue
            if other is operation
            or (other.tenure == operation.tenure and other.is_append and operation.is_append)
        ]

    def power_off(self, node: int, survive: int) -> None:
        """Drop a node's operations; of its appends, `survive` in all reach the disk.

        The next one is torn, and cut off when the log is opened again.
        """
        for operation in [o for o in self.queue if o.node == node]:
            self.queue.remove(operation)
            if operation.is_append and survive > 0:
                survive -= 1
                try:
                    operation.work()
                except Fenced:
                    survive = 0

    def write(self, partition: int, epoch: int, records: Sequence[LogRecord]) -> int:
        if epoch != self.epochs[partition]:
            raise Fenced(f"epoch {epoch}, now {self.epochs[partition]}")
        log = self.records[partition]
        for record in records:
            record.offset = len(log)
            log.append(record)
        return len(log) - 1

    def claim(self, partition: int, node: int) -> int:
        if self.owners[partition] != node:
            raise Fenced(f"the partition belongs to node {self.owners[partition]}")
        self.epochs[partition] += 1
        return self.epochs[partition]


class VirtualStorage:
    """A node's view of the disk: implements storage.base.Storage."""

    def __init__(self, disk: Disk, node: int, loop: VirtualLoop) -> None:
        self.max_append_bytes = disk.max_append_bytes
        self._disk = disk
        self.node = node
        self._loop = loop
        self._on_assigned: PartitionCallback | None = None
        self._on_lost: PartitionCallback | None = None

    async def start(self, on_assigned: PartitionCallback, on_lost: PartitionCallback) -> None:
        self._on_assigned = on_assigned
        self._on_lost = on_lost
        for partition, owner in enumerate(self._disk.owners):
            if owner == self.node:
                await on_assigned(partition)

    async def claim(self, partition: int) -> "VirtualLog":
        epoch = await self.begin(
            "claim", partition, 0, lambda: self._disk.claim(partition, self.node)
        )
        return VirtualLog(self._disk, self, partition, epoch)

    async def stop(self) -> None:
        self._on_assigned = self._on_lost = None

    def tell(self, partition: int, *, assigned: bool) -> None:
        """Notify the node of its partitions some time later."""

        def news() -> int:
            callback = self._on_assigned if assigned else self._on_lost
            if callback is not None:
                self._loop.spawn(_call(callback, partition))
            return 0

        kind = "news of winning" if assigned else "news of losing"
        operation = Operation(
            self.node, partition, kind, 0, self._loop.now_ms(), news, is_loss=not assigned
        )
        self._disk.queue.append(operation)

    def begin(
        self, kind: str, partition: int, epoch: int, work: Callable[[], int]
    ) -> "asyncio.Future[int]":
        future: asyncio.Future[int] = self._loop.create_future()
        now = self._loop.now_ms()
        operation = Operation(self.node, partition, kind, epoch, now, work, future)
        self._disk.queue.append(operation)
        return future


async def _call(callback: PartitionCallback, partition: int) -> None:
    await callback(partition)


class VirtualLog:
    """Implements storage.base.PartitionLog."""

    def __init__(self, disk: Disk, storage: VirtualStorage, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.node = storage.node
        self._disk = disk
        self._storage = storage

    async def load(self) -> AsyncIterator[Sequence[LogRecord]]:
        """Load in two parts, so that other steps can fall between them."""
        records = self._disk.records[self.partition]
        middle, end = len(records) // 2, len(records)
        for start, stop in ((0, middle), (middle, end)):
            await self._begin("read", lambda: 0)
            yield records[start:stop]

    def append(self, batch: NewBatch, then: AppendCallback) -> None:
        if batch.size > self._disk.max_append_bytes:
            raise TooLarge(f"{batch.size} bytes, at most {self._disk.max_append_bytes}")
        records = tuple(batch.decoded())

        def ended(done: "asyncio.Future[int]") -> None:
            then(done.exception() or done.result())

        written = self._begin(
            "append", lambda: self._disk.write(self.partition, self.epoch, records)
        )
        written.add_done_callback(ended)

    def is_current(self) -> bool:
        return self._disk.epochs[self.partition] == self.epoch

    async def close(self) -> None:
        await self._begin("close", lambda: 0)

    def _begin(self, kind: str, work: Callable[[], int]) -> "asyncio.Future[int]":
        return self._storage.begin(kind, self.partition, self.epoch, work)
