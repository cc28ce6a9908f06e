"""The storage contract: one log per coordinator partition, owned by one tenure at a time.

What `runtime` knows of storage is this module alone. A log record is Kafka's: key, value,
headers and timestamp; what carries it (segments on disk, memory, a Kafka cluster) is the
business of the implementation. Every implementation passes the suite in `tests/storage`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from protocol.batch import LogRecord
from protocol.offset_runs import OffsetRun

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "CorruptLog",
    "Fenced",
    "LogRecord",
    "Node",
    "OutcomeUnknown",
    "PartitionCallback",
    "PartitionLog",
    "Storage",
    "TooLarge",
]


class Fenced(Exception):
    """Another owner has claimed the partition: drop its state, answer NOT_COORDINATOR."""


class OutcomeUnknown(Exception):
    """The records may or may not be in the log: drop the state, claim and load again."""


class TooLarge(Exception):
    """The records exceed `max_append_bytes`; nothing was written and the partition goes on."""


class CorruptLog(Exception):
    """Bytes in the middle of the log cannot be what was written; the message says where."""


class Node(NamedTuple):
    """Who can be named as the coordinator of a partition."""

    node_id: int
    host: str
    port: int


Loaded = Sequence[LogRecord] | OffsetRun
"""A part of a log: records, or plain commits read in one go."""


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

    def append(self, records: Sequence[LogRecord]) -> "asyncio.Future[int]":
        """Append atomically and in order; resolves to the last offset when durable.

        An empty sequence is a no-op append: it resolves when all before it is durable.
        Raises TooLarge at once; the future fails with Fenced, OutcomeUnknown or OSError.
        """
        ...

    def is_current(self) -> bool:
        """Whether this tenure may still answer reads from memory."""
        ...

    async def close(self) -> None:
        """End the tenure; appends in flight are completed first."""
        ...


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

    def owner(self, partition: int) -> Node | None:
        """Who owns a partition, for FindCoordinator; None if nobody does."""
        ...

    async def stop(self) -> None:
        """Hand over or close all partitions in order."""
        ...
