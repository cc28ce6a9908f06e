"""A log of segment files in Kafka's format: append, read, sync, cut.

Used by the coordinator's partitions and by topics alike. Nothing here knows an event loop: `sync`
is called in a thread, while appends go on.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from threading import Event, Lock
from typing import Final

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.frames import Entries
from coordinator_server.storage.segments.identity import read_identity
from coordinator_server.storage.segments.journal import Journal, Journaled
from coordinator_server.storage.segments.restore import restore
from coordinator_server.storage.segments.segment import Segment, drop_indexes, segment_bases
from coordinator_server.storage.segments.segments import OpenSegments
from coordinator_server.storage.segments.swap import complete
from coordinator_server.storage.segments.writing import SegmentWriter
from protocol.batch import BatchHeader, read_header, stamped

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
        self._settled: int | None = None
        """Where the log ended when it was closed and synced."""
        self.clean_offset = 0
        """Compacted up to here in this life of the log; a restart looks at everything once more."""
        self.compactable = True
        """Not after the renames of a compaction have failed: opening the log sorts them out."""
        self.closing = Event()
        """Whoever compacts the log gives up when it is set."""
        self._compacting = Lock()
        """Held for a whole compaction; closing waits for it."""
        self.is_kept_back = False
        """Whether the flusher is going to write to the segment what it may lack."""
        files.make_directory(directory)
        complete(files, directory)
        bases = segment_bases(files, directory)
        self.identity = read_identity(files, directory)
        is_journaled = journal is not None and journal.is_written
        self._entries = Entries(self.identity) if is_journaled else None
        """What the journal does not have yet; None without one."""
        self.end_offset = 0
        """The offset the next record will have."""
        self._segments = OpenSegments([Segment(files, directory, base) for base in bases or [0]])
        self._writer = SegmentWriter(directory, files, self._segments)
        self.cut_bytes = self._open(anew=not bases)
        self._writer.begin_anew(self.end_offset)
        self._journaled = self.end_offset
        """The journal has everything before."""
        if journal is not None:
            try:
                journal.opened(self, self.end_offset)
            except OSError:
                self._segments.close()
                raise

    def _open(self, *, anew: bool) -> int:
        """Recover what is there and make it durable; returns the bytes of a torn tail cut then.

        Raises CorruptLog, OSError; no file is open then.
        """
        try:
            cut = self._recover(anew=anew)
            drop_indexes(self._files, self.directory)
            self._sync_found(cut)
        except BaseException:
            self._segments.close()
            raise
        return cut

    def _recover(self, *, anew: bool) -> int:
        """Give the active segment what the journal has of it; bytes of the torn tail cut then."""
        journal, active, point = self._journal, self._segments.active, 0
        if journal is not None:
            if anew:
                journal.points.lower(self.name, 0)
            point = journal.points.of(self.name)
            restore(active, journal, self.identity, point)
        cut = active.recover(point)
        self.end_offset = active.end_offset
        if journal is not None:
            # Records of other writes will have the offsets from here on.
            journal.points.lower(self.name, self.end_offset)
        return cut

    def _sync_found(self, cut_bytes: int) -> None:
        """Make durable what was found: a process that was killed may have left it in memory.

        Only the active segment can be unsynced, and only its name while it is empty.
        """
        active = self._segments.active
        if active.size or cut_bytes:
            active.file.sync()
        if not active.size:
            self._files.sync_directory(self.directory)
            self._files.sync_directory(self.directory.parent)

    @property
    def failed(self) -> OSError | None:
        """Why nothing can be appended any more; the log must be closed and opened again."""
        return self._writer.failed

    @property
    def durable_offset(self) -> int:
        """Everything before it is durable."""
        return max(self._journaled, self._writer.synced_offset)

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

        It is durable after `sync`, or when the journal has it. With a journal it is kept back: the
        journal gets it first, the segment soon. Raises OSError; nothing has been appended then.
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
            or active.is_to_end(last_offset_delta, max_timestamp, self._segment_ms)
        ):
            if entries is None:
                writer.roll(self.end_offset)
            else:
                writer.roll_later(self.end_offset)
        end_offset = self.end_offset + last_offset_delta + 1
        if entries is None:
            writer.append(batch, end_offset)
        else:
            writer.keep_back(batch, end_offset, max_timestamp)
            entries.add(batch)
        self.end_offset = end_offset
        return end_offset

    def write_out(self) -> int:
        """Write to the segments what was kept back; up to which offset everything is there then.

        Raises OSError. The log has failed then: what was acknowledged is in the journal alone.
        """
        return self._writer.write_out()

    def take_entries(self) -> list[bytes]:
        """What the journal does not have yet, as entries in parts; it is taken to have it."""
        return [] if self._entries is None else self._entries.take()

    def give_up(self, error: OSError) -> None:
        """Take and sync no more: the journal could not take entries, or the log is deleted."""
        self._writer.failed = self._writer.failed or error

    def journaled(self, offset: int) -> None:
        """The journal has everything before an offset."""
        self._journaled = max(self._journaled, offset)

    def sync(self) -> int:
        """Make everything appended before the call durable; where that ends. Raises OSError.

        After a failure there is no second try, the log has failed.
        """
        return self._writer.sync()

    def probe(self, size: int) -> None:
        """Prove that so many bytes can be written and synced, and take them back.

        For a log that could not be written before. Raises OSError.
        """
        with self._writer.written_out():
            self._segments.active.probe(size)

    def truncate(self, offset: int) -> None:
        """Cut the log so that `offset` comes next; a batch that straddles it goes as a whole."""
        with self._writer.written_out():
            if self._journal is not None:
                self._journal.points.lower(self.name, offset)
            while len(self._segments.all) > 1 and self._segments.active.base_offset >= offset:
                segment = self._segments.drop_active()
                segment.file.close()
                self._files.remove(segment.path)
            active = self._segments.active
            active.truncate(active.position_of(offset))
            active.end_offset = active.base_offset
            for _, header, _, _ in active.walk():
                active.end_offset = header.last_offset + 1
            self.end_offset = active.end_offset
            active.file.sync()
            self._files.sync_directory(self.directory)
            self._writer.begin_anew(self.end_offset)
            self._journaled = self.end_offset
            if self._entries is not None:
                # Or a replay would bring back what the journal has beyond.
                self._entries.cut(self.end_offset)

    def settle(self) -> int | None:
        """See journal.Journaled."""
        if self._settled is None and self.failed is None:
            with suppress(OSError):
                return self.sync()
        return self._settled

    def close(self) -> None:
        """Sync what is left, unless the log has failed, and close the files. Blocks."""
        self.closing.set()
        with self._compacting:
            self._settled = self.settle()
            if self._settled is not None and self._journal is not None:
                self._journal.points.note(self.name, self._settled)
            self._writer.close()
        self.give_up(OSError(f"{self.directory} is closed"))

    # --- reading ---

    def read(self, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Whole batches from the one with `offset` on, none that reaches `up_to` or beyond.

        At least one batch, however large; of one segment only. Empty at the end of the log.
        Raises CorruptLog, OSError.
        """
        with self._reading() as segments:
            for segment, following in zip(segments, [*segments[1:], None], strict=True):
                if following is not None and following.base_offset <= offset:
                    continue
                if records := segment.read(offset, max_bytes, up_to):
                    return records
        return b""

    def batches(self, since: int | None = None) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """Header of every batch, the chunk with it and where in it; checked.

        With `since` (ms), segments that were walked before and have only older records are left
        out. Raises CorruptLog, OSError.
        """
        with self._reading() as segments:
            last = segments[-1]
            for segment in [each for each in segments if each is last or each.may_reach(since)]:
                at, latest = 0, segment.latest_timestamp
                for position, header, chunk, offset in segment.walk(checked=True):
                    yield header, chunk, offset
                    at = position + header.size
                    if latest is None or header.max_timestamp > latest:
                        latest = header.max_timestamp
                if segment is not last:
                    if at < segment.size:
                        raise CorruptLog(
                            f"{segment.path}, position {at}: the segment ends in a batch"
                        )
                    segment.latest_timestamp = latest

    def latest_known(self, up_to: int) -> int | None:
        """The largest timestamp (ms) there is for sure before an offset: of segments walked before.

        None if that is not known of any.
        """
        segments = self._segments.all
        known = [
            segment.latest_timestamp
            for segment, following in pairwise(segments)
            if following.base_offset <= up_to and segment.latest_timestamp is not None
        ]
        return max(known, default=None)

    @contextmanager
    def _reading(self) -> Iterator[list[Segment]]:
        """The segments, with all that was appended."""
        with self._segments.reading() as segments:
            # Now, so that none but the last one changes any more.
            self.write_out()
            yield segments

    # --- compaction ---

    @contextmanager
    def compacting(self) -> Iterator[Files]:
        """Let nobody close the log or compact it too. Raises OSError if it is closed."""
        with self._compacting:
            if self.failed is not None:
                raise self.failed
            yield self._files

    def closed_segments(self) -> list[Segment]:
        """Those before the active one, with their ends known; they never change. Raises OSError."""
        closed = self._segments.closed()
        self.write_out()
        return closed

    def replace_segments(self, old: Sequence[Segment], new: Segment) -> None:
        """Go on with a compacted segment, which has taken the names of others, in their place."""
        self._segments.replace(old, new)

    @property
    def closed_bytes(self) -> int:
        """Bytes in all segments but the active one."""
        return sum(segment.size for segment in self._segments.all[:-1])

    @property
    def dirty_bytes(self) -> int:
        """Bytes in those of them that were not compacted yet."""
        return sum(
            segment.size
            for segment in self._segments.all[:-1]
            if segment.base_offset >= self.clean_offset
        )
