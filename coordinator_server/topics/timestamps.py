"""Searches a log by timestamp, from its beginning: Kafka's time index is not kept.

Everything here reads files and blocks; it is called in a thread.
"""

from collections.abc import Callable, Iterator
from threading import Event
from typing import NamedTuple

from coordinator_protocol.batch import BatchHeader, LogRecord
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.errors import Malformed
from coordinator_server.storage.segments.log import SegmentLog

MAX_UNPACKED_BYTES = 4 * 1024 * 1024
"""A batch of more plain bytes than this is not searched within; its first record stands for it."""


class TimestampAndOffset(NamedTuple):
    """A record's timestamp (ms since the epoch) and offset."""

    timestamp: int
    offset: int


class SearchStopped(Exception):
    """A search was told to stop, or its log is being closed."""


Search = Callable[[SegmentLog, int, Event], TimestampAndOffset | None]
"""`search(log, up_to, stopping)` looks at the records before the offset `up_to`."""


def first_from(
    timestamp: int, log: SegmentLog, up_to: int, stopping: Event
) -> TimestampAndOffset | None:
    """The first record whose timestamp is not before `timestamp`.

    Raises SearchStopped, CorruptLog, OSError.
    """
    for header, chunk, at in log.batches(since=timestamp):
        _check_wanted(log, stopping)
        if header.base_offset >= up_to:
            return None
        if header.max_timestamp >= timestamp:
            for found in _records(header, chunk, at):
                if found.timestamp >= timestamp:
                    return found
    return None


def latest(log: SegmentLog, up_to: int, stopping: Event) -> TimestampAndOffset | None:
    """The first of the records with the largest timestamp.

    Closed segments that are known to have only older ones are not read.
    Raises SearchStopped, CorruptLog, OSError.
    """
    since = log.latest_known(up_to)
    best = _latest_batch(since, log, up_to, stopping)
    if since is not None and (best is None or best[0].max_timestamp < since):
        # A compaction has taken it away meanwhile.
        best = _latest_batch(None, log, up_to, stopping)
    return None if best is None else max(_records(*best), key=lambda found: found.timestamp)


def _latest_batch(
    since: int | None, log: SegmentLog, up_to: int, stopping: Event
) -> tuple[BatchHeader, bytes, int] | None:
    best: tuple[BatchHeader, bytes, int] | None = None
    for header, chunk, at in log.batches(since=since):
        _check_wanted(log, stopping)
        if header.base_offset >= up_to:
            break
        if best is None or header.max_timestamp > best[0].max_timestamp:
            best = header, chunk, at
    return best


def _check_wanted(log: SegmentLog, stopping: Event) -> None:
    if stopping.is_set() or log.closing.is_set():
        raise SearchStopped(f"the search of {log.directory} was stopped")


def _records(header: BatchHeader, chunk: bytes, at: int) -> Iterator[TimestampAndOffset]:
    try:
        records: list[LogRecord] = read_records(header, chunk, at, MAX_UNPACKED_BYTES)
    except Malformed:
        yield TimestampAndOffset(header.max_timestamp, header.base_offset)
        return
    for record in records:
        yield TimestampAndOffset(record.timestamp, record.offset)
