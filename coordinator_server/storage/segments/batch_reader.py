"""Takes a log apart into plain commits, which go in runs, and all other records."""

from collections.abc import Iterator
from typing import Final

from coordinator_protocol.batch import NO_PRODUCER_ID, BatchHeader
from coordinator_protocol.batch_records import batch_body, check_all_read, iter_records, read_record
from coordinator_protocol.offset_commit_scanner import OffsetRun
from coordinator_server.storage.base import LoadedRecords, LogRecord

RECORDS_PER_TURN: Final = 2_000
"""The bytes of one read, a few milliseconds, and the most records handed on together."""
LONGEST_RUN: Final = 16_384
"""Commits that are handed on together; of those of one key only the last."""


class RunReader:
    """Reads batches in order; what it has read is taken from time to time."""

    def __init__(self) -> None:
        self._places: dict[bytes, tuple[str, str]] = {}
        self._read: list[LoadedRecords] = []
        self._others: list[LogRecord] = []
        """Records that came before those of the run."""
        self._run = OffsetRun(self._places)
        self._left = RECORDS_PER_TURN
        """How many more are read before the next pause."""

    def take(self, *, flush: bool) -> list[LoadedRecords]:
        """The records read since the last call, in order; few of them only with `flush`."""
        if flush:
            self._turn_over()
        read, self._read = self._read, []
        return read

    def read(self, header: BatchHeader, buffer: bytes, at: int) -> Iterator[None]:
        """Read the records of the batch at a position; yields for a pause. Raises Malformed."""
        if header.producer_id != NO_PRODUCER_ID:
            for record in iter_records(header, buffer, at):
                yield from self._add(record)
            return
        body, end, left = batch_body(header, buffer, at), 0, header.records
        while left:
            end, taken = self._run.take(body, end, min(left, self._left))
            left -= taken
            yield from self._count(taken)
            if left and not taken:
                record, end = read_record(header, body, end)
                left -= 1
                yield from self._add(record)
        check_all_read(header, body, end)

    def _add(self, record: LogRecord) -> Iterator[None]:
        if self._run.count:
            self._turn_over()
        self._others.append(record)
        return self._count(1)

    def _count(self, records: int) -> Iterator[None]:
        self._left -= records
        if self._left <= 0:
            self._left = RECORDS_PER_TURN
            if self._others or self._run.count >= LONGEST_RUN:
                self._turn_over()
            yield

    def _turn_over(self) -> None:
        if self._others:
            self._read.append(self._others)
            self._others = []
        if self._run.count:
            self._read.append(self._run)
            self._run = OffsetRun(self._places)
