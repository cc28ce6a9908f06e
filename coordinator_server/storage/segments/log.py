"""A log of segment files in Kafka's format: append, read, sync, truncate.

The coordinator's partitions and the topics use it. It does not depend on an event loop: a thread
calls `sync` while the event loop appends.
"""

import threading
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from coordinator_protocol.batch import BatchHeader, read_header, stamped
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_format import EntryBuffer
from coordinator_server.storage.segments.journaled import Journaled
from coordinator_server.storage.segments.log_identity import read_identity
from coordinator_server.storage.segments.log_reading import read_batches, walk_batches
from coordinator_server.storage.segments.recovery import accept_loss_command
from coordinator_server.storage.segments.segment import Segment, drop_indexes, segment_bases
from coordinator_server.storage.segments.segment_recovery import (
    check_first_segment,
    check_nothing_lost,
    restore_from_journal,
    rewrite_unsynced,
)
from coordinator_server.storage.segments.segment_writer import SegmentWriter
from coordinator_server.storage.segments.segments import OpenSegments, open_segments
from coordinator_server.storage.segments.swap import complete_compaction
from coordinator_server.storage.segments.threads import as_os_error

DEFAULT_SEGMENT_BYTES: Final = 1 << 30
DEFAULT_SEGMENT_MS: Final = 7 * 24 * 3_600_000


class SegmentLog(Journaled):
    """One directory `<topic>-<partition>`; offsets are those of records."""

    def __init__(
        self,
        directory: Path,
        *,
        files: Files = SYSTEM_FILES,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        segment_ms: int = DEFAULT_SEGMENT_MS,
        journal: Journal | None = None,
    ) -> None:
        """Create the directory if it is missing, replay the journal and recover the last segment.

        `cut_bytes` is the size of the torn tail that recovery cut. Raises CorruptLog, OSError.
        """
        self.directory = directory
        self.name = directory.name
        self._files = files
        self.segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._journal = journal
        self._synced_at_close: int | None = None
        """The end offset of the sync at close; None while the log is open or if the sync failed."""
        self.clean_offset = 0
        """Segments before this offset were compacted since the log was opened."""
        self.compactable = True
        """False after a rename of a compaction has failed, until the log is opened again."""
        self.closing = threading.Event()
        """Set by `close`; a running compaction stops when it is set."""
        self._compacting = threading.Lock()
        """Held for a whole compaction; `close` waits for it."""
        self.is_queued_for_write_out = False
        """Whether the segment writer has the log in its queue."""
        self.appended_bytes = 0
        """Bytes of all batches appended since the log was opened."""
        self.counted_bytes = 0
        """The part of `appended_bytes` that UnwrittenBytes has counted."""
        bases = self._prepare()
        is_journaled = journal is not None and journal.is_written
        self._entries = EntryBuffer(self.identity) if is_journaled else None
        """Batches for the next journal write; None without a journal."""
        self.end_offset = 0
        """The offset of the next record."""
        self._segments = OpenSegments(open_segments(files, directory, bases or [0]))
        self._writer = SegmentWriter(directory, files, self._segments)
        self.cut_bytes = self._open(anew=not bases)
        self._writer.reset(self.end_offset)
        self._safe_offset = self.end_offset
        """Every record before this offset is safe under the flush policy."""
        if journal is not None:
            try:
                journal.register(self, self.end_offset)
            except (Exception, CancelledError):
                self._segments.close()
                raise

    def _prepare(self) -> list[int]:
        """Prepare the directory and return the base offsets. Raises CorruptLog, OSError."""
        files, directory, journal = self._files, self.directory, self._journal
        files.make_directory(directory)
        complete_compaction(files, directory)
        bases = segment_bases(files, directory)
        self.identity = read_identity(files, directory)
        if journal is not None:
            check_nothing_lost(journal, self.identity, directory, bases)
            if journal.is_strict:
                check_first_segment(files, directory, bases)
        return bases

    def _open(self, *, anew: bool) -> int:
        """Recover the log and sync it; returns the bytes of the torn tail that was cut.

        Closes all files and raises CorruptLog or OSError if that fails.
        """
        # A killed process may have left the contents, the length and the name of the active segment
        # unsynced. The name is durable if a recovery point lies behind the segment's base offset.
        active, journal = self._segments.active, self._journal
        point = 0 if journal is None else journal.points.of(self.name)
        is_named = point > active.base_offset and active.size > 0
        try:
            cut = self._recover(anew=anew)
            self._read_first_timestamp()
            drop_indexes(self._files, self.directory)
            if active.size or not anew:
                active.file.sync()
            if not is_named or not active.size:
                self._sync_names()
        except (Exception, CancelledError):
            self._segments.close()
            raise
        return cut

    def _recover(self, *, anew: bool) -> int:
        """Replay the journal into the active segment; returns the bytes of the torn tail cut."""
        journal, active, point = self._journal, self._segments.active, 0
        if journal is not None:
            if anew and not (journal.is_strict and journal.is_expected(self.name)):
                journal.points.lower(self.name, 0)
            point = journal.points.of(self.name)
            restore_from_journal(active, journal, self.identity, point)
        # The recovery point may be of a deleted topic of the same name if the topic is unknown.
        is_strict = journal is not None and journal.is_strict and journal.is_expected(self.name)
        cut = active.recover(point, is_strict=is_strict)
        self.end_offset = active.end_offset
        rewrite_unsynced(self._files, active, point)
        if journal is not None:
            # The offsets from here on will be used again, by other records.
            journal.points.lower(self.name, self.end_offset)
        return cut

    def _read_first_timestamp(self) -> None:
        """Read the active segment's first timestamp, so that appends do not read the file."""
        if self._segments.active.length:
            self._segments.active.first_timestamp()

    def _sync_names(self) -> None:
        """Sync the directory and its parent, as a killed process may have left names unsynced."""
        self._files.sync_directory(self.directory)
        self._files.sync_directory(self.directory.parent)

    @property
    def failed(self) -> OSError | None:
        """The error that ended appends, if any; the log must be closed and opened again."""
        return self._writer.failed

    @property
    def is_open(self) -> bool:
        """See journaled.Journaled."""
        return self._writer.failed is None

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that were appended and are not in the segment files yet."""
        return self._writer.unwritten_bytes

    @property
    def durable_offset(self) -> int:
        """Every record before this offset is as safe as the flush policy requires."""
        writer = self._writer
        if writer.sync_failed and self._entries is None:
            # Unsynced writes may be lost already, and appends behind them would leave a gap.
            # Full segments count: a compaction may have dropped records for later ones in them.
            return max(writer.synced_offset, writer.full_synced_offset)
        return max(self._safe_offset, writer.synced_offset)

    @property
    def start_offset(self) -> int:
        """The base offset of the first segment."""
        return self._segments.all[0].base_offset

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.length for segment in self._segments.all)

    # --- writing ---

    def append(self, batch: bytes) -> int:
        """Buffer one batch at the end of the log and return the offset of its first record.

        The next flush writes it to the journal, or to the segment if there is no journal, so this
        method does not wait for a disk. Raises OSError if the log has failed.
        """
        header = read_header(batch)
        base_offset = self.end_offset
        data = stamped(batch, base_offset)
        self.append_built(data, header.last_offset_delta, header.max_timestamp)
        return base_offset

    def append_built(self, batch: bytes, last_offset_delta: int, max_timestamp: int) -> int:
        """Append a batch that was built at `end_offset` and return the new `end_offset`.

        Timestamps are in milliseconds.
        """
        writer, entries = self._writer, self._entries
        if writer.failed is not None:
            raise writer.failed
        active = self._segments.active
        if active.length and (
            active.length + len(batch) > self.segment_bytes
            or active.must_roll_before(last_offset_delta, max_timestamp, self._segment_ms)
        ):
            writer.roll(self.end_offset)
        end_offset = self.end_offset + last_offset_delta + 1
        try:
            writer.buffer_batch(batch, end_offset, max_timestamp)
            if entries is not None:
                entries.add(batch)
        except Exception as error:
            # A part of the batch may be buffered, so no other batch may follow.
            self.fail(as_os_error(error))
            raise
        self.appended_bytes += len(batch)
        self.end_offset = end_offset
        return end_offset

    def write_out(self) -> int:
        """Write the buffered batches to the segments and return the offset behind them.

        An OSError fails the log; acknowledged records are in the journal, if there is one.
        """
        return self._writer.write_out()

    def take_entries(self) -> list[bytes]:
        """Return the parts of the entries for the next journal write, and clear them."""
        return [] if self._entries is None else self._entries.take()

    def fail(self, error: OSError) -> None:
        """Refuse appends and syncs from now on, with the first error the log failed with."""
        self._writer.failed = self._writer.failed or error

    def mark_safe(self, offset: int) -> None:
        """Note that every record before an offset is safe under the flush policy."""
        self._safe_offset = max(self._safe_offset, offset)

    def sync(self) -> int:
        """Make everything appended before the call durable and return the offset behind it.

        An OSError fails the log; a sync is never retried.
        """
        return self._writer.sync()

    def probe(self, size: int) -> None:
        """Write, sync and cut `size` bytes, to test a disk that refused a write. Raises OSError."""
        with self._writer.exclusive_after_write():
            self._segments.active.probe(size)

    def truncate(self, offset: int) -> None:
        """Remove all records from `offset` on; a batch that contains `offset` goes as a whole."""
        with self._writer.exclusive_after_write():
            if self._journal is not None:
                self._journal.points.lower(self.name, offset)
            while len(self._segments.all) > 1 and self._segments.active.base_offset >= offset:
                segment = self._segments.drop_active()
                segment.file.close()
                self._files.remove(segment.path)
                # Sync after each removal: a crash must not leave a later segment without this one.
                self._files.sync_directory(self.directory)
            active = self._segments.active
            active.truncate(active.position_of(offset))
            active.end_offset = active.base_offset
            for _, header, _, _ in active.walk():
                active.end_offset = header.last_offset + 1
            self.end_offset = active.end_offset
            self._read_first_timestamp()
            active.file.sync()
            self._files.sync_directory(self.directory)
            self._writer.reset(self.end_offset)
            self._safe_offset = self.end_offset
            if self._entries is not None:
                # The journal gets the truncation too: a replay would bring the records back.
                self._entries.cut(self.end_offset)

    def sync_and_note(self) -> int | None:
        """See journaled.Journaled."""
        if self._synced_at_close is None and self.failed is None:
            with suppress(OSError):
                return self._writer.sync(self._note_recovery_point)
        if self._synced_at_close is not None:
            self._note_recovery_point(self._synced_at_close)
        return self._synced_at_close

    def _note_recovery_point(self, synced: int) -> None:
        """Note the recovery point, while no truncation can run."""
        if self._journal is not None:
            self._journal.note_recovery_point(self.name, self, synced)

    def close(self) -> None:
        """Sync the log, unless it has failed, and close its files. Blocks."""
        self.closing.set()
        with self._compacting:
            self._synced_at_close = self.sync_and_note()
            self._writer.close()
        self.fail(OSError(f"{self.directory} is closed"))

    # --- reading ---

    def read(self, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Read whole batches from the one with `offset`, as long as they end before `up_to`.

        Returns at least one batch, however large, of one segment only; nothing at the end of the
        log. Raises CorruptLog, OSError.
        """
        with self._reading() as segments:
            return read_batches(segments, offset, max_bytes, up_to)

    def batches(self, since: int | None = None) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """Yield the header of every batch, the chunk with the batch and its position in the chunk.

        Checksums are checked. `since` (ms) skips segments known to have only older records.
        Raises CorruptLog, OSError.
        """
        with self._reading() as segments:
            yield from walk_batches(segments, since, self.check_contiguous)

    def check_contiguous(self, end: int, following: int) -> None:
        """Raise CorruptLog if records are missing between the end of a segment and the next one.

        Our compaction ends an emptied range with an empty batch. Kafka's does not, so a directory
        that a broker has used may have gaps.
        """
        journal = self._journal
        if journal is None or journal.allows_gaps or end == following:
            return
        raise CorruptLog(
            f"{self.directory}: a segment ends at offset {end}, but the next one begins with "
            f"{following}: records in between are lost",
            accept_loss_command(self.directory.parent),
        )

    def latest_known(self, up_to: int) -> int | None:
        """The largest timestamp (ms) in the indexed segments before an offset; None without any."""
        return self._segments.latest_known(up_to)

    @contextmanager
    def _reading(self) -> Iterator[list[Segment]]:
        """Keep the segments open for reading, with every appended batch in their files."""
        segments = self.begin_reading()
        try:
            yield segments
        finally:
            self.end_reading()

    def begin_reading(self) -> list[Segment]:
        """Write out and return the segments, open until `end_reading`. Raises OSError."""
        segments = self._segments.begin_reading()
        try:
            self.write_out()
        except (Exception, CancelledError):
            self._segments.end_reading()
            raise
        return segments

    def end_reading(self) -> None:
        """End a read that `begin_reading` began."""
        self._segments.end_reading()

    # --- compaction ---

    @contextmanager
    def compacting(self) -> Iterator[Files]:
        """Exclude `close` and other compactions. Raises OSError if the log has failed."""
        with self._compacting:
            if self.failed is not None:
                raise self.failed
            yield self._files

    def closed_segments(self) -> list[Segment]:
        """Return the durable segments before the active one; they do not change any more.

        Raises OSError.
        """
        closed = self._segments.closed()
        self.write_out()
        # A record that may still be truncated must not replace an acknowledged one.
        durable = self.durable_offset
        return [segment for segment in closed if segment.end_offset <= durable]

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Use a compacted segment in place of the segments whose files it has replaced."""
        self._segments.replace(old, new)

    @property
    def base_offsets(self) -> list[int]:
        """The base offset of every segment."""
        return [segment.base_offset for segment in self._segments.all]

    @property
    def closed_bytes(self) -> int:
        """Bytes in the segments before the active one."""
        return self._segments.closed_bytes()

    @property
    def dirty_bytes(self) -> int:
        """Bytes in the durable segments before the active one that were not compacted yet."""
        return self._segments.dirty_bytes(self.clean_offset, self.durable_offset)
