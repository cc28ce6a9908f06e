"""Copies partitions of the coordinator's log and checks every record."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coordinator_protocol.batch import LogRecord, build_batch, stamped
from coordinator_protocol.errors import Malformed
from coordinator_protocol.markers import decode_marker
from coordinator_protocol.records import UnknownKey, decode_key, decode_value
from coordinator_server.log_tools import inspection
from coordinator_server.log_tools.accepted_loss import empty_batches
from coordinator_server.log_tools.inspection import Progress
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import SYSTEM_FILES
from coordinator_server.topics.directories import EPOCHS_FILE

ABORT_KEY: Final = b"\0\0\0\0"
"""Version and type of a control record that aborts a transaction."""
ABORT_VALUE: Final = bytes(6)
"""Its version, and the epoch of a transaction coordinator."""


@dataclass(slots=True)
class Copied:
    """Counts of what was copied."""

    partitions: int = 0
    records: int = 0
    unknown: Counter[int] = field(default_factory=Counter)
    """How many records there are of types this version skips, by type."""
    open_transactions: int = 0
    """Their offsets are pending, unless the copy aborted them."""


@dataclass(slots=True)
class PartitionCopy:
    """Source and target of the copy of a partition."""

    source: Path
    target: Path
    suffix: str = ""
    """Suffix of the segments in the target until all of them are there."""


def copy_all(
    tasks: Sequence[PartitionCopy], progress: Progress, *, abort_open: bool = False
) -> Copied:
    """Copy partitions; with `abort_open` an abort marker ends what transactions are open.

    What lies in the targets is durable then. Raises CorruptLog, OSError.
    """
    copied = Copied(partitions=len(tasks))
    for task in tasks:
        task.target.mkdir(exist_ok=True)
        _Copy(task, copied, progress).run(abort_open=abort_open)
    return copied


class _Copy:
    """Copies the segments of one partition."""

    def __init__(self, task: PartitionCopy, copied: Copied, progress: Progress) -> None:
        self._task = task
        self._copied = copied
        self._progress = progress
        self._end = 0
        self._open: dict[int, LogRecord] = {}
        """A record of each open transaction, by producer id."""

    def run(self, *, abort_open: bool) -> None:
        """Copy; raises CorruptLog, OSError."""
        last = None
        for segment in inspection.segments(self._task.source):
            if int(segment.stem) < self._end:
                raise CorruptLog(f"{segment} begins before offset {self._end}, where one ends")
            self._close_gap(last, int(segment.stem))
            last = self._task.target / (segment.name + self._task.suffix)
            with last.open("wb") as file:
                for batch in inspection.batches(segment):
                    self._check(batch)
                    # Of this log's own leader there is but one epoch.
                    file.write(stamped(batch.raw, batch.header.base_offset))
                    self._end = batch.header.last_offset + 1
                    self._progress(batch.header.size)
                file.flush()
                os.fsync(file.fileno())
        if abort_open and self._open and last is not None:
            self._abort(last)
        self._copied.open_transactions += len(self._open)
        epochs = f"0\n1\n0 {self._first_offset()}\n"
        SYSTEM_FILES.replace(self._task.target / (EPOCHS_FILE + self._task.suffix), epochs.encode())

    def _close_gap(self, before: Path | None, base: int) -> None:
        """Let a segment end where the next begins: a broker's compaction does not see to that.

        So a segment that is lost later is noticed.
        """
        if before is not None and self._end < base:
            with before.open("ab") as file:
                file.write(empty_batches(self._end, base))
                file.flush()
                os.fsync(file.fileno())

    def _first_offset(self) -> int:
        return int(inspection.segments(self._task.source)[0].stem)

    def _check(self, batch: inspection.InspectedBatch) -> None:
        for record in inspection.records(batch):
            try:
                self._count(record)
            except Malformed as error:
                where = f"{batch.path}, position {batch.position}, offset {record.offset}"
                raise CorruptLog(f"{where}: {error}") from error

    def _count(self, record: LogRecord) -> None:
        self._copied.records += 1
        if record.control:
            decode_marker(record.key or b"")
            self._open.pop(record.producer_id, None)
            return
        if record.transactional:
            self._open[record.producer_id] = record
        if record.key is None:
            return
        key = decode_key(record.key)
        if isinstance(key, UnknownKey):
            self._copied.unknown[key.type] += 1
        elif record.value is not None:
            decode_value(key, record.value)

    def _abort(self, segment: Path) -> None:
        """End every open transaction as its coordinator would that has given up waiting."""
        with segment.open("ab") as file:
            for producer_id, last in self._open.items():
                marker = LogRecord(
                    ABORT_KEY,
                    ABORT_VALUE,
                    last.timestamp,
                    producer_id=producer_id,
                    producer_epoch=last.producer_epoch,
                    transactional=True,
                    control=True,
                )
                file.write(build_batch([marker], self._end))
                self._end += 1
            file.flush()
            os.fsync(file.fileno())
