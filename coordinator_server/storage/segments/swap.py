"""Puts a compacted segment in the place of others, by Kafka's renames, and ends what a crash cut.

`.cleaned` is unfinished and worth nothing; `.swap` is whole and synced and replaces all segments
that begin in its range of offsets; `.deleted` has been replaced. Names are made durable between the
steps, so that no order in which a file system writes them can bring back what was replaced.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.directory_files import BROKER_FILE
from coordinator_server.storage.segments.files import Files
from coordinator_server.storage.segments.recovery import accept_loss_command
from coordinator_server.storage.segments.segment import SUFFIX, Segment, file_name

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"


def install_compacted(
    files: Files, directory: Path, cleaned: Path, replaced: Sequence[Path]
) -> None:
    """Replace segments by a cleaned one, whose contents are durable. Raises OSError.

    After an error the next `complete` ends it or undoes it, whichever the disk says.
    """
    final = replaced[0]
    swap = final.with_name(final.name + SWAP)
    files.rename(cleaned, swap)
    files.sync_directory(directory)
    for path in replaced:
        files.rename(path, path.with_name(path.name + DELETED))
    files.sync_directory(directory)
    files.rename(swap, final)
    files.sync_directory(directory)
    for path in replaced:
        files.remove(path.with_name(path.name + DELETED))


def remove_unfinished(files: Files, directory: Path) -> None:
    """Remove what an earlier compaction has left: beside a later `.swap` it would undo that.

    Raises OSError.
    """
    for name in files.names(directory):
        if name.endswith(SUFFIX + CLEANED):
            files.remove(directory / name)


def complete_compaction(files: Files, directory: Path) -> None:
    """End or undo the compaction that a crash interrupted, ours or a broker's, before opening.

    Raises CorruptLog for a `.swap` that is not whole, OSError.
    """
    names = files.names(directory)
    cleaned = _bases(names, SUFFIX + CLEANED)
    swaps = _bases(names, SUFFIX + SWAP)
    if cleaned:
        # Kafka renames the parts of a split segment from the last to the first.
        undone = [base for base in swaps if base >= min(cleaned)]
        for base in undone:
            files.remove(directory / (file_name(base) + SWAP))
        swaps = [base for base in swaps if base not in undone]
        files.sync_directory(directory)
    if swaps:
        _finish(files, directory, swaps, _bases(names, SUFFIX))
    leftovers = [name for name in names if name.endswith((CLEANED, DELETED))]
    for name in leftovers:
        files.remove(directory / name)
    if leftovers:
        files.sync_directory(directory)


def _finish(files: Files, directory: Path, swaps: list[int], segments: list[int]) -> None:
    end = max(_end_offset(files, directory, base) for base in swaps)
    _check_replaces_all(files, directory, swaps, end)
    # The process that was killed may have left the names in memory.
    files.sync_directory(directory)
    for base in segments:
        if base in swaps or min(swaps) <= base < end:
            files.remove(directory / file_name(base))
    files.sync_directory(directory)
    for base in swaps:
        files.rename(directory / (file_name(base) + SWAP), directory / file_name(base))
    files.sync_directory(directory)


def _check_replaces_all(files: Files, directory: Path, swaps: list[int], end: int) -> None:
    """Raise CorruptLog if a swap file is shorter than what it was to replace. OSError.

    A compaction here ends it where the next segment begins, of which there is always one.
    """
    names = files.names(directory)
    if BROKER_FILE in files.names(directory.parent):
        return
    segments = _bases(names, SUFFIX)
    if end not in segments and any(base > max(swaps) for base in segments):
        raise CorruptLog(
            f"{directory / (file_name(max(swaps)) + SWAP)} ends at offset {end}, where no segment "
            "begins: it is shorter than it was",
            accept_loss_command(directory.parent),
        )


def _end_offset(files: Files, directory: Path, base: int) -> int:
    """The offset behind a swap file, which is read to its end."""
    segment = Segment(files, directory, base, SWAP)
    try:
        at = 0
        for position, header, _, _ in segment.walk(checked=True):
            segment.end_offset = header.last_offset + 1
            at = position + header.size
        if at < segment.size:
            raise CorruptLog(f"{segment.path}, position {at}: the segment ends in a batch")
        segment.file.sync()
    finally:
        segment.file.close()
    return segment.end_offset


def _bases(names: Sequence[str], suffix: str) -> list[int]:
    digits = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(text) for text in digits if text.isdecimal())
