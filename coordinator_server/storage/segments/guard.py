"""Notices that a data directory was removed or replaced while a server uses it.

Files that are open stay usable then, and nothing that is written to them is ever found again.
"""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from coordinator_server.storage.segments.files import SYSTEM_FILES, BlockFile, File, Files
from coordinator_server.storage.segments.log_identity import PARTITION_METADATA

CHECK_SECONDS: Final = 0.1
"""How long commits may be acknowledged in a directory that is gone."""


class DirectoryLost(OSError):
    """A directory is not the one that was opened any more."""


class DirectoryGuard:
    """Compares a directory's path with the directory that was opened.

    The directory stays open, so that its inode is not given to the next one of its name.
    """

    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Open the directory. Raises OSError."""
        self.path = path
        self._monotonic = monotonic
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened = os.fstat(self._descriptor)
        self._identity = opened.st_dev, opened.st_ino
        self._check_at = 0.0

    def check(self) -> None:
        """Raise DirectoryLost if the path names another directory, or none."""
        try:
            found = self.path.stat()
        except OSError as error:
            why = f"the data directory {self.path} was removed or renamed while the server used it"
            raise DirectoryLost(error.errno, why) from error
        if (found.st_dev, found.st_ino) != self._identity:
            raise DirectoryLost(
                errno.ESTALE,
                f"another directory took the place of the data directory {self.path} while the "
                "server used it; put the first one back, or restart the server",
            )

    def check_sometimes(self) -> None:
        """As `check`, at most every tenth of a second as long as nothing is wrong."""
        now = self._monotonic()
        if now >= self._check_at:
            self._check_at = 0.0
            self.check()
            self._check_at = now + CHECK_SECONDS

    def close(self) -> None:
        """Let the directory go."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class GuardedFiles:
    """Implements files.Files: none is opened, replaced or removed in another directory."""

    def __init__(self, guard: DirectoryGuard, base: Files = SYSTEM_FILES) -> None:
        self._guard = guard
        self._base = base

    def open_block(self, path: Path) -> BlockFile:
        """See Files."""
        self._guard.check()
        return self._base.open_block(path)

    def open(self, path: Path) -> File:
        """See Files."""
        self._guard.check()
        return self._base.open(path)

    def names(self, directory: Path) -> list[str]:
        """See Files."""
        return self._base.names(directory)

    def make_directory(self, path: Path) -> None:
        """See Files."""
        self._guard.check()
        self._base.make_directory(path)

    def remove(self, path: Path) -> None:
        """See Files."""
        self._guard.check()
        self._base.remove(path)

    def rename(self, path: Path, to: Path) -> None:
        """See Files."""
        self._guard.check()
        self._base.rename(path, to)

    def replace(self, path: Path, data: bytes) -> None:
        """See Files."""
        self._guard.check()
        self._base.replace(path, data)

    def sync_directory(self, path: Path) -> None:
        """See Files."""
        self._base.sync_directory(path)


Mark = tuple[int, int, int]
"""Device, inode and time of change of a file that is written once."""


def mark_of(directory: Path) -> Mark | None:
    """The identity of a log's directory (device and inode); None if it is gone."""
    try:
        found = (directory / PARTITION_METADATA).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns
