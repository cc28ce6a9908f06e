"""One journal file: writing, and reading what an earlier process has left."""

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
"""Initial size of a file, which doubles as needed, so that small directories stay small."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def this_boot() -> bytes:
    """The machine's boot id; zeros if the system has none."""
    try:
        return bytes.fromhex(_BOOT_ID.read_text(encoding="ascii").strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(BOOT_BYTES)


def new_seed() -> int:
    """Return a random seed for checksums, which no client can guess."""
    return int.from_bytes(os.urandom(4), "big")


@dataclass(eq=False, slots=True)
class JournalFile:
    """An open journal file."""

    path: Path
    number: int
    file: BlockFile
    size: int
    """Bytes that are allocated; frames overwrite them."""
    header: Header
    position: int = HEADER_BYTES
    is_dirty: bool = False
    """Whether frames were written since the last sync."""
    names: set[str] = field(default_factory=set)
    """Directories of logs that need the file: their segments may lack its entries."""
    ends: dict[bytes, int] = field(default_factory=dict)
    """Highest end offset of each log's entries, by identity, whether the log needs them or not."""
    broken: bool = False
    """Whether a write has failed: the descriptor is closed, the file is removed, not reused."""
    ends_at_hole: bool = False
    """Whether frames behind the first unreadable one do not count: the file was not synced before
    the power loss."""
    is_damaged: bool = False
    """Whether entries were lost: the file stays until an operator accepts the loss."""

    @property
    def generation(self) -> int:
        """The generation whose frames are valid."""
        return self.header.generation

    def make_room(self, size: int, capacity: int) -> None:
        """Fill the file with zeros up to the frame's end, so that syncing it needs no metadata.

        Raises OSError.
        """
        end = self.position + size
        if end > self.size:
            longer = max(2 * self.size, end, FIRST_BYTES)
            longer = max(min(longer, capacity), end)
            # A recovered file may have been shorter than its header.
            begin = max(self.size, self.position)
            self.file.fill(begin, longer - begin)
            self.size = longer

    def expect_entries_until(self, identity: bytes, end_offset: int) -> None:
        """Note that the file may have entries of a log up to an offset."""
        if end_offset > self.ends.get(identity, -1):
            self.ends[identity] = end_offset

    def note_progress(self, sequence: int, *, durably: bool = False) -> None:
        """Record in the progress page that the frame of a sequence was written.

        An OSError is ignored: the frame is valid, and only damage to it would go unnoticed.
        """
        data = progress(self.header, sequence)
        with suppress(OSError):
            if durably:
                self.file.write(PROGRESS_AT, data)
            else:
                self.file.note(PROGRESS_AT, data)


class FoundFile(NamedTuple):
    """A file that an earlier process has left."""

    file: JournalFile
    first: int
    """The sequence of the first frame; 0 if there is none."""
    last: int
    """The sequence of the last frame; 0 if there is none."""
    holes: list[UnreadableFrames]
    seen: dict[str, int]
    """The sequence of the last frame with an entry of a log, by the log's directory."""
    problem: str | None
    """The reason if the whole file cannot be read."""


def find(files: Files, path: Path, number: int) -> FoundFile:
    """Open a file and read all its frames. Raises OSError."""
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
    # Without a header the generation is unknown, so the file is not reused.
    file.broken = file.generation == 0
    return FoundFile(file, first, last, holes, seen, problem)


def _read_pages(block: BlockFile) -> tuple[Header, int | None, str | None]:
    """Return the header, the last sequence in the progress page, and why the header is missing.

    Both pages are written together when a generation begins. If only one of them reached the disk,
    the file has no frame that is needed, under either generation.
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
    """Read the entries of a file with this header. Raises OSError."""
    file = files.open_block(path)
    try:
        for each in read_frames(file, header):
            if not isinstance(each, UnreadableFrames):
                yield from entries(each.body, is_synced=is_certain)
            elif ends_at_hole:
                return
    finally:
        file.close()
