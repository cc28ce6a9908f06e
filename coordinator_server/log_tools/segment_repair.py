"""Takes damaged bytes out of a segment; nothing is removed without a copy beside it.

Segments are read in pieces, so that one of any size can be mended in little memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from crc32c import crc32c

from coordinator_protocol.batch import (
    CRC_FROM,
    HEADER_BYTES,
    BatchHeader,
    batch_length,
    read_header,
)
from coordinator_protocol.batch_records import iter_records
from coordinator_protocol.errors import Malformed
from coordinator_server.log_tools.inspection import check_offset, describe
from coordinator_server.storage.segments.files import SYSTEM_FILES
from coordinator_server.storage.segments.swap import CLEANED, DELETED, SWAP, complete_compaction

CUT_SUFFIX: Final = ".cut"
"""Of the side file with what a repair took out; more than one get a number."""
PIECE_BYTES: Final = 1 << 20
_MAGIC_AT: Final = 16


@dataclass(slots=True)
class Damage:
    """Bytes of a segment that cannot be what was written, or not be read."""

    path: Path
    position: int
    """Bytes from the start of the file."""
    reason: str
    cut: int
    """How many bytes from `position` on cannot be used."""
    tail: bool
    """Whether no sound batch follows in the segment."""
    first_offset: int
    next_offset: int | None
    """Of what follows; None for a tail."""

    def __str__(self) -> str:
        return f"{self.path}, position {self.position}: {self.reason}"


# --- an interrupted compaction ---


def unfinished(directory: Path) -> Sequence[str]:
    """Names of what an interrupted compaction has left in a partition's directory."""
    endings = (CLEANED, SWAP, DELETED)
    return sorted(path.name for path in directory.iterdir() if path.name.endswith(endings))


def finish_compaction(directory: Path) -> None:
    """End or undo it as a start does. Raises CorruptLog, OSError."""
    complete_compaction(SYSTEM_FILES, directory)


# --- finding ---


class _SegmentReader:
    """A segment file, of which a piece is in memory."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.size = size
        self._file = file
        self._start = 0
        self._piece = b""

    def read(self, at: int, size: int) -> bytes:
        """Up to `size` bytes from a position."""
        begin = at - self._start
        if begin < 0 or begin + size > len(self._piece):
            self._file.seek(at)
            self._start, begin = at, 0
            self._piece = self._file.read(max(size, PIECE_BYTES))
        return self._piece[begin : begin + size]

    def checksum(self, begin: int, end: int) -> int:
        """Of the bytes between two positions, which need not fit into memory."""
        if end - begin <= PIECE_BYTES:
            return crc32c(self.read(begin, end - begin))
        value = 0
        self._file.seek(begin)
        while begin < end and (piece := self._file.read(min(PIECE_BYTES, end - begin))):
            value = crc32c(piece, value)
            begin += len(piece)
        return value


def damages(path: Path) -> list[Damage]:
    """Every damaged place of a segment, in order; empty if it is sound.

    What follows a damaged place is kept: cutting everything behind it would lose more commits that
    were acknowledged, and bring back just as many older ones. Raises OSError.
    """
    with path.open("rb") as file:
        return list(_damages(path, _SegmentReader(file, path.stat().st_size)))


def _damages(path: Path, raw: _SegmentReader) -> Iterator[Damage]:
    expected = int(path.stem) if path.stem.isdecimal() else 0
    at = 0
    while at < raw.size:
        try:
            header = _check(raw, at, expected)
        except Malformed as error:
            following = _next_sound(raw, at, expected)
            end = raw.size if following is None else following
            after = None
            if following is not None:
                after = read_header(raw.read(following, HEADER_BYTES)).base_offset
            yield Damage(path, at, str(error), end - at, following is None, expected, after)
            at = end
        else:
            expected = header.last_offset + 1
            at += header.size


def _check(raw: _SegmentReader, at: int, expected: int) -> BatchHeader:
    """The header of a batch of which every record can be read. Raises Malformed."""
    header = read_header(raw.read(at, HEADER_BYTES))
    if header.size > raw.size - at:
        raise Malformed(f"a batch of {header.size} bytes, {raw.size - at} are there")
    found = raw.checksum(at + CRC_FROM, at + header.size)
    if found != header.crc:
        raise Malformed(f"a batch with checksum {header.crc:#x}, its bytes have {found:#x}")
    check_offset(header, expected)
    for record in iter_records(header, raw.read(at, header.size)):
        describe(record)
    return header


def _next_sound(raw: _SegmentReader, damaged: int, expected: int) -> int | None:
    """Where the next sound batch begins behind a damaged one.

    The damaged one's length is believed first: what a client has put into it may look like a batch.
    """
    if raw.size - damaged >= HEADER_BYTES:
        at = damaged + batch_length(raw.read(damaged, HEADER_BYTES))
        if damaged + HEADER_BYTES <= at < raw.size and _is_sound(raw, at, expected):
            return at
    for at in _candidates(raw, damaged + 1):
        if _is_sound(raw, at, expected):
            return at
    return None


def _candidates(raw: _SegmentReader, at: int) -> Iterator[int]:
    """Positions from one on at which a batch of our magic could begin."""
    while at + HEADER_BYTES <= raw.size:
        window = raw.read(at, PIECE_BYTES + _MAGIC_AT)
        found = window.find(b"\x02", _MAGIC_AT)
        while found >= 0:
            yield at + found - _MAGIC_AT
            found = window.find(b"\x02", found + 1)
        at += PIECE_BYTES


def _is_sound(raw: _SegmentReader, at: int, expected: int) -> bool:
    try:
        _check(raw, at, expected)
    except Malformed:
        return False
    return True


# --- mending ---


def repair(found: Damage) -> Path:
    """Take a damaged place out of its segment; returns the side file with the bytes.

    The copy is on disk before the segment is replaced, in one step. Raises OSError.
    """
    end = found.position + found.cut
    copy = _side_file(found)
    SYSTEM_FILES.replace_by(copy, _pieces(found.path, (found.position, end)))
    for suffix in (".index", ".timeindex", ".txnindex"):
        # Kafka makes them anew; with positions that have moved they would be wrong.
        SYSTEM_FILES.remove(found.path.with_suffix(suffix))
    size = found.path.stat().st_size
    SYSTEM_FILES.replace_by(found.path, _pieces(found.path, (0, found.position), (end, size)))
    return copy


def _pieces(path: Path, *ranges: tuple[int, int]) -> Iterator[bytes]:
    with path.open("rb") as file:
        for begin, end in ranges:
            file.seek(begin)
            left = end - begin
            while left and (piece := file.read(min(PIECE_BYTES, left))):
                left -= len(piece)
                yield piece


def _side_file(found: Damage) -> Path:
    name = f"{found.path.name}.{found.position}{CUT_SUFFIX}"
    copy, number = found.path.with_name(name), 1
    while copy.exists():
        number += 1
        copy = found.path.with_name(f"{name}{number}")
    return copy
