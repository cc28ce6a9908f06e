"""The embedded storage: the coordinator's partitions as `__consumer_offsets-N` directories."""

import asyncio
import base64
import errno
import time
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

from coordinator_protocol.batch_builder import NewBatch
from coordinator_server.storage.base import (
    AppendCallback,
    CorruptLog,
    Fenced,
    LoadedRecords,
    OutcomeUnknown,
    PartitionCallback,
    TooLarge,
)
from coordinator_server.storage.segments.directory import HeldDirectory
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.flush_waiter import FlushWaiter
from coordinator_server.storage.segments.flusher import Flusher
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.loading import load
from coordinator_server.storage.segments.log import DEFAULT_SEGMENT_MS, SegmentLog
from coordinator_server.storage.segments.log_identity import PARTITION_METADATA, check_mark
from coordinator_server.storage.segments.progress import LoadProgress
from coordinator_server.storage.segments.reporting import Report
from coordinator_server.storage.segments.shares import WHOLE, Share
from coordinator_server.storage.segments.threads import STORAGE_THREADS

TOPIC: Final = "__consumer_offsets"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
MAX_APPEND_BYTES: Final = 16 * 1024 * 1024
_EPOCHS_PER_START: Final = 1 << 32

Acknowledged = Callable[[SegmentLog, int, int], None]
"""Called as `acknowledged(log, end_offset, size)` for a batch that became durable."""


class SegmentPartitionLog:
    """One tenure of a partition in the embedded log."""

    def __init__(
        self, storage: "SegmentStorage", partition: int, epoch: int, log: SegmentLog
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self._storage = storage
        self._epochs = storage.epochs
        self._log = log
        self._closed = False

    def load(self) -> AsyncIterator[LoadedRecords]:
        """See PartitionLog."""
        return load(self.partition, self._log, self._storage.progress, self._storage.load_turns)

    def append(self, batch: NewBatch, then: AppendCallback) -> None:
        """See PartitionLog: one batch."""
        log, storage = self._log, self._storage
        if self._closed:
            then(OutcomeUnknown("the log is closed"))
            return
        if not self.is_current():
            then(Fenced(f"partition {self.partition}, epoch {self.epoch}"))
            return
        size = 0
        if batch.records:
            size = batch.size
            if size > storage.max_append_bytes:
                most = storage.max_append_bytes
                raise TooLarge(f"a batch of {size} bytes, at most {most} are taken")
            if storage.flusher.unwritten.exceeds_most:
                then(OSError(errno.EAGAIN, f"{log.directory}: too much waits for the disk"))
                return
            try:
                data = batch.build(log.end_offset)
                log.append_built(data, batch.records - 1, batch.timestamp)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - the tenure must learn
                storage.refused(self.partition, size)
                then(error)
                return
        storage.flusher.wait(_AppendWaiter(self, log, then, size))

    def acknowledged(self, log: SegmentLog, end: int, size: int) -> None:
        """Report that a batch of this tenure became durable."""
        self._storage.acknowledged(self.partition, log, end, size)

    def refused(self, size: int) -> None:
        """Report that a batch of this tenure could not be written."""
        self._storage.refused(self.partition, size)

    def is_current(self) -> bool:
        """Whether no later tenure has begun."""
        return self._epochs[self.partition] == self.epoch

    async def close(self) -> None:
        """See PartitionLog."""
        if not self._closed:
            self._closed = True
            await self._storage.retire(self.partition, self._log)


class _AppendWaiter(FlushWaiter):
    """Waits until a batch of a tenure is durable, and reports the result."""

    __slots__ = ("_size", "_tenure", "_then")

    def __init__(
        self, tenure: SegmentPartitionLog, log: SegmentLog, then: AppendCallback, size: int
    ) -> None:
        super().__init__(log)
        self._tenure = tenure
        self._then = then
        self._size = size
        """Size of the batch; 0 if it has no records."""

    def flushed(self, error: OSError | None) -> None:
        """See FlushWaiter."""
        if error is not None:
            if self._size:
                self._tenure.refused(self._size)
            self._then(error)
            return
        self._then(self.end - 1)
        if self._size:
            self._tenure.acknowledged(self.log, self.end, self._size)


class SegmentStorage:
    """Implements storage.base.Storage in a data directory that this node owns."""

    def __init__(
        self,
        directory: HeldDirectory,
        flusher: Flusher,
        *,
        partitions: int,
        segment_bytes: int,
        topic_id: UUID,
        report: Report,
        segment_ms: int = DEFAULT_SEGMENT_MS,
        journal: Journal | None = None,
        files: Files = SYSTEM_FILES,
        max_append_bytes: int = MAX_APPEND_BYTES,
        share: Share = WHOLE,
    ) -> None:
        self.max_append_bytes = max_append_bytes
        self.flusher = flusher
        self._directory = directory
        self._partitions = partitions
        self._share = share
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._journal = journal
        self._marked_id = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
        self._report = report
        self._files = files
        self.progress = LoadProgress(report, time.monotonic)
        self.load_turns = asyncio.Lock()
        """Held by the partition that is decoding a part of its log."""
        self.epochs = [0] * partitions
        """The epoch of the latest claim of each partition."""
        self._logs: dict[int, SegmentLog] = {}
        """Open logs by partition."""
        self._truncate_to: dict[int, int] = {}
        """Durable end offsets of failed logs, by partition; the next claim truncates to them."""
        self._followers: list[Acknowledged | None] = [None] * partitions
        """Callbacks for durable batches, by partition."""
        self._refused: dict[int, int] = {}
        """Sizes of batches that could not be written, by partition; the next claim probes them."""

    async def start(self, on_assigned: PartitionCallback, _on_lost: PartitionCallback) -> None:
        """See Storage; assigns every partition of this process's share, for good."""
        for partition in filter(self._share.has, range(self._partitions)):
            await on_assigned(partition)

    async def claim(self, partition: int) -> SegmentPartitionLog:
        """See Storage; completes the appends of the older tenure first. Raises CorruptLog."""
        last = self.epochs[partition] or self._directory.start * _EPOCHS_PER_START
        epoch = self.epochs[partition] = last + 1
        if partition in self._logs:
            await self.retire(partition, self._logs[partition])
        log = await self._opened(partition)
        if self.epochs[partition] != epoch:
            await STORAGE_THREADS.run(log.close)
            raise Fenced(f"partition {partition} was claimed again, after epoch {epoch}")
        if log.cut_bytes:
            self._report("torn_tail_cut", directory=str(log.directory), bytes=log.cut_bytes)
        self._logs[partition] = log
        return SegmentPartitionLog(self, partition, epoch, log)

    async def _opened(self, partition: int) -> SegmentLog:
        """Open a partition's log in a thread, and close it again if the caller is cancelled."""
        opening = asyncio.ensure_future(STORAGE_THREADS.run(lambda: self._open_log(partition)))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unclaimed)
            raise

    async def stop(self) -> None:
        """See Storage; the caller closes the flusher and the directory, which it made."""

    def open_log(self, partition: int) -> SegmentLog | None:
        """The log of a partition's current tenure; None if it has no tenure."""
        return self._logs.get(partition)

    def follow(self, partition: int, acknowledged: Acknowledged) -> None:
        """Call `acknowledged` for every batch that becomes durable; one callback per partition."""
        self._followers[partition] = acknowledged

    def open_logs(self) -> list[SegmentLog]:
        """The logs of all current tenures."""
        return list(self._logs.values())

    def sizes(self) -> Mapping[int, tuple[int, int]]:
        """Bytes and dirty bytes (not compacted) of every open log, by partition."""
        return {partition: (log.size, log.dirty_bytes) for partition, log in self._logs.items()}

    # --- for SegmentPartitionLog ---

    def acknowledged(self, partition: int, log: SegmentLog, end: int, size: int) -> None:
        """Call the follower for a durable batch that ends at offset `end`."""
        follower = self._followers[partition]
        if follower is not None:
            follower(log, end, size)

    def refused(self, partition: int, size: int) -> None:
        """Note a batch that could not be written: the next claim probes the disk with its size."""
        self._refused[partition] = size

    async def retire(self, partition: int, log: SegmentLog) -> None:
        """Complete the appends of a log and close it.

        If the log has failed, the next claim truncates it to its durable offset.
        """
        if self._logs.get(partition) is not log:
            return
        if log.failed is None:
            flushed = self.flusher.flush(log)
            await asyncio.wait([flushed])
            # Retrieved, or asyncio logs it as never retrieved; `log.failed` has it, too.
            flushed.exception()
        if self._logs.pop(partition, None) is log:
            if log.failed is not None:
                self._truncate_to[partition] = log.durable_offset
            await STORAGE_THREADS.run(log.close)

    def _open_log(self, partition: int) -> SegmentLog:
        """Open a partition's log, truncated to its durable offset. Blocks.

        Raises CorruptLog, OSError.
        """
        path = self._directory.path / f"{TOPIC}-{partition}"
        if self._journal is not None:
            self._journal.close_previous(path.name)
        self._files.make_directory(path)
        if not check_mark(self._files, path, self._marked_id):
            self._mark(path)
        log = SegmentLog(
            path,
            files=self._files,
            segment_bytes=self._segment_bytes,
            segment_ms=self._segment_ms,
            journal=self._journal,
        )
        try:
            if partition in self._truncate_to:
                self._truncate(log, self._truncate_to[partition])
                del self._truncate_to[partition]
            if partition in self._refused:
                log.probe(self._refused[partition])
                del self._refused[partition]
        except BaseException:
            log.close()
            raise
        return log

    def _truncate(self, log: SegmentLog, durable: int) -> None:
        if log.end_offset < durable:
            raise CorruptLog(
                f"{log.directory} ends at offset {log.end_offset}, but records up to offset "
                f"{durable} were acknowledged"
            )
        log.truncate(durable)

    def _mark(self, path: Path) -> None:
        """Write the files that a Kafka broker expects in a partition's directory."""
        text = f"version: 0\ntopic_id: {self._marked_id}"
        self._files.replace(path / LEADER_EPOCHS, b"0\n1\n0 0\n")
        self._files.replace(path / PARTITION_METADATA, text.encode())


def _close_unclaimed(opening: "asyncio.Future[SegmentLog]") -> None:
    """Close a log that was opened for a claim that was cancelled."""
    if opening.cancelled() or opening.exception() is not None:
        return
    closing = asyncio.ensure_future(STORAGE_THREADS.run(opening.result().close))
    closing.add_done_callback(_retrieve_exception)


def _retrieve_exception(closing: "asyncio.Future[None]") -> None:
    """Retrieve the exception, or asyncio logs it as never retrieved."""
    if not closing.cancelled():
        closing.exception()
