"""One file of the journal, open for writing, and the reading of one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from coordinator_server.storage.segments.files import BlockFile, Files
from coordinator_server.storage.segments.frames import (
    HEADER_BYTES,
    NO_HEADER,
    Entry,
    Header,
    entries,
    read_frames,
    read_header,
)
from coordinator_server.storage.segments.identity import directory_of

FIRST_BYTES: Final = 256 * 1024
"""What a file has at first; it grows by doubling, so that small directories stay small."""


@dataclass(eq=False, slots=True)
class JournalFile:
    """A file of the journal."""

    path: Path
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
            self.file.fill(self.size, longer - self.size)
            self.size = longer

    def reach(self, identity: bytes, end_offset: int) -> None:
        """Expect entries of a log up to an offset."""
        if end_offset > self.ends.get(identity, -1):
            self.ends[identity] = end_offset


class Found(NamedTuple):
    """A file that an earlier life has left."""

    file: JournalFile
    first: int
    """The sequence of the first frame; 0 if there is none."""
    last: int


def find(files: Files, path: Path) -> Found:
    """Take up a file with all its entries. Raises OSError."""
    block = files.open_block(path)
    header = read_header(block) or NO_HEADER
    file = JournalFile(path, block, block.size(), header)
    first = last = 0
    for each in read_frames(block, header.generation):
        first, last = first or each.sequence, each.sequence
        for entry in entries(each.body):
            file.names.add(directory_of(entry.identity))
            file.reach(entry.identity, entry.end_offset)
    # Without a header nobody knows its generation, so it is not written again.
    file.broken = file.generation == 0
    return Found(file, first, last)


def entries_in(files: Files, path: Path, header: Header) -> Iterator[Entry]:
    """The entries of a file that has this header. Raises OSError."""
    file = files.open_block(path)
    try:
        for each in read_frames(file, header.generation):
            yield from entries(each.body, is_synced=header.is_synced)
    finally:
        file.close()
