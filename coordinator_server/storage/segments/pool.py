"""A bounded set of open descriptors for files of which there may be more than a process may open.

Topics have a log for each partition, so one client could use up the descriptors that the
coordinator's logs, the journal and connections need. A file is opened when it is used; the one that
was used least recently is closed for it.
"""

import errno
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from coordinator_server.storage.segments.files import SYSTEM_FILES, BlockFile, File, Files
from coordinator_server.storage.segments.threads import as_os_error

NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
RELIEF_ATTEMPTS: Final = 64
"""Idle files that are closed, one after the other, for something that cannot be opened."""

_Result = TypeVar("_Result")


class DescriptorPool:
    """Tracks which pooled files are open; used by all threads."""

    def __init__(self, most: int) -> None:
        """`most` files are open at once, or more while all of them are in use."""
        self.most = most
        self.opened = 0
        """How many times a file was opened."""
        self._lock = threading.Lock()
        """Held briefly; guards the pool and the state of its files."""
        self._open: OrderedDict[PooledFile, None] = OrderedDict()
        """From the least to the most recently used."""

    @property
    def open_files(self) -> int:
        """The number of open files."""
        return len(self._open)

    def pin(self, file: "PooledFile") -> File:
        """Return the open file, which stays open until `unpin`. Raises OSError."""
        while True:
            if (handle := self._pinned(file)) is not None:
                return handle
            with file.opening:
                if file.handle is None and not file.is_closed:
                    self._make_room()
                    handle = self.with_descriptor(file.reopen)
                    with self._lock:
                        file.handle = handle
                        self._open[file] = None
                        self.opened += 1

    def _pinned(self, file: "PooledFile") -> File | None:
        with self._lock:
            if file.is_closed:
                raise OSError(errno.EBADF, f"{file.path} is closed")
            if file.handle is not None:
                file.pins += 1
                self._open.move_to_end(file)
            return file.handle

    def unpin(self, file: "PooledFile") -> None:
        """End an operation; closes the file if `close` was called during the operation."""
        with self._lock:
            file.pins -= 1
            handle = self._detach(file) if file.is_closed and not file.pins else None
        if handle is not None:
            handle.close()

    def close(self, file: "PooledFile") -> None:
        """Close a file permanently, now or when the operations in progress have ended."""
        with file.opening:
            with self._lock:
                file.is_closed = True
                handle = None if file.pins else self._detach(file)
            if handle is not None:
                handle.close()

    def _detach(self, file: "PooledFile") -> File | None:
        handle, file.handle = file.handle, None
        self._open.pop(file, None)
        return handle

    def with_descriptor(self, work: Callable[[], _Result]) -> _Result:
        """Run work that needs a descriptor; closes idle files while the process has none free.

        Raises the exception of the work.
        """
        for _ in range(RELIEF_ATTEMPTS):
            try:
                return work()
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._close_one():
                    raise
        return work()

    def _make_room(self) -> None:
        while len(self._open) >= self.most and self._close_one():
            pass

    def _close_one(self) -> bool:
        """Close the file that was used least recently; False if all are in use."""
        taken = self._take_idle()
        if taken is None:
            return False
        file, handle = taken
        try:
            file.close_idle(handle)
        finally:
            file.opening.release()
        return True

    def _take_idle(self) -> "tuple[PooledFile, File] | None":
        """Remove an idle file from the pool, preferably one without unsynced data.

        Returns with its `opening` held, so that it cannot be opened before it is closed.
        """
        with self._lock:
            for wants_clean in (True, False):
                for file in self._open:
                    if file.pins or file.handle is None or (wants_clean and file.is_dirty):
                        continue
                    # Without waiting: the thread that holds it may wait for a lock of this one.
                    if file.opening.acquire(blocking=False):
                        handle = self._detach(file)
                        assert handle is not None
                        return file, handle
        return None


class PooledFile:
    """Implements files.File: open only while it is used, or was recently."""

    __slots__ = (
        "_base",
        "_error",
        "_pool",
        "_size",
        "handle",
        "is_closed",
        "is_dirty",
        "opening",
        "path",
        "pins",
    )

    def __init__(self, pool: DescriptorPool, base: Files, path: Path) -> None:
        """Open the file, or create an empty one. Raises OSError."""
        self.path = path
        self.handle: File | None = None
        self.pins = 0
        """Operations in progress."""
        self.is_closed = False
        self.is_dirty = True
        """Whether there may be unsynced data; initially True, as an earlier process may have left
        some."""
        self.opening = threading.Lock()
        """Held while the file is opened or closed, so that it has one descriptor."""
        self._pool = pool
        self._base = base
        self._size: int | None = None
        """The file size when its descriptor was closed."""
        self._error: OSError | None = None
        """The error of a failed sync, if any."""
        pool.pin(self)
        pool.unpin(self)

    def reopen(self) -> File:
        """Open the file again; raises OSError if it was removed or replaced meanwhile."""
        if self._size is not None and self.path.name not in self._base.names(self.path.parent):
            raise FileNotFoundError(errno.ENOENT, "the file is gone", str(self.path))
        handle = self._base.open(self.path)
        if self._size is not None and handle.size() != self._size:
            handle.close()
            raise OSError(errno.ESTALE, "another file has taken its place", str(self.path))
        return handle

    def close_idle(self, handle: File) -> None:
        """Sync unsynced data and close the descriptor.

        The kernel reports a write-back error to the descriptors that are open when it happens, and
        forgets it with the file's inode: a sync through a descriptor that is opened later could
        succeed although data was dropped.
        """
        try:
            self._size = handle.size()
            if self.is_dirty:
                self.is_dirty = False
                handle.sync()
        except Exception as error:  # noqa: BLE001 - the data may not be durable
            self._error = as_os_error(error)
        with suppress(OSError):
            handle.close()

    def size(self) -> int:
        """See File."""
        handle = self._pool.pin(self)
        try:
            return handle.size()
        finally:
            self._pool.unpin(self)

    def read(self, at: int, size: int) -> bytes:
        """See File."""
        handle = self._pool.pin(self)
        try:
            return handle.read(at, size)
        finally:
            self._pool.unpin(self)

    def append(self, data: bytes) -> None:
        """See File."""
        handle = self._for_writing()
        try:
            handle.append(data)
        finally:
            self._pool.unpin(self)

    def truncate(self, size: int) -> None:
        """See File."""
        handle = self._for_writing()
        try:
            handle.truncate(size)
        finally:
            self._pool.unpin(self)

    def _for_writing(self) -> File:
        handle = self._pool.pin(self)
        if self._error is not None:
            self._pool.unpin(self)
            raise self._error
        self.is_dirty = True
        return handle

    def sync(self) -> None:
        """See File; a file whose descriptor was closed has been synced."""
        handle = self._pool.pin(self) if self.is_dirty else None
        try:
            if self._error is not None:
                raise self._error  # noqa: TRY301
            if handle is not None:
                # Cleared before the sync: it may not cover writes that happen during it.
                self.is_dirty = False
                handle.sync()
        except Exception as error:
            self._error = as_os_error(error)
            raise self._error from error
        finally:
            if handle is not None:
                self._pool.unpin(self)

    def close(self) -> None:
        """See File."""
        self._pool.close(self)


class ReservedFiles:
    """Implements files.Files: takes descriptors from the pool if a file cannot be opened."""

    def __init__(self, pool: DescriptorPool, base: Files = SYSTEM_FILES) -> None:
        self._pool = pool
        self._base = base

    def open_block(self, path: Path) -> BlockFile:
        """See Files."""
        return self._pool.with_descriptor(lambda: self._base.open_block(path))

    def open(self, path: Path) -> File:
        """See Files."""
        return self._pool.with_descriptor(lambda: self._base.open(path))

    def names(self, directory: Path) -> list[str]:
        """See Files."""
        return self._pool.with_descriptor(lambda: self._base.names(directory))

    def make_directory(self, path: Path) -> None:
        """See Files."""
        self._base.make_directory(path)

    def remove(self, path: Path) -> None:
        """See Files."""
        self._base.remove(path)

    def rename(self, path: Path, to: Path) -> None:
        """See Files."""
        self._base.rename(path, to)

    def replace(self, path: Path, data: bytes) -> None:
        """See Files."""
        self._pool.with_descriptor(lambda: self._base.replace(path, data))

    def sync_directory(self, path: Path) -> None:
        """See Files."""
        self._pool.with_descriptor(lambda: self._base.sync_directory(path))


class PooledFiles(ReservedFiles):
    """Implements files.Files with pooled files."""

    def open(self, path: Path) -> File:
        """See Files."""
        return PooledFile(self._pool, self._base, path)
