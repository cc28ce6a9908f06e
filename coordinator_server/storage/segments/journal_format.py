"""How the journal lies in its files: a header with a generation, and a frame for every write.

A frame counts only if it is whole and of the file's generation. Frames begin at sectors: none that
holds an acknowledged frame is ever written again. A frame holds entries: a batch of a log at its
offset, or a cut, which says that a log went back to an offset.

A place without a whole frame is the end of the file, a torn write, or damage:

- Only one write is under way at a time, and the next one begins when it has returned. So only the
  last frame of a file can be torn, and nothing of its generation lies behind it. A whole frame of
  the generation behind the place, at any sector, therefore shows damage: every frame before it was
  written. What an earlier generation has left does not count, nor does what a client has put into
  a record: checksums begin with a seed that each generation draws anew and no client can see.
- A second page, the progress, has the sequence of the last frame whose write has returned. It is
  written after every frame, and not synced: it survives the process, but after a loss of power it
  may be some seconds old. If it names a frame that is not there, that one is damaged, too. It lies
  in a page of its own, because no page is to be written again that has anything else.

What remains is a damaged last frame after a loss of power, which looks like a torn write.
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
"""Of the file: pages of header and progress, so that frames never share one with them."""
_SYNCED: Final = b"KGCJRNL3"
_UNSYNCED: Final = b"KGCJRNL4"
_FILE: Final = Struct(">8sQI16sI")
"""One of these two, generation, seed, boot, checksum of all that."""
_PROGRESS: Final = Struct(">8sQI16sQI")
"""As the header, with a sequence before the checksum: the page is a second copy of it."""
BOOT_BYTES: Final = 16
_SCAN_BYTES: Final = 1 << 20
_FRAME_MAGIC: Final = 0x4B474346
_FRAME: Final = Struct(">IIQQI")
"""Magic, checksum of all that follows, generation, sequence, bytes of entries."""
_CHECKED_FROM: Final = 8
_CHECKED: Final = Struct(">QQI")
_ENTRY: Final = Struct(">HqI")
"""Bytes of the log's identity, offset, bytes of the batch; none for a cut."""
_OFFSET_BYTES: Final = 8


class JournalEntry(NamedTuple):
    """What happened to a log; of a cut the batch is empty."""

    identity: bytes
    """The directory's name and the topic's id; see log_identity.py."""
    offset: int
    batch: bytes
    is_synced: bool = True
    """It was on disk, or in the memory of a system that runs on, before what came after it."""

    @property
    def end_offset(self) -> int:
        """Where the log ends with it."""
        return read_batch_header(self.batch).last_offset + 1 if self.batch else self.offset


class BatchRun(NamedTuple):
    """Batches of a log without a gap between them."""

    offset: int
    batches: list[bytes]
    is_synced: bool
    """Of the first one."""


class Header(NamedTuple):
    """What a file says of itself."""

    generation: int
    is_synced: bool
    """Every frame was on disk before anybody was answered for it."""
    seed: int = 0
    """Checksums of frames begin with it."""
    boot: bytes = bytes(BOOT_BYTES)
    """The start of the machine at which the generation began."""


NO_HEADER: Final = Header(0, is_synced=True)


class Progress(NamedTuple):
    """The second page of a file."""

    header: Header
    sequence: int
    """Of the last frame whose write has returned; 0 before the first."""


class Frame(NamedTuple):
    """A write of the journal as it was found."""

    sequence: int
    end: int
    """Position behind it, where the next one begins."""
    body: bytes


class UnreadableFrames(NamedTuple):
    """Frames that were written and cannot be read."""

    position: int
    end: int
    """Where the next whole frame begins, or the file ends."""
    first: int
    """Sequence of the first of them; 0 if it is not known."""
    last: int


# --- writing ---


def file_header(header: Header) -> bytes:
    """The first pages of a file; frames of other generations do not count in it."""
    start = _header_fields(header)
    page = (start + crc32c(start).to_bytes(4, "big")).ljust(PAGE_BYTES, b"\0")
    return page + progress(header, 0).ljust(PAGE_BYTES, b"\0")


def progress(header: Header, sequence: int) -> bytes:
    """The contents of the second page, once the frame of a sequence is written."""
    start = _header_fields(header) + sequence.to_bytes(8, "big")
    return start + crc32c(start).to_bytes(4, "big")


def _header_fields(header: Header) -> bytes:
    magic = _SYNCED if header.is_synced else _UNSYNCED
    generation, seed = header.generation.to_bytes(8, "big"), header.seed.to_bytes(4, "big")
    return magic + generation + seed + header.boot


class EntryBuffer:
    """What happens to a log, as entries of the next frame, in parts."""

    __slots__ = ("_batch_size", "_identity", "_identity_size", "_parts", "_sized")

    def __init__(self, identity: bytes) -> None:
        self._identity = identity
        self._identity_size = len(identity).to_bytes(2, "big")
        self._parts: list[bytes] = []
        self._batch_size = -1
        self._sized = b""
        """The size of the last batch and the identity: many batches have the same size."""

    def add(self, batch: bytes) -> None:
        """The log gets a batch at its offset, with which it begins."""
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
        """The log goes back to an offset; whatever it got before does not count any more."""
        self._parts = [_ENTRY.pack(len(self._identity), offset, 0), self._identity]

    def take(self) -> list[bytes]:
        """All of it, which is gone then."""
        taken = self._parts
        if taken:
            self._parts = []
        return taken


def frame(header: Header, sequence: int, body: bytes) -> bytes:
    """A frame of entries, filled up to the end of its last sector."""
    generation = header.generation
    checked = _CHECKED.pack(generation, sequence, len(body))
    checksum = crc32c(body, crc32c(checked, header.seed))
    head = _FRAME.pack(_FRAME_MAGIC, checksum, generation, sequence, len(body))
    padding = -(len(head) + len(body)) % SECTOR_BYTES
    return b"".join((head, body, bytes(padding)))


def frame_size(body_size: int) -> int:
    """Bytes of a frame with so many bytes of entries."""
    size = _FRAME.size + body_size
    return size + -size % SECTOR_BYTES


# --- reading ---


def read_header(file: BlockFile) -> Header | None:
    """The header of a file by its first page alone; None if that is damaged, or not written yet."""
    head = file.read(0, _FILE.size)
    if len(head) < _FILE.size:
        return None
    magic, generation, seed, boot, checksum = _FILE.unpack(head)
    if magic not in (_SYNCED, _UNSYNCED) or checksum != crc32c(head[:-4]):
        return None
    return Header(generation, magic == _SYNCED, seed, boot)


def read_progress(file: BlockFile) -> Progress | None:
    """The progress of a file by its second page; None if that is damaged, or not written yet."""
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
    """The frames of a file's generation in order, and the holes between them.

    The file is read on behind a hole. `written` is the last sequence that its progress names.
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
    """Position and contents of the first whole frame at a sector from a position on."""
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
    """Whether a frame belongs to a generation and comes next."""
    return found == generation and expected in (None, sequence)


def entries(body: bytes, *, is_synced: bool = True) -> Iterator[JournalEntry]:
    """The entries of a frame of such a file."""
    at = 0
    while at < len(body):
        name_size, offset, size = _ENTRY.unpack_from(body, at)
        at += _ENTRY.size
        name, at = body[at : at + name_size], at + name_size
        yield JournalEntry(name, offset, body[at : at + size], is_synced)
        at += size


def merged_runs(found: Iterable[JournalEntry], first: int = 0) -> list[BatchRun]:
    """What the entries of one log come to, in order, from an offset on.

    An entry takes back every batch that reaches its offset. Between two runs everything was in the
    segment when the second one began, or was lost with the power before it was synced.
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
