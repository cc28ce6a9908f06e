"""Kafka's files of one offset per log of a data directory, such as the recovery points.

What lies before its recovery point was on disk when the file was written; at a start only what
comes behind it can be torn. (kafka.server.checkpoints.OffsetCheckpointFile)
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from coordinator_server.storage.segments.files import SYSTEM_FILES, Files, contents, exists

RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
_VERSION: Final = "0"
_HEAD_LINES: Final = 2
_PARTS: Final = 3


class RecoveryPoints:
    """The recovery points of a data directory, by the names of its logs' directories."""

    def __init__(self, directory: Path, files: Files = SYSTEM_FILES, owner: str = "") -> None:
        """Read the file. One that cannot be read counts for nothing: more is checked then.

        `owner` names that of one of several processes. Raises OSError.
        """
        self.path = directory / file_of(RECOVERY_POINTS_FILE, owner)
        self._files = files
        self._lock = Lock()
        self._changed = False
        self.problem: str | None = None
        """Why the file could not be used, if so."""
        self._points: dict[str, int] = {}
        try:
            self._points = parsed_offsets(files, self.path)
        except ValueError as error:
            self.problem = str(error)

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
            write_offsets(self._files, self.path, self._points)
            self._changed = False


def forget_offsets(directory: Path, names: Collection[str], files: Files = SYSTEM_FILES) -> None:
    """Remove the recovery points of logs that are to be deleted, of all processes. OSError."""
    if not names:
        return
    for file in files.names(directory):
        if file == RECOVERY_POINTS_FILE or file.startswith(f"{RECOVERY_POINTS_FILE}."):
            offsets = read_offsets(files, directory / file)
            if gone := offsets.keys() & set(names):
                left = {name: at for name, at in offsets.items() if name not in gone}
                write_offsets(files, directory / file, left)


def file_of(file: str, owner: str) -> str:
    """The name of a checkpoint file of one of several processes, each of which has its own."""
    return f"{file}.{owner}" if owner else file


def read_offsets(files: Files, path: Path) -> dict[str, int]:
    """Offsets by the names of logs' directories; none where the file is not as Kafka writes it.

    Raises OSError.
    """
    try:
        return parsed_offsets(files, path)
    except ValueError:
        return {}


def parsed_offsets(files: Files, path: Path) -> dict[str, int]:
    """Offsets by the names of logs' directories; none without the file.

    Raises OSError; ValueError if it is not as Kafka writes it.
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
    lines = text.decode().splitlines()
    if not text.endswith(b"\n") or len(lines) < _HEAD_LINES or lines[0] != _VERSION:
        raise ValueError(f"expected a line {_VERSION!r} and a number of entries, each line ended")
    if lines[1] != str(len(lines) - _HEAD_LINES):
        raise ValueError(f"{len(lines) - _HEAD_LINES} entries, the second line says {lines[1]!r}")
    points = {}
    for number, line in enumerate(lines[_HEAD_LINES:], _HEAD_LINES + 1):
        parts = line.split(" ")
        if len(parts) != _PARTS or not parts[1].isdecimal() or not parts[2].isdecimal():
            raise ValueError(f"line {number}: {line!r}, expected topic, partition and offset")
        points[f"{parts[0]}-{int(parts[1])}"] = int(parts[2])
    return points
