"""Lists the partitions of a log and opens their segments while a server changes them.

A server may roll, compact or delete a segment at any time. So `open_segments` opens all segments
of a partition and lists the names again: open files stay readable whatever happens to their names.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from coordinator_pipeline.source.errors import SourceError
from coordinator_pipeline.source.segment_bytes import SegmentReadError, find_tail

DEFAULT_TOPIC: Final = "__consumer_offsets"
_SEGMENT: Final = re.compile(r"(\d{20})\.log(\.swap|\.cleaned)?")
_ATTEMPTS: Final = 50
_PAUSE_SECONDS: Final = 0.02
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
"""A broker's file of high watermarks; coordinator-server writes none."""


class Segment(NamedTuple):
    """A segment file that is open for reading."""

    base_offset: int
    path: Path
    descriptor: int

    @property
    def size(self) -> int:
        """The current size of the file in bytes."""
        return os.fstat(self.descriptor).st_size


def partitions_of(directory: Path, topic: str = DEFAULT_TOPIC) -> list[int]:
    """Return the log partitions in a data directory.

    Raises:
        SourceError: the directory is missing, may not be read, or has no partition of the topic.
    """
    try:
        names = sorted(path.name for path in directory.iterdir())
    except FileNotFoundError:
        raise SourceError(f"path {str(directory)!r}: there is no such directory") from None
    except NotADirectoryError:
        raise SourceError(f"path {str(directory)!r}: a file, expected the data directory") from None
    except PermissionError:
        raise SourceError(f"path {str(directory)!r}: no permission to read it") from None
    form = re.compile(re.escape(topic) + r"-(\d+)")
    numbers = [int(match[1]) for name in names if (match := form.fullmatch(name))]
    if not numbers:
        raise SourceError(_no_partitions(directory, topic, names))
    return sorted(numbers)


def _no_partitions(directory: Path, topic: str, names: list[str]) -> str:
    found = f"path {str(directory)!r}: no directories {topic}-N in it"
    if any(_SEGMENT.fullmatch(name) for name in names):
        return f"{found}, but segments: expected the directory above, with all partitions"
    others = [name for name in names if re.fullmatch(r".+-\d+", name)]
    if others:
        return f"{found}, but of other topics such as {others[0]}: expected a coordinator's log"
    return f"{found}: expected the data directory of a coordinator or a broker"


def high_watermarks(directory: Path, topic: str = DEFAULT_TOPIC) -> dict[int, int]:
    """Read the high watermark of each partition; empty if there is no such file.

    The format is Kafka's OffsetCheckpointFile: version 0, a count, `topic partition offset` lines.
    """
    try:
        lines = (directory / HIGH_WATERMARKS).read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines[2:] if lines[:1] == ["0"] else ():
        words = line.split()
        if len(words) == 3 and words[0] == topic and words[1].isdecimal() and words[2].isdecimal():
            found[int(words[1])] = int(words[2])
    return found


@contextmanager
def open_segments(directory: Path) -> Iterator[list[Segment]]:
    """Open a consistent set of a partition's segments, in order; the block's end closes them.

    Raises:
        SourceError: the directory is missing or may not be read, its segments keep changing, or
            one of them cannot be read within the block.
    """
    segments = _open_unchanged(directory)
    try:
        yield segments
    except SegmentReadError as error:
        paths = {segment.descriptor: segment.path for segment in segments}
        where = f"{paths.get(error.descriptor, directory)}, position {error.at}"
        raise SourceError(f"{where}: {error.strerror}") from None
    finally:
        _close(segments)


def _open_unchanged(directory: Path) -> list[Segment]:
    for _ in range(_ATTEMPTS):
        names = _names(directory)
        opened: list[Segment] = []
        try:
            for base_offset, name in _current(directory, names):
                path = directory / name
                flags = os.O_RDONLY | os.O_CLOEXEC
                opened.append(Segment(base_offset, path, os.open(path, flags)))
        except FileNotFoundError:
            _close(opened)
            continue
        except PermissionError as error:
            _close(opened)
            raise SourceError(f"{error.filename}: no permission to read it") from None
        if names == _names(directory):
            return opened
        _close(opened)
        time.sleep(_PAUSE_SECONDS)
    raise SourceError(f"{directory}: its segments changed during each of {_ATTEMPTS} attempts")


def _close(segments: list[Segment]) -> None:
    for segment in segments:
        with suppress(OSError):
            os.close(segment.descriptor)


def _names(directory: Path) -> list[str]:
    try:
        names = [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        raise SourceError(f"{directory}: the partition's directory is gone") from None
    except PermissionError:
        raise SourceError(f"{directory}: no permission to read it") from None
    return sorted(name for name in names if _SEGMENT.fullmatch(name))


def _current(directory: Path, names: list[str]) -> list[tuple[int, str]]:
    """Select the files that make up the log.

    A `.cleaned` file is unfinished. A `.swap` file is complete and replaces the segments in its
    range, which may be deleted already; except if a `.cleaned` file shows that the server has not
    finished writing that group of segments.
    """
    of_kind: dict[str, dict[int, str]] = {"": {}, ".swap": {}, ".cleaned": {}}
    for name in names:
        match = _SEGMENT.fullmatch(name)
        if match:
            of_kind[match[2] or ""][int(match[1])] = name
    segments, swaps = of_kind[""], of_kind[".swap"]
    unfinished = min(of_kind[".cleaned"], default=None)
    for base, name in swaps.items():
        if unfinished is None or base < unfinished:
            end = _end_of_swap(directory / name)
            segments = {at: old for at, old in segments.items() if not base <= at < end}
            segments[base] = name
    return sorted(segments.items())


def _end_of_swap(path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return find_tail(descriptor, 0).next_offset
    finally:
        os.close(descriptor)
