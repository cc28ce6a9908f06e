"""How the journal lies in its files: a header with a generation, and a frame for every write.

A frame counts only if it is whole, of the file's generation and next in sequence. So a torn write,
and what an earlier generation has left behind it, end the file. Frames begin at sectors: none that
holds an acknowledged frame is ever written again. A frame holds entries: a batch of a log at its
offset, or a cut, which says that a log went back to an offset.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from coordinator_server.storage.segments.files import BlockFile
from protocol.batch import read_header as read_batch_header

SECTOR_BYTES: Final = 512
HEADER_BYTES: Final = 4_096
"""Of the file; a page, so that frames never share one with it."""
_SYNCED: Final = b"KGCJRNL1"
_UNSYNCED: Final = b"KGCJRNL2"
_FILE: Final = Struct(">8sQI")
"""One of these two, generation, checksum of both."""
_FRAME_MAGIC: Final = 0x4B474346
_FRAME: Final = Struct(">IIQQI")
"""Magic, checksum of all that follows, generation, sequence, bytes of entries."""
_CHECKED_FROM: Final = 8
_CHECKED: Final = Struct(">QQI")
_ENTRY: Final = Struct(">HqI")
"""Bytes of the log's identity, offset, bytes of the batch; none for a cut."""
_OFFSET_BYTES: Final = 8


class Entry(NamedTuple):
    """What happened to a log; of a cut the batch is empty."""

    identity: bytes
    """The directory's name and the topic's id; see identity.py."""
    offset: int
    batch: bytes
    is_synced: bool = True
    """It was on disk before what came after it was written."""

    @property
    def end_offset(self) -> int:
        """Where the log ends with it."""
        return read_batch_header(self.batch).last_offset + 1 if self.batch else self.offset


class Run(NamedTuple):
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


NO_HEADER: Final = Header(0, is_synced=True)


class Frame(NamedTuple):
    """A write of the journal as it was found."""

    sequence: int
    end: int
    """Position behind it, where the next one begins."""
    body: bytes


# --- writing ---


def file_header(header: Header) -> bytes:
    """The first page of a file; frames of other generations do not count in it."""
    magic = _SYNCED if header.is_synced else _UNSYNCED
    start = magic + header.generation.to_bytes(8, "big")
    return (start + crc32c(start).to_bytes(4, "big")).ljust(HEADER_BYTES, b"\0")


class Entries:
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


def frame(generation: int, sequence: int, body: bytes) -> bytes:
    """A frame of entries, filled up to the end of its last sector."""
    checksum = crc32c(body, crc32c(_CHECKED.pack(generation, sequence, len(body))))
    head = _FRAME.pack(_FRAME_MAGIC, checksum, generation, sequence, len(body))
    padding = -(len(head) + len(body)) % SECTOR_BYTES
    return b"".join((head, body, bytes(padding)))


def frame_size(body_size: int) -> int:
    """Bytes of a frame with so many bytes of entries."""
    size = _FRAME.size + body_size
    return size + -size % SECTOR_BYTES


# --- reading ---


def read_header(file: BlockFile) -> Header | None:
    """The header of a file; None if it has none, as a file that was just made."""
    head = file.read(0, _FILE.size)
    if len(head) < _FILE.size:
        return None
    magic, generation, checksum = _FILE.unpack(head)
    if magic not in (_SYNCED, _UNSYNCED) or checksum != crc32c(head[:-4]):
        return None
    return Header(generation, magic == _SYNCED)


def read_frames(file: BlockFile, generation: int) -> Iterator[Frame]:
    """The frames of a generation in order, up to the first that does not count."""
    at, sequence = HEADER_BYTES, None
    while (found := _read_frame(file, at, generation, sequence)) is not None:
        yield found
        at, sequence = found.end, found.sequence + 1


def _read_frame(file: BlockFile, at: int, generation: int, expected: int | None) -> Frame | None:
    head = file.read(at, _FRAME.size)
    if len(head) < _FRAME.size:
        return None
    magic, checksum, found_generation, sequence, size = _FRAME.unpack(head)
    if magic != _FRAME_MAGIC or not _counts(found_generation, sequence, generation, expected):
        return None
    body = file.read(at + _FRAME.size, size)
    if len(body) < size or crc32c(body, crc32c(head[_CHECKED_FROM:])) != checksum:
        return None
    return Frame(sequence, at + frame_size(size), body)


def _counts(found: int, sequence: int, generation: int, expected: int | None) -> bool:
    """Whether a frame belongs to a generation and comes next."""
    return found == generation and expected in (None, sequence)


def entries(body: bytes, *, is_synced: bool = True) -> Iterator[Entry]:
    """The entries of a frame of such a file."""
    at = 0
    while at < len(body):
        name_size, offset, size = _ENTRY.unpack_from(body, at)
        at += _ENTRY.size
        name, at = body[at : at + name_size], at + name_size
        yield Entry(name, offset, body[at : at + size], is_synced)
        at += size


def folded(found: Iterable[Entry], first: int = 0) -> list[Run]:
    """What the entries of one log come to, in order, from an offset on.

    An entry takes back every batch that reaches its offset. Between two runs everything was in the
    segment when the second one began, or was lost with the power before it was synced.
    """
    kept: list[tuple[Entry, int]] = []
    for each in found:
        while kept and kept[-1][1] > each.offset:
            kept.pop()
        if each.batch:
            kept.append((each, each.end_offset))
    runs: list[Run] = []
    end: int | None = None
    for each, its_end in kept:
        if each.offset < first:
            continue
        if each.offset != end:
            runs.append(Run(each.offset, [], each.is_synced))
        runs[-1].batches.append(each.batch)
        end = its_end
    return runs
