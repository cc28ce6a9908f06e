"""A log of segment files in Kafka's format: append, read, sync, cut.

Used by the coordinator's partitions and by topics alike. Nothing here knows an event loop: `sync`
is called in a thread, while appends go on.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.segment import SUFFIX, Segment
from protocol.batch import BatchHeader, read_header, stamped

DEFAULT_SEGMENT_BYTES: Final = 1 << 30


class SegmentLog:
    """One directory `<topic>-<partition>`; offsets are those of records."""

    def __init__(
        self,
        directory: Path,
        *,
        files: Files = SYSTEM_FILES,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
    ) -> None:
        """Open the log of a directory, which is made if need be, and recover its last segment.

        `cut_bytes` then says how long a torn tail was. Raises CorruptLog, OSError.
        """
        self.directory = directory
        self.failed: OSError | None = None
        """Why nothing can be appended any more; the log must be closed and opened again."""
        self._files = files
        self._segment_bytes = segment_bytes
        files.make_directory(directory)
        names = [n for n in files.names(directory) if n.endswith(SUFFIX)]
        bases = sorted(_base_offset(directory, name) for name in names) or [0]
        self._segments = [Segment(files, directory, base) for base in bases]
        self._dirty: list[Segment] = []
        self.cut_bytes = self._active.recover()
        if not names:
            files.sync_directory(directory)
        self.durable_offset = self.end_offset
        self._drop_indexes()

    @property
    def _active(self) -> Segment:
        return self._segments[-1]

    @property
    def start_offset(self) -> int:
        """The first offset there is, or would be."""
        return self._segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """The offset the next record will have."""
        return self._active.end_offset

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments)

    # --- writing ---

    def append(self, batch: bytes) -> int:
        """Write one batch at the end and return the offset of its first record.

        It is durable only after `sync`. Raises OSError; nothing has been appended then.
        """
        if self.failed is not None:
            raise self.failed
        if self._active.size and self._active.size + len(batch) > self._segment_bytes:
            self._roll()
        base_offset = self.end_offset
        end_offset = base_offset + read_header(batch).last_offset_delta + 1
        # Before the write: a sync in its thread must not see the end and miss the segment.
        if not self._dirty or self._dirty[-1] is not self._active:
            self._dirty.append(self._active)
        try:
            self._active.append(stamped(batch, base_offset), base_offset, end_offset)
        except OSError as error:
            self._fail_if_unclean(error)
            raise
        return base_offset

    def _fail_if_unclean(self, error: OSError) -> None:
        """A write that failed half-way and could not be taken back ends this log's life."""
        try:
            clean = self._active.file.size() == self._active.size
        except OSError:
            clean = False
        if not clean:
            self.failed = error

    def _roll(self) -> None:
        segment = Segment(self._files, self.directory, self.end_offset)
        self._files.sync_directory(self.directory)
        self._segments.append(segment)

    def sync(self) -> None:
        """Make everything appended before the call durable. Raises OSError.

        After a failure the system may have dropped what it could not write and claim success at
        the next try: so there is none, the log has failed.
        """
        if self.failed is not None:
            raise self.failed
        end = self.end_offset
        dirty, self._dirty = self._dirty, []
        try:
            for segment in dirty:
                segment.file.sync()
        except OSError as error:
            self.failed = error
            raise
        self.durable_offset = end

    def truncate(self, offset: int) -> None:
        """Cut the log so that `offset` comes next; a batch that straddles it goes as a whole."""
        while len(self._segments) > 1 and self._active.base_offset >= offset:
            segment = self._segments.pop()
            segment.file.close()
            self._files.remove(segment.path)
        active = self._active
        active.truncate(active.position_of(offset))
        active.end_offset = active.base_offset
        for _, header, _, _ in active.walk():
            active.end_offset = header.last_offset + 1
        active.file.sync()
        self._files.sync_directory(self.directory)
        self.durable_offset = self.end_offset

    def close(self) -> None:
        """Close the files without syncing them."""
        for segment in self._segments:
            with suppress(OSError):
                segment.file.close()
        self.failed = self.failed or OSError(f"{self.directory} is closed")

    # --- reading ---

    def read(self, offset: int, max_bytes: int, up_to: int) -> bytes:
        """Whole batches from the one with `offset` on, none that reaches `up_to` or beyond.

        At least one batch, however large; of one segment only. Empty at the end of the log.
        Raises CorruptLog, OSError.
        """
        for segment, following in zip(self._segments, [*self._segments[1:], None], strict=True):
            if following is not None and following.base_offset <= offset:
                continue
            if records := segment.read(offset, max_bytes, up_to):
                return records
        return b""

    def batches(self) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """Header of every batch, the chunk with it and where in it; checked.

        Raises CorruptLog, OSError.
        """
        for number, segment in enumerate(self._segments):
            at = 0
            for position, header, chunk, offset in segment.walk(checked=True):
                yield header, chunk, offset
                at = position + header.size
            if at < segment.size and number < len(self._segments) - 1:
                raise CorruptLog(f"{segment.path}, position {at}: the segment ends in a batch")

    def _drop_indexes(self) -> None:
        """Remove index files, which Kafka makes anew: ours to write would be a second truth."""
        for name in self._files.names(self.directory):
            if name.endswith((".index", ".timeindex", ".txnindex")):
                self._files.remove(self.directory / name)


def _base_offset(directory: Path, name: str) -> int:
    digits = name.removesuffix(SUFFIX)
    if not digits.isdecimal():
        raise CorruptLog(f"{directory / name}: expected a number as the name of a segment")
    return int(digits)
