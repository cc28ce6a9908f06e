"""The data directory: who holds it, whose it is, and which start this is."""

import base64
import fcntl
import os
import uuid
from pathlib import Path
from typing import Final, Protocol

from coordinator_server.storage.segments.files import SYSTEM_FILES, Files

LOCK_FILE: Final = ".lock"
"""Kafka's name, locked in Kafka's way too: a broker and this server keep each other out."""
META_FILE: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
STARTS_FILE: Final = "coordinator-starts"


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


class DataDirectory:
    """A data directory that is ours until `close`."""

    def __init__(
        self, path: Path, *, node_id: int, cluster_id: str | None, files: Files = SYSTEM_FILES
    ) -> None:
        """Make the directory if need be, lock it and read its identity.

        Raises DirectoryInUse, OSError; ValueError if it belongs to another node or cluster.
        """
        self.path = path
        self._files = files
        try:
            files.make_directory(path)
        except OSError as error:
            why = f"log.dirs={path}: {error.strerror}, expected a directory that can be made"
            raise OSError(error.errno, why) from error
        self._lock = _lock(path / LOCK_FILE)
        try:
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

    def _forget_clean_shutdown(self) -> None:
        """A broker that finds its mark of a clean stop would trust what we crashed over."""
        if CLEAN_SHUTDOWN_FILE in self._files.names(self.path):
            self._files.remove(self.path / CLEAN_SHUTDOWN_FILE)
            self._files.sync_directory(self.path)

    def _identify(self, node_id: int, cluster_id: str | None) -> str:
        """Kafka's meta.properties: made once, then only compared."""
        path = self.path / META_FILE
        if not path.exists():
            cluster_id = cluster_id or _random_id()
            lines = {
                "version": "1",
                "cluster.id": cluster_id,
                "node.id": str(node_id),
                "directory.id": _random_id(),
            }
            text = "".join(f"{name}={value}\n" for name, value in lines.items())
            self._files.replace(path, text.encode())
            return cluster_id
        found = dict(line.split("=", 1) for line in _text(path).splitlines() if "=" in line)
        for name, ours in (("node.id", str(node_id)), ("cluster.id", cluster_id)):
            if ours is not None and found.get(name, ours) != ours:
                raise ValueError(f"{path}: {name}={found[name]}, but the settings say {ours}")
        return found.get("cluster.id") or cluster_id or _random_id()

    def _count_start(self) -> int:
        """How often a server has been started on this directory, this time included."""
        path = self.path / STARTS_FILE
        text = _text(path).strip() if path.exists() else "0"
        if not text.isdecimal():
            raise ValueError(f"{path}: {text!r}, expected a number")
        start = int(text) + 1
        self._files.replace(path, f"{start}\n".encode())
        return start


def _text(path: Path) -> str:
    """What a file says. Raises ValueError that names it if that is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is not UTF-8, expected text") from None


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
