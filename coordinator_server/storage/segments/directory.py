"""The data directory: who holds it, whose it is, and which start this is.

A file that is missing beside others that a server has made after it was removed, or its disk has
lost it: the start is refused, because a new one would be a guess.
"""

import base64
import fcntl
import os
import uuid
from pathlib import Path
from typing import Final, Protocol

from coordinator_server.storage.segments.directory_files import (
    META_FILE,
    STARTS_FILE,
    Foreign,
    Incomplete,
    format_meta,
    format_starts,
    made_after,
    parse_meta,
    parse_starts,
)
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.guard import DirectoryGuard

LOCK_FILE: Final = ".lock"
"""Kafka's name, locked in Kafka's way too: a broker and this server keep each other out."""
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"

__all__ = [
    "META_FILE",
    "STARTS_FILE",
    "DataDirectory",
    "DirectoryInUse",
    "GuardedDirectory",
    "HeldDirectory",
]


class DirectoryInUse(OSError):
    """Another process holds the data directory."""


class HeldDirectory(Protocol):
    """A data directory, or a part of one, that nobody else serves."""

    path: Path
    cluster_id: str
    start: int
    """How often a server has been started on the directory, this time included."""

    def close(self) -> None:
        """Let others have it."""
        ...


class GuardedDirectory(HeldDirectory, Protocol):
    """A held directory that notices when it is removed or replaced."""

    guard: DirectoryGuard
    """Watches that the path stays what was opened."""


class DataDirectory:
    """A data directory that is ours until `close`."""

    def __init__(
        self, path: Path, *, node_id: int, cluster_id: str | None, files: Files = SYSTEM_FILES
    ) -> None:
        """Make the directory if need be, lock it and read its identity.

        Raises DirectoryInUse, OSError; ValueError if it belongs to another node or cluster, or a
        file of it is missing or damaged.
        """
        self.path = path
        self._files = files
        try:
            files.make_directory(path)
        except OSError as error:
            why = f"log.dirs={path}: {error.strerror}, expected a directory that can be made"
            raise OSError(error.errno, why) from error
        self.guard = DirectoryGuard(path)
        try:
            self._lock = _lock(path / LOCK_FILE)
        except BaseException:
            self.guard.close()
            raise
        try:
            self.guard.check()
            self._forget_clean_shutdown()
            self.cluster_id = self._identify(node_id, cluster_id)
            self.start = self._count_start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others have it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            self.guard.close()

    def _forget_clean_shutdown(self) -> None:
        """A broker that finds its mark of a clean stop would trust what we crashed over."""
        if CLEAN_SHUTDOWN_FILE in self._files.names(self.path):
            self._files.remove(self.path / CLEAN_SHUTDOWN_FILE)
            self._files.sync_directory(self.path)

    def _identify(self, node_id: int, cluster_id: str | None) -> str:
        """Kafka's meta.properties: made once, then only compared."""
        path = self.path / META_FILE
        if not path.exists():
            self._check_new(META_FILE)
            found = {
                "version": "1",
                "cluster.id": cluster_id or _random_id(),
                "node.id": str(node_id),
                "directory.id": _random_id(),
            }
            self._files.replace(path, format_meta(found))
            return found["cluster.id"]
        found = parse_meta(path, path.read_bytes())
        for name, ours in (("node.id", str(node_id)), ("cluster.id", cluster_id)):
            if ours is not None and found[name] != ours:
                raise Foreign(f"{path}: {name}={found[name]}, but the settings say {ours}")
        return found["cluster.id"]

    def _count_start(self) -> int:
        """How often a server has been started on this directory, this time included."""
        path = self.path / STARTS_FILE
        if path.exists():
            start = parse_starts(path, path.read_bytes()) + 1
        else:
            self._check_new(STARTS_FILE)
            start = 1
        self._files.replace(path, format_starts(start))
        return start

    def _check_new(self, file: str) -> None:
        """Raise Incomplete if a file is missing that a server makes before others there are."""
        if later := made_after(self.path, self._files.names(self.path), file):
            raise Incomplete(self.path, file, later)


def _lock(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        why = f"log.dirs={path.parent}: {error.strerror}, expected a directory that can be written"
        raise OSError(error.errno, why) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
        os.close(fd)
        by = f"process {holder}" if holder.isdecimal() else "another process"
        raise DirectoryInUse(
            error.errno, f"the data directory {path.parent} is in use by {by}"
        ) from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _random_id() -> str:
    """Kafka's form of a UUID: 22 characters of base64."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
