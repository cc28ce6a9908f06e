"""The storage contract: one log per coordinator partition, owned by one tenure at a time.

What `runtime` knows of storage is this module alone. A log record is Kafka's: key, value,
headers and timestamp; what carries it (segments on disk, memory, a Kafka cluster) is the
business of the implementation. Every implementation passes the suite in `tests/storage`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from coordinator_protocol.batch import LogRecord
from coordinator_protocol.batch_builder import NewBatch
from coordinator_protocol.offset_commit_scanner import OffsetRun

__all__ = [
    "Appended",
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
    """Bytes in the middle of the log cannot be what was written; the message says where."""

    def __init__(self, message: str, repair: str = "") -> None:
        """`repair` is the command that mends the log, if it is another than `log repair`."""
        super().__init__(message)
        self.repair = repair


class Node(NamedTuple):
    """Who can be named as the coordinator of a partition."""

    node_id: int
    host: str
    port: int


Loaded = Sequence[LogRecord] | OffsetRun
"""A part of a log: records, or plain commits read in one go."""

Appended = Callable[[int | BaseException], None]
"""Called once: with the offset of the last record when it is durable, or with Fenced,
OutcomeUnknown or OSError."""


class PartitionLog(Protocol):
    """One tenure of one partition."""

    partition: int
    epoch: int
    """Fencing token; grows with every claim."""

    def load(self) -> AsyncIterator[Loaded]:
        """Every record of the log, in order; once, before the first append.

        Raises CorruptLog, OSError.
        """
        ...

    def append(self, batch: NewBatch, then: Appended) -> None:
        """Append atomically and in order; `then` is called when it is durable, or at once.

        A batch without records calls it when all before it is durable. Raises TooLarge, and then
        `then` is not called.
        """
        ...

    def is_current(self) -> bool:
        """Whether this tenure may still answer reads from memory."""
        ...

    async def close(self) -> None:
        """End the tenure; appends in flight are completed first."""
        ...


def append(log: PartitionLog, batch: NewBatch) -> "asyncio.Future[int]":
    """Append to a log and wait: the last offset. Fails with what `then` is called with."""
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
        """Open the storage and announce every partition that is ours, now and later."""
        ...

    async def claim(self, partition: int) -> PartitionLog:
        """Begin a tenure, which fences all older ones. Raises OSError, Fenced."""
        ...

    async def stop(self) -> None:
        """Hand over or close all partitions in order."""
        ...
