"""One segment file of a log, and a sparse index of it in memory."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from coordinator_protocol.batch import (
    HEADER_BYTES,
    BatchHeader,
    batch_length,
    check_crc,
    read_header,
)
from coordinator_protocol.errors import Malformed
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import NO_FILE, File, Files
from coordinator_server.storage.segments.recovery import accept_loss_command

INDEX_INTERVAL_BYTES: Final = 4_096
SECTOR_BYTES: Final = 512
"""Disks write a sector whole or not at all."""
LARGEST_DELTA: Final = (1 << 31) - 1
MAX_LOST_BYTES: Final = 16 * 1024 * 1024
MAGIC: Final = b"\x02"
MAGIC_AT: Final = 16
CHUNK_BYTES: Final = 256 * 1024
SUFFIX: Final = ".log"
_OFFSET_GOES_BACK: Final = "offset"
_UNKNOWN: Final = -2
"""Not read yet; records without a timestamp have -1."""

_INDEXES: Final = (".index", ".timeindex", ".txnindex")
INDEX_SUFFIXES: Final = (*_INDEXES, *(index + ".swap" for index in _INDEXES))


def file_name(base_offset: int) -> str:
    """Kafka's name of a segment."""
    return f"{base_offset:020d}{SUFFIX}"


class Segment:
    """The batches from `base_offset` on; positions are bytes in the file."""

    __slots__ = (
        "_buffered",
        "_first_timestamp",
        "_indexed",
        "_next_indexed",
        "base_offset",
        "end_offset",
        "file",
        "index",
        "latest_timestamp",
        "length",
        "path",
        "size",
    )

    def __init__(
        self, files: Files | None, directory: Path, base_offset: int, suffix: str = ""
    ) -> None:
        """Open the file; without `files`, `make_file` does it later. Raises OSError."""
        self.base_offset = base_offset
        self.end_offset = base_offset
        """The offset behind the last known batch."""
        self.path = directory / (file_name(base_offset) + suffix)
        self.file: File = NO_FILE if files is None else files.open(self.path)
        self.size = self.file.size()
        """Bytes in the file."""
        self.length = self.size
        """Bytes in the file and in buffered batches."""
        self._buffered: list[bytes] = []
        self.index: list[tuple[int, int]] = []
        """Base offset and position of a batch every few kilobytes."""
        self._indexed = 0
        self._next_indexed = 0
        """Batches from this position on get an index entry."""
        self._first_timestamp = _UNKNOWN
        self.latest_timestamp: int | None = None
        """The largest timestamp (ms) of all batches; None until all were read."""

    def make_file(self, files: Files) -> None:
        """Create the file of a segment that was made without one. Raises OSError."""
        self.file = files.open(self.path)

    def buffer_batch(self, batch: bytes, end_offset: int, max_timestamp: int) -> None:
        """Buffer a batch for `write_out`, which must run before the batch can be read.

        `end_offset` is set last: a thread that sees it also sees the batch.
        """
        length = self.length
        if not length:
            self._first_timestamp = max_timestamp
        if length >= self._next_indexed:
            self._index_batch(self.end_offset, length)
        self.length = length + len(batch)
        self._buffered.append(batch)
        self.end_offset = end_offset

    def write_out(self) -> bool:
        """Write the buffered batches; returns False if there were none.

        Another thread may buffer more meanwhile. After an error the file is cut to its old size, if
        that is possible. Raises OSError.
        """
        batches = self._buffered[:]
        if batches:
            self._write(b"".join(batches))
            del self._buffered[: len(batches)]
        return bool(batches)

    def discard_buffered(self) -> None:
        """Drop the buffered batches, which will not be written any more."""
        self._buffered.clear()

    def _write(self, data: bytes) -> None:
        try:
            self.file.append(data)
        except BaseException:
            self.file.truncate(self.size)
            raise
        self.size += len(data)

    def recover(self, point: int = 0, *, is_strict: bool = False) -> int:
        """Cut the tail that a crash has torn; returns the number of bytes cut.

        Batches before the recovery point were synced; their checksums are checked when they are
        loaded. An unreadable batch with intact ones behind it is damage, which is not cut, unless
        sectors of it never reached the disk. With `is_strict` the segment must reach the recovery
        point, as the records before it were acknowledged. Raises CorruptLog, OSError.
        """
        at, fault = self._index_intact(point)
        if is_strict and fault.startswith(_OFFSET_GOES_BACK):
            # The batch is intact, so it is not torn: an offset is damaged.
            raise CorruptLog(f"{self.path}, position {at}: {fault}")
        if is_strict and self.end_offset < point:
            why = f": {fault}" if at < self.size else ""
            raise CorruptLog(
                f"{self.path} ends at offset {self.end_offset}, position {at}{why}; records up to "
                f"offset {point} were synced (recovery-point-offset-checkpoint)",
                accept_loss_command(self.path.parent.parent),
            )
        if at < self.size and self.end_offset < point:
            # The recovery point or the segment is wrong, so check every batch.
            self.end_offset = self.base_offset
            self.index.clear()
            at, fault = self._index_intact(0)
        if at == self.size:
            return 0
        following = self._next_intact(at)
        if following is not None and not self._lost_sectors(at, following):
            raise CorruptLog(
                f"{self.path}, position {at}: {fault}; the batch at {following} can be read"
            )
        cut = self.size - at
        self.truncate(at)
        return cut

    def _index_intact(self, point: int) -> tuple[int, str]:
        """Index the batches up to the first unreadable one; returns its position and the reason."""
        at = 0
        try:
            for position, header, chunk, offset in self.walk():
                if header.last_offset >= point:
                    self._check(position, header, chunk, offset)
                if header.base_offset < self.end_offset:
                    return (
                        at,
                        f"{_OFFSET_GOES_BACK} {header.base_offset}, expected {self.end_offset}",
                    )
                self._index_batch(header.base_offset, position)
                self.end_offset = header.last_offset + 1
                at = position + header.size
        except CorruptLog as error:
            return at, str(error.__context__)
        return at, "the batch is longer than what is there"

    def _next_intact(self, at: int) -> int | None:
        """Find the position of the next intact batch behind an unreadable one."""
        position = at + 1
        while position + HEADER_BYTES <= self.size:
            window = self.file.read(position, CHUNK_BYTES + HEADER_BYTES)
            found = window.find(MAGIC, MAGIC_AT)
            while 0 <= found - MAGIC_AT < CHUNK_BYTES:
                if self._is_intact(position + found - MAGIC_AT):
                    return position + found - MAGIC_AT
                found = window.find(MAGIC, found + 1)
            position += CHUNK_BYTES
        return None

    def _is_intact(self, at: int) -> bool:
        try:
            header = read_header(self.file.read(at, HEADER_BYTES))
            if not 0 <= header.base_offset - self.end_offset <= LARGEST_DELTA:
                return False
            check_crc(header, self.file.read(at, min(header.size, self.size - at)))
        except Malformed:
            return False
        return True

    def _lost_sectors(self, begin: int, end: int) -> bool:
        """Whether a sector between two positions reads as zeros, so that it was never written.

        Of the first sector only the bytes of the batch count. A batch begins with zeros too, but
        its known offset and its length, which is never zero, limit how many. The last sector counts
        with its part of the next batch, which also begins with zeros.
        """
        end += -end % SECTOR_BYTES
        lost = self.file.read(begin, min(end - begin, MAX_LOST_BYTES))
        first = SECTOR_BYTES - begin % SECTOR_BYTES
        known = self.end_offset.to_bytes(8, "big") + b"\0\0\0\x01"
        if not any(lost[:first]) and any(known[:first]) and first <= len(lost):
            return True
        zeros = bytes(SECTOR_BYTES)
        starts = range(first, len(lost) - SECTOR_BYTES + 1, SECTOR_BYTES)
        return any(lost[start : start + SECTOR_BYTES] == zeros for start in starts)

    def walk(
        self, at: int = 0, *, checked: bool = False
    ) -> Iterator[tuple[int, BatchHeader, bytes, int]]:
        """Yield position, header, chunk and position in the chunk of every batch from `at` on.

        An incomplete batch at the end is left out. Raises CorruptLog.
        """
        chunk, start = b"", at
        while at < self.size:
            offset = at - start
            if len(chunk) - offset < HEADER_BYTES or (
                len(chunk) - offset < batch_length(chunk, offset)
            ):
                chunk, start, offset = self._chunk(at), at, 0
                if len(chunk) < HEADER_BYTES or len(chunk) < batch_length(chunk):
                    return
            try:
                header = read_header(chunk, offset)
            except Malformed as error:
                raise CorruptLog(f"{self.path}, position {at}: {error}") from error
            if checked:
                self._check(at, header, chunk, offset)
            yield at, header, chunk, offset
            at += header.size

    def _check(self, position: int, header: BatchHeader, chunk: bytes, offset: int) -> None:
        try:
            check_crc(header, chunk, offset)
        except Malformed as error:
            raise CorruptLog(f"{self.path}, position {position}: {error}") from error

    def _chunk(self, at: int) -> bytes:
        """Read bytes from a position; at least one batch, unless it is incomplete."""
        chunk = self.file.read(at, min(CHUNK_BYTES, self.size - at))
        if len(chunk) >= HEADER_BYTES:
            length = batch_length(chunk)
            if len(chunk) < length <= self.size - at:
                chunk = self.file.read(at, length)
        return chunk

    def block(self, at: int) -> bytes:
        """Read whole batches from a position, without checks; at least one unless incomplete."""
        chunk = self._chunk(at)
        end = 0
        while len(chunk) - end >= HEADER_BYTES:
            length = batch_length(chunk, end)
            if length < HEADER_BYTES:
                # Damage: the caller raises CorruptLog when it reads the header.
                return chunk
            if end + length > len(chunk):
                break
            end += length
        return chunk[:end]

    def read(self, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Read whole batches from the one with `offset`, at least one, that end before `up_to`."""
        self._index_all()
        at = self.indexed_position(offset)
        begin = end = -1
        for position, header, _chunk, _ in self.walk(at):
            if header.last_offset < offset:
                continue
            if header.last_offset >= up_to:
                break
            if begin < 0:
                begin = end = position
            elif position + header.size - begin > max_bytes:
                break
            end = position + header.size
        return b"" if begin < 0 else self.file.read(begin, end - begin)

    def indexed_position(self, offset: int) -> int:
        """The indexed position of the batch with an offset, or of one shortly before it."""
        entry = bisect_right(self.index, (offset, self.size)) - 1
        return self.index[entry][1] if entry >= 0 else 0

    def rewrite(self, position: int, batches: Sequence[bytes]) -> None:
        """Replace everything from a position on by batches. Raises OSError."""
        self.truncate(position)
        self.file.append(b"".join(batches))
        self.size = self.length = self.file.size()

    def position_after(
        self, offset: int, checked_from: int | None = None, *, exactly: bool = False
    ) -> int | None:
        """The position behind the batches before an offset; None if they end before it.

        With `exactly` a batch must end at the offset: a batch behind it may have a damaged offset,
        which no checksum covers. Checksums of batches with records from `checked_from` on are
        checked. Bytes behind the position are not read, as they may be torn. Raises CorruptLog.
        """
        if offset <= self.base_offset:
            return 0
        for position, header, chunk, at in self.walk():
            if checked_from is not None and header.last_offset >= checked_from:
                self._check(position, header, chunk, at)
            if header.base_offset >= offset:
                return None if exactly else position
            if header.last_offset + 1 >= offset:
                is_there = header.last_offset + 1 == offset or not exactly
                return position + header.size if is_there else None
        return None

    def must_roll_before(self, last_offset_delta: int, max_timestamp: int, longest_ms: int) -> bool:
        """Whether a batch must begin the next segment (Kafka's LogSegment.shouldRoll).

        Relative offsets have 32 bits, and `longest_ms` bounds the time between the records.
        """
        if self.end_offset + last_offset_delta - self.base_offset > LARGEST_DELTA:
            return True
        began = self._first_timestamp
        if began == _UNKNOWN:
            began = self.first_timestamp()
        return began >= 0 and max_timestamp - began > longest_ms

    def first_timestamp(self) -> int:
        """The largest timestamp (ms) of the first batch; the segment must not be empty.

        Reads the file the first time, so the log calls it before the event loop appends.
        """
        if self._first_timestamp == _UNKNOWN:
            self._first_timestamp = read_header(self.file.read(0, HEADER_BYTES)).max_timestamp
        return self._first_timestamp

    def may_reach(self, timestamp: int | None) -> bool:
        """Whether the segment may have a record that is not older; None means any record."""
        return (
            timestamp is None or self.latest_timestamp is None or self.latest_timestamp >= timestamp
        )

    def position_of(self, offset: int) -> int:
        """The position of the first batch with `offset` or a later one."""
        for position, header, _, _ in self.walk():
            if header.last_offset >= offset:
                return position
        return self.size

    def truncate(self, size: int) -> None:
        """Cut the file to a size, drop buffered batches and reset the index behind it."""
        self.file.truncate(size)
        self.size = self.length = size
        self._buffered.clear()
        self._first_timestamp = _UNKNOWN
        self.latest_timestamp = None
        self.index = [entry for entry in self.index if entry[1] < size]
        self._indexed = min(self._indexed, size)
        self._next_indexed = 0

    def probe(self, size: int) -> None:
        """Write and sync zeros at the end and cut them; a crash in between leaves a torn tail."""
        try:
            self.file.append(bytes(size))
            self.file.sync()
        finally:
            self.file.truncate(self.size)
        self.file.sync()

    def _index_batch(self, base_offset: int, position: int) -> None:
        if not self.index or position - self.index[-1][1] >= INDEX_INTERVAL_BYTES:
            self.index.append((base_offset, position))
            self._next_indexed = position + INDEX_INTERVAL_BYTES
        self._indexed = position + 1

    def _index_all(self) -> None:
        """Index a segment that was not walked when it was opened."""
        if self._indexed == 0 and self.size:
            for position, header, _, _ in self.walk():
                self._index_batch(header.base_offset, position)
                self.end_offset = header.last_offset + 1


def segment_bases(files: Files, directory: Path) -> list[int]:
    """The base offsets of a log's segments. Raises CorruptLog, OSError."""
    names = [name for name in files.names(directory) if name.endswith(SUFFIX)]
    for name in names:
        if not name.removesuffix(SUFFIX).isdecimal():
            raise CorruptLog(f"{directory / name}: expected a number as the name of a segment")
    return sorted(int(name.removesuffix(SUFFIX)) for name in names)


def drop_indexes(files: Files, directory: Path) -> None:
    """Remove Kafka's index files, which our appends would make stale; Kafka rebuilds them."""
    for name in files.names(directory):
        if name.endswith(INDEX_SUFFIXES):
            files.remove(directory / name)
