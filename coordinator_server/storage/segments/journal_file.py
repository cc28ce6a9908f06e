"""One file of the journal, open for writing, and the reading of one."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from coordinator_server.storage.segments.files import BlockFile, Files
from coordinator_server.storage.segments.journal_format import (
    BOOT_BYTES,
    HEADER_BYTES,
    NO_HEADER,
    PROGRESS_AT,
    Header,
    JournalEntry,
    UnreadableFrames,
    entries,
    progress,
    read_frames,
    read_header,
    read_progress,
)
from coordinator_server.storage.segments.log_identity import directory_of

FIRST_BYTES: Final = 256 * 1024
"""What a file has at first; it grows by doubling, so that small directories stay small."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> bytes:
    """The start of the machine; zeros where the system has no name for it."""
    try:
        return bytes.fromhex(_BOOT_ID.read_text(encoding="ascii").strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(BOOT_BYTES)


def new_seed() -> int:
    """A random start of checksums, which no client can guess."""
    return int.from_bytes(os.urandom(4), "big")


@dataclass(eq=False, slots=True)
class JournalFile:
    """A file of the journal."""

    path: Path
    number: int
    file: BlockFile
    size: int
    """Bytes that were written once, and are there to be written again."""
    header: Header
    position: int = HEADER_BYTES
    is_dirty: bool = False
    """Something was written since the last sync."""
    names: set[str] = field(default_factory=set)
    """The directories of the logs with entries in it that may not be synced."""
    ends: dict[bytes, int] = field(default_factory=dict)
    """Up to which offset it may have entries of a log, by the log's identity; settled or not."""
    broken: bool = False
    """A write has failed: the descriptor is closed, the file goes once it is not needed."""
    ends_at_hole: bool = False
    """What lies behind the first hole does not count: power was lost before it was synced."""
    is_damaged: bool = False
    """Logs may have lost what it had: it stays until somebody accepts that."""

    @property
    def generation(self) -> int:
        """Of what counts in it."""
        return self.header.generation

    def make_room(self, size: int, capacity: int) -> None:
        """Write zeros where it has none: written again, they cost no metadata. Raises OSError."""
        end = self.position + size
        if end > self.size:
            longer = max(2 * self.size, end, FIRST_BYTES)
            longer = max(min(longer, capacity), end)
            # A file found shorter than its header has got that since.
            begin = max(self.size, self.position)
            self.file.fill(begin, longer - begin)
            self.size = longer

    def expect_entries_until(self, identity: bytes, end_offset: int) -> None:
        """Expect entries of a log up to an offset."""
        if end_offset > self.ends.get(identity, -1):
            self.ends[identity] = end_offset

    def note_progress(self, sequence: int, *, durably: bool = False) -> None:
        """Write down that the frame of a sequence is there.

        A failure is passed over: the frame is whole, and only its damage would go unnoticed.
        """
        data = progress(self.header, sequence)
        with suppress(OSError):
            if durably:
                self.file.write(PROGRESS_AT, data)
            else:
                self.file.note(PROGRESS_AT, data)


class FoundFile(NamedTuple):
    """A file that an earlier life has left."""

    file: JournalFile
    first: int
    """The sequence of the first frame; 0 if there is none."""
    last: int
    holes: list[UnreadableFrames]
    seen: dict[str, int]
    """The sequence of the last frame that has an entry of a log, by the log's directory."""
    problem: str | None
    """Why the whole file cannot be read, if so."""


def find(files: Files, path: Path, number: int) -> FoundFile:
    """Take up a file with all its entries. Raises OSError."""
    block = files.open_block(path)
    header, written, problem = _read_pages(block)
    file = JournalFile(path, number, block, block.size(), header)
    first = last = 0
    holes: list[UnreadableFrames] = []
    seen: dict[str, int] = {}
    for each in read_frames(block, header, written or 0):
        if isinstance(each, UnreadableFrames):
            holes.append(each)
            continue
        first, last = first or each.sequence, each.sequence
        for entry in entries(each.body):
            name = directory_of(entry.identity)
            file.names.add(name)
            seen[name] = each.sequence
            file.expect_entries_until(entry.identity, entry.end_offset)
    if written is None and problem is None and not first:
        problem = "neither its progress (the second page) nor any of its frames can be read"
    # Without a header nobody knows its generation, so it is not written again.
    file.broken = file.generation == 0
    return FoundFile(file, first, last, holes, seen, problem)


def _read_pages(block: BlockFile) -> tuple[Header, int | None, str | None]:
    """The header, the sequence that is known to be written, and why there is no header.

    The pages are written together when a generation begins. If only one of them has arrived then,
    the file holds nothing that is needed, under either generation.
    """
    header, found = read_header(block), read_progress(block)
    if header is None and found is None:
        return NO_HEADER, None, "neither its header nor the copy of that can be read"
    if found is None:
        return header or NO_HEADER, None, None
    if header is None or found.header.generation > header.generation:
        return found.header, found.sequence, None
    return header, found.sequence if found.header == header else 0, None


def entries_in(
    files: Files, path: Path, header: Header, is_certain: bool, ends_at_hole: bool
) -> Iterator[JournalEntry]:
    """The entries of a file that has this header. Raises OSError."""
    file = files.open_block(path)
    try:
        for each in read_frames(file, header):
            if not isinstance(each, UnreadableFrames):
                yield from entries(each.body, is_synced=is_certain)
            elif ends_at_hole:
                return
    finally:
        file.close()
