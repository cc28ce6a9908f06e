"""The simulated disk as the scheduled threads see it: every operation is a step, may fail, or last.

Before and after the effect of an operation other threads may run, and the power may be cut.
"""

import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.simulation.storage.scheduler import Scheduler
from tests.support.simulated_disk import Inode, SimulatedDisk

CHANGING = frozenset(
    {"append", "write", "fill", "sync", "truncate", "remove", "rename", "sync_directory", "open"}
)


@dataclass(frozen=True, slots=True)
class Weather:
    """How often operations fail or last."""

    failing: float = 0.0
    reading_fails: float = 0.0
    slow: float = 0.0


class SimFiles:
    """Implements files.Files."""

    def __init__(
        self,
        disk: SimulatedDisk,
        scheduler: Scheduler,
        random: Random,
        weather: Weather,
        tell: Callable[[str], None],
    ) -> None:
        self.disk = disk
        self._scheduler = scheduler
        self.random = random
        self.weather = weather
        self._tell = tell
        self.open_files: dict[int, Path] = {}
        self._opened = 0
        self.happened: Callable[[str, str], None] = lambda _what, _suffix: None
        """Told of every operation that begins, and of every failure."""

    def enter(self, operation: str, path: Path, detail: str = "") -> OSError | None:
        """Begin an operation; the error it is to end with."""
        self._scheduler.step()
        random, weather = self.random, self.weather
        if weather.slow and random.random() < weather.slow:
            ms = random.choice([1, 5, 40, 300, 2_000])
            self._tell(f"{operation} of {path.name} lasts {ms} ms")
            self._scheduler.sleep(ms, f"{operation} of {path.name}")
        chance = weather.failing if operation in CHANGING else weather.reading_fails
        error = None
        if chance and random.random() < chance:
            code = random.choice([errno.EIO, errno.ENOSPC])
            error = OSError(code, f"simulated failure of {operation}", str(path))
        self.happened(operation, path.suffix)
        if error is not None:
            self.happened("failure", path.suffix)
        current = self._scheduler.current
        name = "?" if current is None else current.name
        self._tell(f"{name}: {operation} {path.name}{detail}{' FAILS' if error else ''}")
        return error

    def leave(self) -> None:
        """End an operation."""
        self._scheduler.step()

    def do(self, operation: str, path: Path, effect: Callable[[], Any], detail: str = "") -> Any:
        """An operation that happens or fails as a whole."""
        error = self.enter(operation, path, detail)
        if error is not None:
            raise error
        result = effect()
        self.leave()
        return result

    # --- files.Files ---

    def open(self, path: Path) -> "SteppedFile":
        return SteppedFile(self, path, self.do("open", path, lambda: self._inode_of(path)))

    def open_block(self, path: Path) -> "SteppedBlockFile":
        inode = self.do("open", path, lambda: self._inode_of(path))
        return SteppedBlockFile(self, path, inode)

    def _inode_of(self, path: Path) -> Inode:
        if path.parent not in self.disk.names_now:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        inode = self.disk.names_now.setdefault(path, Inode())
        assert inode is not None
        return inode

    def opened(self, path: Path) -> int:
        """Count an open file; the number to give back."""
        self._opened += 1
        self.open_files[self._opened] = path
        return self._opened

    def lose(self, inode: Inode, changes: list[tuple[int, bytes | None]]) -> None:
        """The system drops dirty pages: some have reached the disk, none ever will."""
        # Sizes are metadata, which the file system writes again.
        lost = [
            change
            for change in changes
            if change[1] is not None and any(change is each for each in inode.pending)
        ]
        if not inode.in_place:
            inode.settle_some_sectors(lost, self.random)
            return
        for change in lost:
            inode.settle_some(change, self.random)

    def names(self, directory: Path) -> list[str]:
        def list_names() -> list[str]:
            if directory not in self.disk.names_now:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(directory))
            return self.disk.names(directory)

        found: list[str] = self.do("names", directory, list_names)
        return found

    def make_directory(self, path: Path) -> None:
        self.do("make_directory", path, lambda: self.disk.make_directory(path))

    def remove(self, path: Path) -> None:
        self.do("remove", path, lambda: self.disk.remove(path))

    def rename(self, path: Path, to: Path) -> None:
        def rename() -> None:
            if path not in self.disk.names_now:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            self.disk.rename(path, to)

        self.do("rename", path, rename, f" to {to.name}")

    def replace(self, path: Path, data: bytes) -> None:
        """As SystemFiles: a file beside it, which takes its name, and then the directory."""
        fresh = path.with_name(path.name + ".tmp")
        file = self.open(fresh)
        try:
            if file.size():
                file.truncate(0)
            file.append(data)
            file.sync()
        finally:
            file.close()
        self.rename(fresh, path)
        self.sync_directory(path.parent)

    def replace_by(self, path: Path, pieces: Iterable[bytes]) -> None:
        self.replace(path, b"".join(pieces))

    def sync_directory(self, path: Path) -> None:
        self.do("sync_directory", path, lambda: self.disk.sync_directory(path))


class _Open:
    """An open file: contents in the page cache, and what of them is on the disk."""

    def __init__(self, files: SimFiles, path: Path, inode: Inode) -> None:
        self._files = files
        self._path = path
        self._inode = inode
        self._closed = False
        self._number = files.opened(path)

    def _enter(self, operation: str, detail: str = "") -> OSError | None:
        error = self._files.enter(operation, self._path, detail)
        if self._closed:
            raise OSError(errno.EBADF, "Bad file descriptor", str(self._path))
        return error

    def size(self) -> int:
        if self._closed:
            raise OSError(errno.EBADF, "Bad file descriptor", str(self._path))
        return len(self._inode.current)

    def read(self, at: int, size: int) -> bytes:
        error = self._enter("read", f" {size} at {at}")
        if error is not None:
            raise error
        return bytes(self._inode.current[at : at + size])

    def sync(self) -> None:
        """What was written before it begins is on the disk when it ends.

        After an error the pages count as clean, whether they reached the disk or not.
        """
        error = self._enter("sync")
        inode, begun = self._inode, list(self._inode.pending)
        self._files.leave()
        if error is not None:
            self._files.lose(inode, begun)
            raise error
        for change in begun:
            if any(change is each for each in inode.pending):
                inode.settle(change)
        self._files.leave()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            del self._files.open_files[self._number]


class SteppedFile(_Open):
    """Implements files.File."""

    def append(self, data: bytes) -> None:
        error = self._enter("append", f" {len(data)} at {self.size()}")
        if error is not None:
            data = data[: self._files.random.randint(0, len(data))]
        self._inode.change(len(self._inode.current), data)
        self._files.leave()
        if error is not None:
            raise error

    def truncate(self, size: int) -> None:
        error = self._enter("truncate", f" to {size}")
        if error is not None:
            raise error
        self._inode.change(size, None)
        self._files.leave()


class SteppedBlockFile(_Open):
    """Implements files.BlockFile."""

    def __init__(self, files: SimFiles, path: Path, inode: Inode) -> None:
        super().__init__(files, path, inode)
        # A segment is appended to all the same.
        inode.in_place = path.suffix != ".log"

    def write(self, at: int, data: bytes, *, durably: bool = True) -> None:
        """A durable write is for this range alone; while it lasts any sectors may be there."""
        error = self._enter("write", f" {len(data)} at {at}, {'durably' if durably else 'cached'}")
        inode = self._inode
        inode.change(at, data)
        change = inode.pending[-1]
        self._files.leave()
        if error is not None:
            self._files.lose(inode, [change])
            raise error
        if durably:
            if any(change is each for each in inode.pending):
                inode.settle_range(change)
            self._files.leave()

    def note(self, at: int, data: bytes) -> None:
        self.write(at, data, durably=False)

    def fill(self, at: int, size: int) -> None:
        self.write(at, bytes(size))
