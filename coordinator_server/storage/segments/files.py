"""The thin layer between the log and the operating system's files.

Everything the log does to a disk goes through `Files` and `File`, so that tests can lose power,
tear writes and return I/O errors. No segment is preallocated: Kafka reads a file to its end.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol


class File(Protocol):
    """An open file; all methods raise OSError."""

    def size(self) -> int:
        """Bytes in the file."""
        ...

    def read(self, at: int, size: int) -> bytes:
        """Up to `size` bytes from a position; fewer only at the end of the file."""
        ...

    def append(self, data: bytes) -> None:
        """Write all of `data` at the end; after an error any part of it may be there."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file."""
        ...

    def sync(self) -> None:
        """Make contents and size durable (fdatasync)."""
        ...

    def close(self) -> None:
        """Give the descriptor back; twice does nothing."""
        ...


class BlockFile(Protocol):
    """An open file that is written in place; all methods raise OSError."""

    def size(self) -> int:
        """Bytes in the file."""
        ...

    def read(self, at: int, size: int) -> bytes:
        """Up to `size` bytes from a position; fewer only at the end of the file."""
        ...

    def write(self, at: int, data: bytes, *, durably: bool = True) -> None:
        """Write all of `data` at a position; after an error any part may be there."""
        ...

    def note(self, at: int, data: bytes) -> None:
        """Write a few bytes over others, for whoever opens the file next; nobody waits for them."""
        ...

    def fill(self, at: int, size: int) -> None:
        """Write so many zeros at a position, durably; after an error any part may be there."""
        ...

    def sync(self) -> None:
        """Make durable what was written otherwise (fdatasync)."""
        ...

    def close(self) -> None:
        """Give the descriptor back; twice does nothing."""
        ...


class Files(Protocol):
    """A file system; all methods raise OSError."""

    def open_block(self, path: Path) -> BlockFile:
        """Open for reading and writing in place; an empty file is made where there is none."""
        ...

    def open(self, path: Path) -> File:
        """Open for reading and appending; an empty file is made where there is none."""
        ...

    def names(self, directory: Path) -> list[str]:
        """The names in a directory."""
        ...

    def make_directory(self, path: Path) -> None:
        """Make a directory and those above it, unless they are there."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file, unless it is gone."""
        ...

    def rename(self, path: Path, to: Path) -> None:
        """Give a file another name, whose file is replaced if there is one."""
        ...

    def replace(self, path: Path, data: bytes) -> None:
        """Put a small file in place durably: the old contents or the new, never a mixture."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        ...


class SystemFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)

    def size(self) -> int:
        """See File."""
        return os.fstat(self._descriptor).st_size

    def read(self, at: int, size: int) -> bytes:
        """See File."""
        return _read(self._descriptor, at, size)

    def append(self, data: bytes) -> None:
        """See File."""
        written = os.write(self._descriptor, data)
        while written < len(data):
            written += os.write(self._descriptor, data[written:])

    def truncate(self, size: int) -> None:
        """See File."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """See File."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """See File."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class NoFile:
    """Stands for a file that is still to be made."""

    __slots__ = ()

    def size(self) -> int:
        """See File."""
        return 0

    def read(self, at: int, size: int) -> bytes:
        """See File."""
        return b""

    def append(self, data: bytes) -> None:
        """See File."""
        raise OSError(errno.EBADF, "the file is not made yet")

    def truncate(self, size: int) -> None:
        """See File."""

    def sync(self) -> None:
        """See File."""

    def close(self) -> None:
        """See File."""


NO_FILE: Final = NoFile()


class SystemBlockFile:
    """A file of the operating system that is written in place."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def size(self) -> int:
        """See BlockFile."""
        return os.fstat(self._descriptor).st_size

    def read(self, at: int, size: int) -> bytes:
        """See BlockFile."""
        return _read(self._descriptor, at, size)

    def write(self, at: int, data: bytes, *, durably: bool = True) -> None:
        """See BlockFile; one system call where the system can sync a single write."""
        write = _write_durably if durably else os.pwrite
        written = write(self._descriptor, data, at)
        while written < len(data):
            written += write(self._descriptor, data[written:], at + written)

    def note(self, at: int, data: bytes) -> None:
        """See BlockFile."""
        os.pwrite(self._descriptor, data, at)

    def fill(self, at: int, size: int) -> None:
        """See BlockFile; megabytes of zeros are the same few again and again."""
        zeros = memoryview(_ZEROS)
        end = at + size
        while at < end:
            at += os.pwrite(self._descriptor, zeros[: end - at], at)
        self.sync()

    def sync(self) -> None:
        """See BlockFile."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """See BlockFile."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


_ZEROS: Final = bytes(256 * 1024)


def _write_durably(descriptor: int, data: bytes, at: int) -> int:
    flag: int | None = getattr(os, "RWF_DSYNC", None)
    if flag is not None:
        try:
            return os.pwritev(descriptor, (data,), at, flag)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
    written = os.pwrite(descriptor, data, at)
    os.fdatasync(descriptor)
    return written


def _read(descriptor: int, at: int, size: int) -> bytes:
    data = os.pread(descriptor, size, at)
    while len(data) < size and (more := os.pread(descriptor, size - len(data), at + len(data))):
        data += more
    return data


class SystemFiles:
    """The operating system's file system."""

    def open_block(self, path: Path) -> BlockFile:
        """See Files."""
        return SystemBlockFile(path)

    def open(self, path: Path) -> File:
        """See Files."""
        return SystemFile(path)

    def names(self, directory: Path) -> list[str]:
        """See Files."""
        return [path.name for path in directory.iterdir()]

    def make_directory(self, path: Path) -> None:
        """See Files."""
        path.mkdir(parents=True, exist_ok=True)

    def remove(self, path: Path) -> None:
        """See Files."""
        path.unlink(missing_ok=True)

    def rename(self, path: Path, to: Path) -> None:
        """See Files."""
        path.rename(to)

    def replace(self, path: Path, data: bytes) -> None:
        """See Files."""
        self.replace_by(path, [data])

    def replace_by(self, path: Path, pieces: Iterable[bytes]) -> None:
        """As `replace`, for what need not fit into memory."""
        fresh = path.with_name(path.name + ".tmp")
        with fresh.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        self.sync_directory(path.parent)

    def sync_directory(self, path: Path) -> None:
        """See Files."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


SYSTEM_FILES = SystemFiles()


def exists(files: Files, path: Path) -> bool:
    """Whether there is something of that name in a directory. Raises OSError."""
    return path.name in files.names(path.parent)


def contents(files: Files, path: Path) -> bytes:
    """All of a small file that exists. Raises OSError."""
    file = files.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()
