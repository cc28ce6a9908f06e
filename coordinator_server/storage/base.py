"""The storage contract: one log per coordinator partition, owned by one tenure at a time.

`runtime` depends on this module only. A log record is Kafka's: key, value, headers and timestamp;
implementations store it in segments on disk, in memory or in a Kafka cluster. Every implementation
passes the contract tests in `tests/storage`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from coordinator_protocol.batch import LogRecord
from coordinator_protocol.batch_builder import NewBatch
from coordinator_protocol.offset_commit_scanner import OffsetRun

__all__ = [
    "AppendCallback",
    "CorruptLog",
    "Fenced",
    "LogRecord",
    "Node",
    "OutcomeUnknown",
    "PartitionCallback",
    "PartitionLog",
    "Storage",
    "TooLarge",
    "append",
]


class Fenced(Exception):
    """Another owner has claimed the partition: drop its state, answer NOT_COORDINATOR."""


class OutcomeUnknown(Exception):
    """The records may or may not be in the log: drop the state, claim and load again."""


class TooLarge(Exception):
    """The records exceed `max_append_bytes`; nothing was written and the partition goes on."""


class CorruptLog(Exception):
    """The log is damaged or lacks acknowledged records; the message says where."""

    def __init__(self, message: str, repair: str = "") -> None:
        """`repair` is the command that repairs the log, if it is not `log repair`."""
        super().__init__(message)
        self.repair = repair


class Node(NamedTuple):
    """A broker that can be the coordinator of a partition."""

    node_id: int
    host: str
    port: int


LoadedRecords = Sequence[LogRecord] | OffsetRun
"""A part of a log: records, or consecutive offset commits decoded together."""

AppendCallback = Callable[[int | BaseException], None]
"""Called once: with the offset of the last record when it is durable, or with Fenced,
OutcomeUnknown or OSError."""


class PartitionLog(Protocol):
    """One tenure of one partition."""

    partition: int
    epoch: int
    """Fencing token; grows with every claim."""

    def load(self) -> AsyncIterator[LoadedRecords]:
        """Yield every record of the log in order; called once, before the first append.

        Raises CorruptLog, OSError.
        """
        ...

    def append(self, batch: NewBatch, then: AppendCallback) -> None:
        """Append atomically and in order; `then` is called when the batch is durable or has failed.

        For a batch without records, `then` is called when all earlier batches are durable. `append`
        may call `then` before it returns. Raises TooLarge, without calling `then`.
        """
        ...

    def is_current(self) -> bool:
        """Whether this tenure may still answer reads from memory."""
        ...

    async def close(self) -> None:
        """End the tenure; appends in flight are completed first."""
        ...


def append(log: PartitionLog, batch: NewBatch) -> "asyncio.Future[int]":
    """Append and return a future for the last offset; it fails with the exception of `then`."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def appended(result: int | BaseException) -> None:
        if future.done():
            return
        if isinstance(result, int):
            future.set_result(result)
        else:
            future.set_exception(result)

    log.append(batch, appended)
    return future


PartitionCallback = Callable[[int], Awaitable[None]]


class Storage(Protocol):
    """All partitions this node may own."""

    max_append_bytes: int

    async def start(self, on_assigned: PartitionCallback, on_lost: PartitionCallback) -> None:
        """Open the storage and announce every partition that is assigned to this node."""
        ...

    async def claim(self, partition: int) -> PartitionLog:
        """Begin a tenure, which fences all older ones. Raises OSError, Fenced."""
        ...

    async def stop(self) -> None:
        """Hand over or close all partitions in order."""
        ...
