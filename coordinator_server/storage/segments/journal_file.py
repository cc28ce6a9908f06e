"""One file of the journal, open for writing, and the reading of one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from coordinator_server.storage.segments.files import BlockFile, Files
from coordinator_server.storage.segments.frames import (
    HEADER_BYTES,
    Entry,
    Header,
    entries,
    read_frames,
)


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
    broken: bool = False
    """A write has failed: the descriptor is closed, the file goes once it is not needed."""

    @property
    def generation(self) -> int:
        """Of what counts in it."""
        return self.header.generation


def entries_in(files: Files, path: Path, header: Header) -> Iterator[Entry]:
    """The entries of a file that has this header. Raises OSError."""
    file = files.open_block(path)
    try:
        for each in read_frames(file, header.generation):
            yield from entries(each.body, is_synced=header.is_synced)
    finally:
        file.close()
