"""The format of journal files: a header with a generation, and one frame per write.

A frame is valid only if it is complete and of the file's generation. Frames begin at sectors, and
no sector of an acknowledged frame is written again. A frame holds entries: a batch of a log at its
offset, or a truncation of a log to an offset.

A position without a valid frame is the end of the file, a torn write, or damage:

- Only one write is under way at a time, and the next one begins when it has returned. So only the
  last frame of a file can be torn, and no frame of its generation lies behind it. A valid frame of
  the generation behind the position, at any sector, therefore proves damage: every frame before it
  was written. Frames of earlier generations do not count, nor do bytes that a client has put into
  a record: checksums begin with a random seed of the generation, which no client can see.
- The second page, the progress page, has the sequence of the last frame whose write has returned.
  It is written after every frame and not synced: it survives a kill, but after a power loss it may
  be some seconds old. If it names a frame that is missing, that frame is damaged, too. It has a
  page for itself, because no page with other contents may be rewritten.

One case is not detected: a damaged last frame after a power loss looks like a torn write.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from coordinator_protocol.batch import read_header as read_batch_header
from coordinator_server.storage.segments.files import BlockFile

SECTOR_BYTES: Final = 512
PAGE_BYTES: Final = 4_096
PROGRESS_AT: Final = PAGE_BYTES
HEADER_BYTES: Final = 2 * PAGE_BYTES
"""Size of the header and progress pages; frames begin behind them."""
_SYNCED: Final = b"KGCJRNL3"
_UNSYNCED: Final = b"KGCJRNL4"
_FILE: Final = Struct(">8sQI16sI")
"""Magic (synced or unsynced), generation, seed, boot id, checksum of these fields."""
_PROGRESS: Final = Struct(">8sQI16sQI")
"""The header fields, a sequence, checksum: the page is also a copy of the header."""
BOOT_BYTES: Final = 16
_SCAN_BYTES: Final = 1 << 20
_FRAME_MAGIC: Final = 0x4B474346
_FRAME: Final = Struct(">IIQQI")
"""Magic, checksum of all that follows, generation, sequence, bytes of entries."""
_CHECKED_FROM: Final = 8
_CHECKED: Final = Struct(">QQI")
_ENTRY: Final = Struct(">HqI")
"""Size of the log's identity, offset, size of the batch (0 for a truncation)."""
_OFFSET_BYTES: Final = 8


class JournalEntry(NamedTuple):
    """A batch that was appended to a log, or a truncation, which has no batch."""

    identity: bytes
    """The directory's name and the topic's id; see log_identity.py."""
    offset: int
    batch: bytes
    is_synced: bool = True
    """Whether the entry was durable before the next one was written."""

    @property
    def end_offset(self) -> int:
        """The end offset of the log after this entry."""
        return read_batch_header(self.batch).last_offset + 1 if self.batch else self.offset


class BatchRun(NamedTuple):
    """Consecutive batches of a log."""

    offset: int
    batches: list[bytes]
    is_synced: bool
    """`is_synced` of the first batch."""


class Header(NamedTuple):
    """The header of a journal file."""

    generation: int
    is_synced: bool
    """Whether every frame was synced before its acknowledgements."""
    seed: int = 0
    """The start value of the frames' checksums."""
    boot: bytes = bytes(BOOT_BYTES)
    """The machine's boot id when the generation began."""


NO_HEADER: Final = Header(0, is_synced=True)


class Progress(NamedTuple):
    """The progress page, the second page of a file."""

    header: Header
    sequence: int
    """The sequence of the last frame whose write has returned; 0 before the first."""


class Frame(NamedTuple):
    """A frame that was read from a file."""

    sequence: int
    end: int
    """Position of the next frame."""
    body: bytes


class UnreadableFrames(NamedTuple):
    """Frames that were written and cannot be read."""

    position: int
    end: int
    """Position of the next valid frame, or the end of the file."""
    first: int
    """Sequence of the first unreadable frame; 0 if it is not known."""
    last: int
    """Sequence of the last unreadable frame."""


# --- writing ---


def file_header(header: Header) -> bytes:
    """Encode the header page and the progress page of a new generation."""
    start = _header_fields(header)
    page = (start + crc32c(start).to_bytes(4, "big")).ljust(PAGE_BYTES, b"\0")
    return page + progress(header, 0).ljust(PAGE_BYTES, b"\0")


def progress(header: Header, sequence: int) -> bytes:
    """Encode the progress page after the frame of a sequence was written."""
    start = _header_fields(header) + sequence.to_bytes(8, "big")
    return start + crc32c(start).to_bytes(4, "big")


def _header_fields(header: Header) -> bytes:
    magic = _SYNCED if header.is_synced else _UNSYNCED
    generation, seed = header.generation.to_bytes(8, "big"), header.seed.to_bytes(4, "big")
    return magic + generation + seed + header.boot


class EntryBuffer:
    """Collects the entries of one log for the next frame, as parts to be joined."""

    __slots__ = ("_batch_size", "_identity", "_identity_size", "_parts", "_sized")

    def __init__(self, identity: bytes) -> None:
        self._identity = identity
        self._identity_size = len(identity).to_bytes(2, "big")
        self._parts: list[bytes] = []
        self._batch_size = -1
        self._sized = b""
        """Encoded size of the last batch and the identity, reused while the size is the same."""

    def add(self, batch: bytes) -> None:
        """Add a batch, which begins with its offset."""
        size = len(batch)
        if size != self._batch_size:
            self._batch_size = size
            self._sized = size.to_bytes(4, "big") + self._identity
        parts = self._parts
        parts.append(self._identity_size)
        parts.append(batch[:_OFFSET_BYTES])
        parts.append(self._sized)
        parts.append(batch)

    def cut(self, offset: int) -> None:
        """Replace all collected entries by a truncation to an offset."""
        self._parts = [_ENTRY.pack(len(self._identity), offset, 0), self._identity]

    def take(self) -> list[bytes]:
        """Return the parts and clear the buffer."""
        taken = self._parts
        if taken:
            self._parts = []
        return taken


def frame(header: Header, sequence: int, body: bytes) -> bytes:
    """Encode a frame of entries, padded to whole sectors."""
    generation = header.generation
    checked = _CHECKED.pack(generation, sequence, len(body))
    checksum = crc32c(body, crc32c(checked, header.seed))
    head = _FRAME.pack(_FRAME_MAGIC, checksum, generation, sequence, len(body))
    padding = -(len(head) + len(body)) % SECTOR_BYTES
    return b"".join((head, body, bytes(padding)))


def frame_size(body_size: int) -> int:
    """The size of a frame with entries of `body_size` bytes."""
    size = _FRAME.size + body_size
    return size + -size % SECTOR_BYTES


# --- reading ---


def read_header(file: BlockFile) -> Header | None:
    """Read the header from the first page; None if it is damaged or not written yet."""
    head = file.read(0, _FILE.size)
    if len(head) < _FILE.size:
        return None
    magic, generation, seed, boot, checksum = _FILE.unpack(head)
    if magic not in (_SYNCED, _UNSYNCED) or checksum != crc32c(head[:-4]):
        return None
    return Header(generation, magic == _SYNCED, seed, boot)


def read_progress(file: BlockFile) -> Progress | None:
    """Read the progress page; None if it is damaged or not written yet."""
    page = file.read(PROGRESS_AT, _PROGRESS.size)
    if len(page) < _PROGRESS.size:
        return None
    magic, generation, seed, boot, sequence, checksum = _PROGRESS.unpack(page)
    if magic not in (_SYNCED, _UNSYNCED) or checksum != crc32c(page[:-4]):
        return None
    return Progress(Header(generation, magic == _SYNCED, seed, boot), sequence)


def read_frames(
    file: BlockFile, header: Header, written: int = 0
) -> Iterator[Frame | UnreadableFrames]:
    """Yield the frames of the header's generation, and the ranges of unreadable ones.

    `written` is the sequence in the progress page.
    """
    at, expected = HEADER_BYTES, None
    while True:
        found = _read_frame(file, at, header, expected)
        if found is None:
            behind = _next_frame(file, at, header, expected or 1)
            if behind is None:
                break
            position, found = behind
            yield UnreadableFrames(at, position, expected or 0, found.sequence - 1)
        yield found
        at, expected = found.end, found.sequence + 1
    if written >= (expected or 1):
        yield UnreadableFrames(at, file.size(), expected or 0, written)


def _next_frame(file: BlockFile, at: int, header: Header, least: int) -> tuple[int, Frame] | None:
    """Find the next valid frame at a sector boundary; returns its position and the frame."""
    magic = _FRAME_MAGIC.to_bytes(4, "big")
    size = file.size()
    while at < size:
        window = file.read(at, _SCAN_BYTES)
        found = window.find(magic)
        while found >= 0:
            if found % SECTOR_BYTES == 0:
                frame_found = _read_frame(file, at + found, header, None)
                if frame_found is not None and frame_found.sequence >= least:
                    return at + found, frame_found
            found = window.find(magic, found + 1)
        at += _SCAN_BYTES
    return None


def _read_frame(file: BlockFile, at: int, header: Header, expected: int | None) -> Frame | None:
    head = file.read(at, _FRAME.size)
    if len(head) < _FRAME.size:
        return None
    magic, checksum, found_generation, sequence, size = _FRAME.unpack(head)
    if magic != _FRAME_MAGIC or not _counts(
        found_generation, sequence, header.generation, expected
    ):
        return None
    if size > file.size() - at:
        return None
    body = file.read(at + _FRAME.size, size)
    if len(body) < size or crc32c(body, crc32c(head[_CHECKED_FROM:], header.seed)) != checksum:
        return None
    return Frame(sequence, at + frame_size(size), body)


def _counts(found: int, sequence: int, generation: int, expected: int | None) -> bool:
    """Whether a frame has the generation and the expected sequence."""
    return found == generation and expected in (None, sequence)


def entries(body: bytes, *, is_synced: bool = True) -> Iterator[JournalEntry]:
    """Decode the entries of a frame."""
    at = 0
    while at < len(body):
        name_size, offset, size = _ENTRY.unpack_from(body, at)
        at += _ENTRY.size
        name, at = body[at : at + name_size], at + name_size
        yield JournalEntry(name, offset, body[at : at + size], is_synced)
        at += size


def merged_runs(found: Iterable[JournalEntry], first: int = 0) -> list[BatchRun]:
    """Merge the entries of one log into runs of batches from an offset on.

    An entry removes every earlier batch that ends behind its offset. Records between two runs were
    in the segment when the second run began, or were lost unsynced with the power.
    """
    kept: list[tuple[JournalEntry, int]] = []
    for each in found:
        while kept and kept[-1][1] > each.offset:
            kept.pop()
        if each.batch:
            kept.append((each, each.end_offset))
    runs: list[BatchRun] = []
    end: int | None = None
    for each, its_end in kept:
        if each.offset < first:
            continue
        if each.offset != end:
            runs.append(BatchRun(each.offset, [], each.is_synced))
        runs[-1].batches.append(each.batch)
        end = its_end
    return runs
