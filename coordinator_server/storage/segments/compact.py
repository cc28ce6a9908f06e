"""Compaction of one log: keeps the last record of every key, and the offsets of all records.

Only segments before the active one are rewritten; neighbours are merged up to the size of a
segment. Transactional batches and markers are copied byte for byte, and so are all records of keys
that occur in them, as the result of a transaction depends on all of them. Records without a key
stay. A tombstone gets Kafka's delete horizon when it is first cleaned and goes once that has passed
(kafka.log.Cleaner, KIP-534). A merged segment ends with its last batch even if that is empty, so
that its end, and with it the range it replaces, can be read from the file.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from coordinator_protocol.batch import BatchHeader
from coordinator_protocol.errors import Malformed
from coordinator_protocol.rewrite import RawRecord, delete_horizon, raw_records, rewritten
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import Files
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.segment import LARGEST_DELTA, Segment
from coordinator_server.storage.segments.swap import CLEANED, install_compacted, remove_unfinished

MAX_KEYS: Final = 1_000_000
"""A compaction ends behind the segment that exceeds this; the next one continues there."""
_TABLES: Final = 1024
WRITE_BYTES: Final = 256 * 1024


class CompactionCancelled(Exception):
    """The log was closed or the server is stopping; segments that are in place stay."""


class CompactionThrottle(Protocol):
    """Bounds the disk and CPU time of a compaction."""

    def spend(self, size: int) -> None:
        """Count bytes read or written, and wait if needed. Raises CompactionCancelled."""
        ...


class CompactionResult(NamedTuple):
    """The result of a compaction; sizes are the bytes of the segments that were read."""

    segments: int
    bytes_before: int
    bytes_after: int


class _Keys:
    """The last offsets of keys and producers in a range of segments.

    The keys are in many small tables: resizing or freeing a large one would hold the GIL for longer
    than a heartbeat may wait.
    """

    def __init__(self) -> None:
        self.transactional: set[bytes] = set()
        """Keys that transactions name; all their records stay."""
        self.producers: dict[int, int] = {}
        """Last offset of every producer: its last batch stays, even without a record."""
        self._last: list[dict[bytes, int]] = [{} for _ in range(_TABLES)]

    def note(self, key: bytes, offset: int) -> None:
        """Note a record of a dirty segment, in the order of offsets."""
        self._last[hash(key) % _TABLES][key] = offset

    def last(self, key: bytes) -> int:
        """Offset of the last record of a key in dirty segments, -1 where there is none."""
        return self._last[hash(key) % _TABLES].get(key, -1)

    def __len__(self) -> int:
        return sum(map(len, self._last))

    def release(self, throttle: CompactionThrottle) -> None:
        """Free the memory in small steps."""
        with suppress(CompactionCancelled):
            while self._last:
                self._last.pop()
                throttle.spend(0)


def compact(
    log: SegmentLog,
    *,
    throttle: CompactionThrottle,
    wall_ms: Callable[[], int],
    delete_retention_ms: int,
    max_keys: int = MAX_KEYS,
) -> CompactionResult:
    """Compact the closed segments of a log; runs in a thread while the log is used.

    Raises CompactionCancelled, CorruptLog, OSError; segments that are in place by then stay valid.
    """
    with log.compacting() as files:
        remove_unfinished(files, log.directory)
        keys, segments = _read_keys(log, throttle, max_keys)
        before = sum(segment.size for segment in segments)
        after = 0
        now = wall_ms()
        for group in _groups(segments, log.segment_bytes):
            after += _Rewriter(files, group, keys, throttle, now, delete_retention_ms).replace(log)
        if segments:
            log.clean_offset = segments[-1].end_offset
        keys.release(throttle)
        return CompactionResult(len(segments), before, after)


def _read_keys(
    log: SegmentLog, throttle: CompactionThrottle, max_keys: int
) -> tuple[_Keys, Sequence[Segment]]:
    """Read the keys and return them with the segments that they cover.

    Raises CorruptLog also if a segment is missing, which merging its neighbours would hide from
    later loads. Raises OSError.
    """
    keys, segments = _Keys(), log.closed_segments()
    for number, segment in enumerate(segments):
        dirty, end = segment.base_offset >= log.clean_offset, segment.base_offset
        for header, chunk, at in _batches(segment):
            if header.producer_id >= 0:
                keys.producers[header.producer_id] = header.last_offset
            if header.is_transactional or (dirty and not header.is_control):
                _note_keys(keys, header, _records(segment, header, chunk, at))
            end = header.last_offset + 1
            throttle.spend(header.size)
        log.check_contiguous(end, segment.end_offset)
        if len(keys) >= max_keys:
            return keys, segments[: number + 1]
    return keys, segments


def _note_keys(keys: _Keys, header: BatchHeader, records: Iterator[RawRecord]) -> None:
    if header.is_control:
        return
    for record in records:
        if record.key is None:
            continue
        if header.is_transactional:
            keys.transactional.add(record.key)
        else:
            keys.note(record.key, record.offset)


def _groups(segments: Sequence[Segment], segment_bytes: int) -> Iterator[list[Segment]]:
    """Group neighbouring segments that fit into one segment."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        too_long = group and segment.end_offset - group[0].base_offset > LARGEST_DELTA
        if group and (size + segment.size > segment_bytes or too_long):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


def _batches(segment: Segment) -> Iterator[tuple[BatchHeader, bytes, int]]:
    at = 0
    for position, header, chunk, offset in segment.walk(checked=True):
        yield header, chunk, offset
        at = position + header.size
    if at < segment.size:
        raise CorruptLog(f"{segment.path}, position {at}: the segment ends in a batch")


def _records(segment: Segment, header: BatchHeader, chunk: bytes, at: int) -> Iterator[RawRecord]:
    try:
        yield from raw_records(header, chunk, at)
    except Malformed as error:
        where = f"{segment.path}, the batch at offset {header.base_offset}"
        raise CorruptLog(f"{where}: {error}") from error


class _Rewriter:
    """Writes one compacted segment from a group of segments."""

    def __init__(
        self,
        files: Files,
        group: list[Segment],
        keys: _Keys,
        throttle: CompactionThrottle,
        now: int,
        delete_retention_ms: int,
    ) -> None:
        self._files = files
        self._group = group
        self._keys = keys
        self._throttle = throttle
        self._now = now
        self._horizon = now + delete_retention_ms

    def replace(self, log: SegmentLog) -> int:
        """Write the segment, replace the group by it and return its size."""
        first = self._group[0]
        path = first.path.with_name(first.path.name + CLEANED)
        self._files.remove(path)
        cleaned = Segment(self._files, log.directory, first.base_offset, CLEANED)
        try:
            self._write(cleaned)
            cleaned.file.sync()
            self._throttle.spend(0)
        except BaseException:
            cleaned.file.close()
            with suppress(OSError):
                self._files.remove(path)
            raise
        try:
            install_compacted(self._files, log.directory, path, [old.path for old in self._group])
        except OSError:
            cleaned.file.close()
            log.compactable = False
            raise
        cleaned.path = first.path
        cleaned.end_offset = self._group[-1].end_offset
        log.replace_segments(self._group, cleaned)
        return cleaned.size

    def _write(self, cleaned: Segment) -> None:
        pending = bytearray()
        last = b""
        for segment in self._group:
            for header, chunk, at in _batches(segment):
                batch = self._cleaned_batch(segment, header, chunk, at)
                last = b"" if batch else rewritten(header, (), None)
                pending += batch
                self._throttle.spend(header.size + len(batch))
                if len(pending) >= WRITE_BYTES:
                    _flush(cleaned, pending)
        _flush(cleaned, pending + last)

    def _cleaned_batch(self, segment: Segment, header: BatchHeader, chunk: bytes, at: int) -> bytes:
        """Return the batch with the remaining records; empty if none remain."""
        if header.is_transactional or header.is_control:
            return chunk[at : at + header.size]
        records = list(_records(segment, header, chunk, at))
        horizon = delete_horizon(header)
        expired = horizon is not None and horizon <= self._now
        kept = [record for record in records if self._stays(record, expired=expired)]
        if not kept and self._keys.producers.get(header.producer_id) != header.last_offset:
            return b""
        if horizon is None and any(record.is_tombstone for record in kept):
            return rewritten(header, kept, self._horizon)
        if len(kept) == len(records):
            return chunk[at : at + header.size]
        return rewritten(header, kept, horizon)

    def _stays(self, record: RawRecord, *, expired: bool) -> bool:
        key = record.key
        if key is None or key in self._keys.transactional:
            return True
        if self._keys.last(key) > record.offset:
            return False
        return not (record.is_tombstone and expired)


def _flush(cleaned: Segment, pending: bytearray) -> None:
    cleaned.file.append(bytes(pending))
    cleaned.size += len(pending)
    cleaned.length = cleaned.size
    pending.clear()
