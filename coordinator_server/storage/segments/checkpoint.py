"""Kafka's files of one offset per log of a data directory, such as the recovery points.

What lies before its recovery point was on disk when the file was written; at a start only what
comes behind it can be torn. (kafka.server.checkpoints.OffsetCheckpointFile)
"""

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from coordinator_server.storage.segments.files import SYSTEM_FILES, Files, contents, exists

RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
_VERSION: Final = "0"


class RecoveryPoints:
    """The recovery points of a data directory, by the names of its logs' directories."""

    def __init__(self, directory: Path, files: Files = SYSTEM_FILES, owner: str = "") -> None:
        """Read the file. One that cannot be read counts for nothing: more is checked then.

        `owner` names that of one of several processes. Raises OSError.
        """
        self._path = directory / file_of(RECOVERY_POINTS_FILE, owner)
        self._files = files
        self._lock = Lock()
        self._changed = False
        self._points = read_offsets(files, self._path)

    def of(self, directory: str) -> int:
        """Where the tail of a log begins that may not have been synced."""
        return self._points.get(directory, 0)

    def note(self, directory: str, offset: int) -> None:
        """A log is synced up to an offset; `write` makes it known."""
        with self._lock:
            self._changed = self._changed or self._points.get(directory) != offset
            self._points[directory] = offset

    def names(self) -> set[str]:
        """The directories of the logs that have one."""
        with self._lock:
            return set(self._points)

    def forget(self, directory: str) -> None:
        """A log is gone; one made anew meanwhile is only checked from its beginning."""
        with self._lock:
            self._changed = self._points.pop(directory, None) is not None or self._changed

    def lower(self, directory: str, offset: int) -> None:
        """Durably forget points behind an offset, to which a log is cut next. Raises OSError."""
        if self.of(directory) > offset:
            self.note(directory, offset)
        # Also if it was lowered before, and could not be written then.
        self.write()

    def write(self) -> None:
        """Put the file in place durably, if anything has changed. Raises OSError."""
        with self._lock:
            if not self._changed:
                return
            write_offsets(self._files, self._path, self._points)
            self._changed = False


def file_of(file: str, owner: str) -> str:
    """The name of a checkpoint file of one of several processes, each of which has its own."""
    return f"{file}.{owner}" if owner else file


def read_offsets(files: Files, path: Path) -> dict[str, int]:
    """Offsets by the names of logs' directories; none where the file is not as Kafka writes it.

    Raises OSError.
    """
    return _parsed(contents(files, path)) if exists(files, path) else {}


def write_offsets(files: Files, path: Path, offsets: Mapping[str, int]) -> None:
    """Put such a file in place, durably. Raises OSError."""
    lines = [_line(name, offset) for name, offset in sorted(offsets.items())]
    files.replace(path, "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode())


def _line(directory: str, offset: int) -> str:
    topic, _, partition = directory.rpartition("-")
    return f"{topic} {partition} {offset}"


def _parsed(text: bytes) -> dict[str, int]:
    try:
        version, count, *lines = text.decode().splitlines()
        points = {}
        for line in lines:
            topic, partition, offset = line.split(" ")
            points[f"{topic}-{int(partition)}"] = int(offset)
    except ValueError:
        return {}
    is_whole = text.endswith(b"\n") and count == str(len(lines))
    return points if version == _VERSION and is_whole else {}
