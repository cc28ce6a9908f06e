"""Kafka's `cleaner-offset-checkpoint`: up to where every log of a data directory is compacted.

It only saves work: what it says too little is compacted again. What it says too much would be
worse than it looks: a tombstone there could go before the record that it deletes. So only an offset
counts at which a segment begins, as every compaction ends at one.
(LogCleanerManager.cleanableOffsets)
"""

from pathlib import Path
from typing import Final

from coordinator_server.storage.segments.checkpoint import file_of, read_offsets, write_offsets
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.log import SegmentLog

CLEANED_FILE: Final = "cleaner-offset-checkpoint"


class CleanedOffsets:
    """The first dirty offset of every log beside each other, by the names of their directories."""

    def __init__(self, files: Files = SYSTEM_FILES, owner: str = "") -> None:
        """`owner` names the file of one of several processes."""
        self._files = files
        self._file = file_of(CLEANED_FILE, owner)
        self._offsets: dict[Path, dict[str, int]] = {}
        """By data directory, those that were read."""

    def of(self, log: SegmentLog) -> int:
        """Where a log begins to be dirty; its start, as in Kafka, if the file cannot be right.

        Raises OSError.
        """
        offset = self._in(log.directory.parent).get(log.directory.name, log.start_offset)
        return offset if offset in log.base_offsets else log.start_offset

    def note(self, log: SegmentLog) -> None:
        """Put the clean offset of a log into the file, durably. Raises OSError."""
        offsets = self._in(log.directory.parent)
        offsets[log.directory.name] = log.clean_offset
        write_offsets(self._files, log.directory.parent / self._file, offsets)

    def _in(self, directory: Path) -> dict[str, int]:
        if directory not in self._offsets:
            self._offsets[directory] = read_offsets(self._files, directory / self._file)
        return self._offsets[directory]
