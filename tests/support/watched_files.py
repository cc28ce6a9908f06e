"""A real directory of which every operation is seen before it is done, in its own thread."""

import threading
from collections.abc import Callable
from pathlib import Path

from coordinator_server.storage.segments.files import BlockFile, File, SystemFiles

Watch = Callable[[str, Path], None]
"""`watch(operation, path)` is called in the thread of the operation; it may wait, or raise."""


class WatchedFiles(SystemFiles):
    """Implements files.Files."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def open_block(self, path: Path) -> BlockFile:
        self.watch("open", path)
        return WatchedBlockFile(self, path, super().open_block(path))

    def open(self, path: Path) -> File:
        self.watch("open", path)
        return WatchedFile(self, path, super().open(path))

    def names(self, directory: Path) -> list[str]:
        self.watch("names", directory)
        return super().names(directory)

    def make_directory(self, path: Path) -> None:
        self.watch("make_directory", path)
        super().make_directory(path)

    def remove(self, path: Path) -> None:
        self.watch("remove", path)
        super().remove(path)

    def rename(self, path: Path, to: Path) -> None:
        self.watch("rename", path)
        super().rename(path, to)

    def replace(self, path: Path, data: bytes) -> None:
        self.watch("replace", path)
        super().replace(path, data)

    def sync_directory(self, path: Path) -> None:
        self.watch("sync_directory", path)
        super().sync_directory(path)


class WatchedFile:
    """Implements files.File."""

    def __init__(self, files: WatchedFiles, path: Path, file: File) -> None:
        self._files = files
        self._path = path
        self._file = file

    def size(self) -> int:
        self._files.watch("size", self._path)
        return self._file.size()

    def read(self, at: int, size: int) -> bytes:
        self._files.watch("read", self._path)
        return self._file.read(at, size)

    def append(self, data: bytes) -> None:
        self._files.watch("append", self._path)
        self._file.append(data)

    def truncate(self, size: int) -> None:
        self._files.watch("truncate", self._path)
        self._file.truncate(size)

    def sync(self) -> None:
        self._files.watch("sync", self._path)
        self._file.sync()

    def close(self) -> None:
        self._files.watch("close", self._path)
        self._file.close()


class WatchedBlockFile:
    """Implements files.BlockFile."""

    def __init__(self, files: WatchedFiles, path: Path, file: BlockFile) -> None:
        self._files = files
        self._path = path
        self._file = file

    def size(self) -> int:
        self._files.watch("size", self._path)
        return self._file.size()

    def read(self, at: int, size: int) -> bytes:
        self._files.watch("read", self._path)
        return self._file.read(at, size)

    def write(self, at: int, data: bytes, *, durably: bool = True) -> None:
        self._files.watch("write", self._path)
        self._file.write(at, data, durably=durably)

    def note(self, at: int, data: bytes) -> None:
        self._files.watch("note", self._path)
        self._file.note(at, data)

    def fill(self, at: int, size: int) -> None:
        self._files.watch("fill", self._path)
        self._file.fill(at, size)

    def sync(self) -> None:
        self._files.watch("sync", self._path)
        self._file.sync()

    def close(self) -> None:
        self._files.watch("close", self._path)
        self._file.close()


class SlowDisk(WatchedFiles):
    """Whose operations do not end until `go_on`, once they are told to hang."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self._hanging = frozenset[str]()
        self._open = threading.Event()
        self._open.set()
        self.reached = threading.Event()
        """Whether an operation hangs."""

    def hang(self, *operations: str) -> None:
        """Let these operations hang from now on."""
        self._hanging = frozenset(operations)
        self.reached.clear()
        self._open.clear()

    def go_on(self) -> None:
        """Let all operations go on."""
        self._hanging = frozenset()
        self._open.set()

    def _wait(self, operation: str, _path: Path) -> None:
        if operation in self._hanging:
            self.reached.set()
            assert self._open.wait(60), "nobody let the disk go on"
