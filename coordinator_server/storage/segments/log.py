"""A log of segment files in Kafka's format: append, read, sync, cut.

Used by the coordinator's partitions and by topics alike. Nothing here knows an event loop: `sync`
is called in a thread, while appends go on.
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
        """Open the log of a directory, which is made if need be, and recover its last segment.

        First it gets what the journal has of it. `cut_bytes` then says how long a torn tail was.
        Raises CorruptLog, OSError.
        """
        self.directory = directory
        self.name = directory.name
        self._files = files
        self.segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._journal = journal
        self._synced_at_close: int | None = None
        """Where the log ended when it was closed and synced."""
        self.clean_offset = 0
        """Compacted up to here in this life of the log; a restart looks at everything once more."""
        self.compactable = True
        """Not after the renames of a compaction have failed: opening the log sorts them out."""
        self.closing = threading.Event()
        """Whoever compacts the log gives up when it is set."""
        self._compacting = threading.Lock()
        """Held for a whole compaction; closing waits for it."""
        self.is_queued_for_write_out = False
        """Whether the flusher is going to write to the segment what it may lack."""
        self.appended_bytes = 0
        """Of all batches since it was opened."""
        self.counted_bytes = 0
        """Of these, those that the flusher knows of."""
        bases = self._prepare()
        is_journaled = journal is not None and journal.is_written
        self._entries = EntryBuffer(self.identity) if is_journaled else None
        """What the journal does not have yet; None without one."""
        self.end_offset = 0
        """The offset the next record will have."""
        self._segments = OpenSegments(open_segments(files, directory, bases or [0]))
        self._writer = SegmentWriter(directory, files, self._segments)
        self.cut_bytes = self._open(anew=not bases)
        self._writer.reset(self.end_offset)
        self._safe_offset = self.end_offset
        """Everything before is safe under the policy."""
        if journal is not None:
            try:
                journal.register(self, self.end_offset)
            except (Exception, CancelledError):
                self._segments.close()
                raise

    def _prepare(self) -> list[int]:
        """Make or complete the directory; where its segments begin. Raises CorruptLog, OSError."""
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
        """Recover what is there and make it durable; returns the bytes of a torn tail cut then.

        Raises CorruptLog, OSError; no file is open then.
        """
        # A process that was killed may have left in memory what the active segment has, and that it
        # was cut; and its name, unless a recovery point says that records in it were synced.
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
        """Give the active segment what the journal has of it; bytes of the torn tail cut then."""
        journal, active, point = self._journal, self._segments.active, 0
        if journal is not None:
            if anew and not (journal.is_strict and journal.is_expected(self.name)):
                journal.points.lower(self.name, 0)
            point = journal.points.of(self.name)
            restore_from_journal(active, journal, self.identity, point)
        # Without its topic the point may be that of a deleted log of the same name.
        is_strict = journal is not None and journal.is_strict and journal.is_expected(self.name)
        cut = active.recover(point, is_strict=is_strict)
        self.end_offset = active.end_offset
        rewrite_unsynced(self._files, active, point)
        if journal is not None:
            # Records of other writes will have the offsets from here on.
            journal.points.lower(self.name, self.end_offset)
        return cut

    def _read_first_timestamp(self) -> None:
        """Read from the active segment what appends, on the event loop, decide by."""
        if self._segments.active.length:
            self._segments.active.first_timestamp()

    def _sync_names(self) -> None:
        """Make the names durable that a killed process may have left in memory."""
        self._files.sync_directory(self.directory)
        self._files.sync_directory(self.directory.parent)

    @property
    def failed(self) -> OSError | None:
        """Why nothing can be appended any more; the log must be closed and opened again."""
        return self._writer.failed

    @property
    def is_open(self) -> bool:
        """See journaled.Journaled."""
        return self._writer.failed is None

    @property
    def unwritten_bytes(self) -> int:
        """What was appended and is only in memory, as far as segments go."""
        return self._writer.unwritten_bytes

    @property
    def durable_offset(self) -> int:
        """Everything before it is safe: on disk, or in the journal or file as the policy asks."""
        writer = self._writer
        if writer.sync_failed and self._entries is None:
            # What was only written may be lost already: to go on behind it would leave a gap.
            # Full segments are safe: a compaction may have dropped records for later ones in them.
            return max(writer.synced_offset, writer.full_synced_offset)
        return max(self._safe_offset, writer.synced_offset)

    @property
    def start_offset(self) -> int:
        """The first offset there is, or would be."""
        return self._segments.all[0].base_offset

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.length for segment in self._segments.all)

    # --- writing ---

    def append(self, batch: bytes) -> int:
        """Put one batch at the end and return the offset of its first record.

        It is kept back in memory: the journal gets it next, or the segment where there is none, so
        nothing here waits for a disk. Raises OSError if the log has failed.
        """
        header = read_header(batch)
        base_offset = self.end_offset
        data = stamped(batch, base_offset)
        self.append_built(data, header.last_offset_delta, header.max_timestamp)
        return base_offset

    def append_built(self, batch: bytes, last_offset_delta: int, max_timestamp: int) -> int:
        """As `append`, of a batch that was built at `end_offset`; where the log ends then.

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
            # Half of it may be there, and must not come before another batch.
            self.fail(as_os_error(error))
            raise
        self.appended_bytes += len(batch)
        self.end_offset = end_offset
        return end_offset

    def write_out(self) -> int:
        """Write to the segments what was kept back; up to which offset everything is there then.

        Raises OSError. The log has failed then: with a journal, what was acknowledged is in there.
        """
        return self._writer.write_out()

    def take_entries(self) -> list[bytes]:
        """What the journal does not have yet, as entries in parts; it is taken to have it."""
        return [] if self._entries is None else self._entries.take()

    def fail(self, error: OSError) -> None:
        """Take and sync no more: the journal could not take entries, or the log is deleted."""
        self._writer.failed = self._writer.failed or error

    def mark_safe(self, offset: int) -> None:
        """Everything before an offset is safe under the policy: the journal or the file has it."""
        self._safe_offset = max(self._safe_offset, offset)

    def sync(self) -> int:
        """Make everything appended before the call durable; where that ends. Raises OSError.

        After a failure there is no second try, the log has failed.
        """
        return self._writer.sync()

    def probe(self, size: int) -> None:
        """Prove that so many bytes can be written and synced, and take them back.

        For a log that could not be written before. Raises OSError.
        """
        with self._writer.exclusive_after_write():
            self._segments.active.probe(size)

    def truncate(self, offset: int) -> None:
        """Cut the log so that `offset` comes next; a batch that straddles it goes as a whole."""
        with self._writer.exclusive_after_write():
            if self._journal is not None:
                self._journal.points.lower(self.name, offset)
            while len(self._segments.all) > 1 and self._segments.active.base_offset >= offset:
                segment = self._segments.drop_active()
                segment.file.close()
                self._files.remove(segment.path)
                # One by one: were an older one gone and a later one not, there would be a gap.
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
                # Or a replay would bring back what the journal has beyond.
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
        """Note the recovery point; a cut, which lowers it, comes before or after both."""
        if self._journal is not None:
            self._journal.note_recovery_point(self.name, self, synced)

    def close(self) -> None:
        """Sync what is left, unless the log has failed, and close the files. Blocks."""
        self.closing.set()
        with self._compacting:
            self._synced_at_close = self.sync_and_note()
            self._writer.close()
        self.fail(OSError(f"{self.directory} is closed"))

    # --- reading ---

    def read(self, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Whole batches from the one with `offset` on, none that reaches `up_to` or beyond.

        At least one batch, however large; of one segment only. Empty at the end of the log.
        Raises CorruptLog, OSError.
        """
        with self._reading() as segments:
            return read_batches(segments, offset, max_bytes, up_to)

    def batches(self, since: int | None = None) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """Header of every batch, the chunk with it and where in it; checked.

        With `since` (ms), segments that were walked before and have only older records are left
        out. Raises CorruptLog, OSError.
        """
        with self._reading() as segments:
            yield from walk_batches(segments, since, self.check_contiguous)

    def check_contiguous(self, end: int, following: int) -> None:
        """Raise CorruptLog if records are missing between the end of a segment and the next one.

        A compaction here leaves an empty batch at the end of what it has emptied; one of a broker
        does not, so where a broker was there may be gaps.
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
        """The largest timestamp (ms) there is for sure before an offset: of segments walked before.

        None if that is not known of any.
        """
        return self._segments.latest_known(up_to)

    @contextmanager
    def _reading(self) -> Iterator[list[Segment]]:
        """The segments, with all that was appended."""
        # Written now, so that none but the last one changes any more.
        segments = self.begin_reading()
        try:
            yield segments
        finally:
            self.end_reading()

    def begin_reading(self) -> list[Segment]:
        """The segments, with all that was appended, open until `end_reading`. Raises OSError."""
        segments = self._segments.begin_reading()
        try:
            self.write_out()
        except (Exception, CancelledError):
            self._segments.end_reading()
            raise
        return segments

    def end_reading(self) -> None:
        """Let go of them."""
        self._segments.end_reading()

    # --- compaction ---

    @contextmanager
    def compacting(self) -> Iterator[Files]:
        """Let nobody close the log or compact it too. Raises OSError if it is closed."""
        with self._compacting:
            if self.failed is not None:
                raise self.failed
            yield self._files

    def closed_segments(self) -> list[Segment]:
        """Those before the active one that are durable, with their ends known; they never change.

        Raises OSError.
        """
        closed = self._segments.closed()
        self.write_out()
        # Records that may still be cut must not take the place of acknowledged ones.
        durable = self.durable_offset
        return [segment for segment in closed if segment.end_offset <= durable]

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Go on with a compacted segment, which has taken the names of others, in their place."""
        self._segments.replace(old, new)

    @property
    def base_offsets(self) -> list[int]:
        """Where the segments begin."""
        return [segment.base_offset for segment in self._segments.all]

    @property
    def closed_bytes(self) -> int:
        """Bytes in all segments but the active one."""
        return self._segments.closed_bytes()

    @property
    def dirty_bytes(self) -> int:
        """Bytes in those of them that are durable and were not compacted yet."""
        return self._segments.dirty_bytes(self.clean_offset, self.durable_offset)
