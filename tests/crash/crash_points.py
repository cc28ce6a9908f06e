"""Named moments in the life of the log's files, and a file layer that dies at one of them.

Nothing of this is in the server: the launcher puts it in the place of the system's file layer.
"""

import os
import signal
from pathlib import Path
from typing import Final

from coordinator_server.storage.segments.files import SystemBlockFile, SystemFile, SystemFiles

JOURNAL: Final = ("journal-torn", "journaled", "recovery-points")
"""Half of a turn's batches is in the journal; all of it, and nobody was answered; where the logs
are synced to was written down, and the journal is about to be used again."""
WRITING: Final = ("torn", "written", "unsynced", "synced", "begun", "begun-named")
"""Half of a batch is written; all of it; about to be synced; synced; a new segment is there; it is
there for good."""
COMPACTING: Final = (
    "cleaned-written",
    "cleaned-synced",
    "swap",
    "swap-named",
    "deleted",
    "deleted-named",
    "replaced",
    "replaced-named",
    "removed",
    "checkpointed",
)
"""The steps of a compaction, in their order; `-named`: the directory is synced."""
REPLACED: Final = {
    "recovery-point-offset-checkpoint": "recovery-points",
    "cleaner-offset-checkpoint": "checkpointed",
}
ANY: Final = "any"


class CrashPoint:
    """Kills the process at the n-th pass of a point, once a file names it."""

    def __init__(self, orders: Path) -> None:
        self._orders = orders
        self._point = ""
        self._left = 0

    def strikes(self, point: str) -> bool:
        """Whether this is the moment."""
        if not self._point and not self._read():
            return False
        if self._point not in (point, ANY):
            return False
        self._left -= 1
        return self._left == 0

    def _read(self) -> bool:
        try:
            text = self._orders.read_text()
        except FileNotFoundError:
            return False
        self._point, number = text.split()
        self._left = int(number)
        return True

    def pass_by(self, point: str) -> None:
        """Die here if this is the moment."""
        if self.strikes(point):
            die()


def die() -> None:
    """As kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


class CrashingFile(SystemFile):
    """A file of the system whose writes and syncs are points."""

    __slots__ = ("_crash_point", "_is_cleaned", "_is_segment")

    def __init__(self, path: Path, crash_point: CrashPoint) -> None:
        super().__init__(path)
        self._crash_point = crash_point
        self._is_segment = path.suffix == ".log"
        self._is_cleaned = path.suffix == ".cleaned"

    def append(self, data: bytes) -> None:
        """See File."""
        if self._is_segment and self._crash_point.strikes("torn"):
            super().append(data[: len(data) // 2])
            die()
        super().append(data)
        if self._is_segment or self._is_cleaned:
            self._crash_point.pass_by("cleaned-written" if self._is_cleaned else "written")

    def sync(self) -> None:
        """See File."""
        if self._is_segment:
            self._crash_point.pass_by("unsynced")
        super().sync()
        if self._is_segment or self._is_cleaned:
            self._crash_point.pass_by("cleaned-synced" if self._is_cleaned else "synced")


class CrashingBlockFile(SystemBlockFile):
    """The journal, whose writes are points."""

    __slots__ = ("_crash_point",)

    def __init__(self, path: Path, crash_point: CrashPoint) -> None:
        super().__init__(path)
        self._crash_point = crash_point

    def write(self, at: int, data: bytes, *, durably: bool = True) -> None:
        """See BlockFile."""
        if self._crash_point.strikes("journal-torn"):
            super().write(at, data[: len(data) // 2], durably=durably)
            die()
        super().write(at, data, durably=durably)
        self._crash_point.pass_by("journaled")

    def fill(self, at: int, size: int) -> None:
        """See BlockFile."""
        self.write(at, bytes(size))


class CrashingFiles(SystemFiles):
    """The system's file layer; what it does to the names of segments are points."""

    crash_point: CrashPoint
    unsynced: dict[Path, str]
    """The last rename or replacement in each directory."""

    def open_block(self, path: Path) -> CrashingBlockFile:
        """See Files."""
        return CrashingBlockFile(path, self.crash_point)

    def open(self, path: Path) -> CrashingFile:
        """See Files."""
        is_new = path.suffix == ".log" and int(path.stem) > 0 and not path.exists()
        file = CrashingFile(path, self.crash_point)
        if is_new:
            self._named(path.parent, "begun")
        return file

    def rename(self, path: Path, to: Path) -> None:
        """See Files."""
        super().rename(path, to)
        if path.suffix == ".swap":
            self._named(path.parent, "replaced")
        elif to.suffix in (".swap", ".deleted"):
            self._named(path.parent, to.suffix[1:])

    def remove(self, path: Path) -> None:
        """See Files."""
        super().remove(path)
        if path.suffix == ".deleted":
            self.crash_point.pass_by("removed")

    def replace(self, path: Path, data: bytes) -> None:
        """See Files."""
        super().replace(path, data)
        if path.name in REPLACED:
            self.crash_point.pass_by(REPLACED[path.name])

    def sync_directory(self, path: Path) -> None:
        """See Files."""
        super().sync_directory(path)
        if path in self.unsynced:
            self.crash_point.pass_by(self.unsynced.pop(path) + "-named")

    def _named(self, directory: Path, step: str) -> None:
        self.unsynced[directory] = step
        self.crash_point.pass_by(step)


def install(files: SystemFiles, crash_point: CrashPoint) -> None:
    """Replace the methods of the shared file layer by crashing ones."""
    doomed = CrashingFiles()
    doomed.crash_point, doomed.unsynced = crash_point, {}
    files.__class__ = CrashingFiles
    vars(files).update(vars(doomed))
