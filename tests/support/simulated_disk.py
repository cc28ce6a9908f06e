"""A disk in memory that can lose power and return errors, as seen through storage.segments.files.

What a file held at its last sync survives. Of what was written since, power loss keeps a prefix
torn anywhere, or loses single sectors, which then read as zeros. A name survives if its directory
was synced; a file renamed since then has any one of the names it had, whatever became of other
files, so that a file may be gone whose name another took. After a failed sync the pages count as
clean, as on Linux: trying again saves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

SECTOR = 512


@dataclass
class Inode:
    """The contents of a file in the page cache and on the disk."""

    current: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Position and data of writes since the last sync; None cuts the file at the position."""
    in_place: bool = False
    """Sectors that were there are written anew: each arrives on its own or not at all."""

    def change(self, at: int, data: bytes | None) -> None:
        _apply(self.current, at, data)
        self.pending.append((at, data))

    def sync(self) -> None:
        for at, data in self.pending:
            _apply(self.durable, at, data)
        self.pending.clear()

    def settle(self, change: tuple[int, bytes | None]) -> None:
        """One of the changes reaches the disk."""
        _apply(self.durable, *change)
        self.forget(change)

    def settle_range(self, change: tuple[int, bytes | None]) -> None:
        """The same for one in place: what was to be written there before counts no more."""
        at, data = change
        end = at + len(data or b"")
        kept: list[tuple[int, bytes | None]] = []
        for other in self.pending:
            begin, older = other
            if other is change or older is None or begin >= end or begin + len(older) <= at:
                kept.append(other)
                continue
            if begin < at:
                kept.append((begin, older[: at - begin]))
            if begin + len(older) > end:
                kept.append((end, older[end - begin :]))
        self.pending[:] = kept
        self.settle(change)

    def settle_some(self, change: tuple[int, bytes | None], random: Random) -> None:
        """Some sectors of a change reach the disk, and the others never will."""
        at, data = change
        if data is not None and self.in_place:
            _apply_some_sectors(self.durable, at, data, random)
        else:
            _apply(self.durable, at, None if data is None else data[: random.randint(0, len(data))])
        self.forget(change)

    def settle_some_sectors(
        self, changes: Sequence[tuple[int, bytes | None]], random: Random
    ) -> None:
        """Some sectors that the changes touch reach the disk as they are now, the others never."""
        touched: set[int] = set()
        for at, data in changes:
            touched.update(range(at - at % SECTOR, at + len(data or b""), SECTOR))
        for begin in sorted(touched):
            now = bytes(self.current[begin : begin + SECTOR])
            if now and random.random() < 0.5:
                _apply(self.durable, begin, now)
        for change in changes:
            self.forget(change)

    def forget(self, change: tuple[int, bytes | None]) -> None:
        self.pending[:] = [each for each in self.pending if each is not change]

    def copy(self) -> "Inode":
        return Inode(
            bytearray(self.current), bytearray(self.durable), list(self.pending), self.in_place
        )

    def after_power_loss(self, random: Random) -> "Inode":
        contents = bytearray(self.durable)
        if self.in_place:
            for at, data in self.pending:
                _apply_some_sectors(contents, at, data or b"", random)
            return Inode(contents, bytearray(contents), in_place=True)
        kept = random.randint(0, len(self.pending))
        for at, data in self.pending[:kept]:
            _apply(contents, at, data)
        if kept < len(self.pending) and (data := self.pending[kept][1]) is not None:
            _apply(contents, self.pending[kept][0], data[: random.randint(0, len(data))])
        elif random.random() < 0.5:
            self._lose_sectors(contents, random)
        return Inode(contents, bytearray(contents))

    def _lose_sectors(self, contents: bytearray, random: Random) -> None:
        """Zero some of the sectors that were never written before."""
        for start in range(0, len(contents), SECTOR):
            if start + SECTOR > len(self.durable) and random.random() < 0.3:
                begin = max(start, len(self.durable))
                end = min(start + SECTOR, len(contents))
                contents[begin:end] = bytes(max(end - begin, 0))


@cache
def _parent(path: Path) -> Path:
    return path.parent


def _apply(contents: bytearray, at: int, data: bytes | None) -> None:
    if len(contents) < at:
        contents.extend(bytes(at - len(contents)))
    if data is None:
        del contents[at:]
    else:
        contents[at : at + len(data)] = data


def _apply_some_sectors(contents: bytearray, at: int, data: bytes, random: Random) -> None:
    start = at
    while start < at + len(data):
        end = min(start - start % SECTOR + SECTOR, at + len(data))
        if random.random() < 0.5:
            _apply(contents, start, data[start - at : end - at])
        start = end


class SimulatedBlockFile:
    """Implements files.BlockFile."""

    def __init__(self, disk: "SimulatedDisk", inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._closed = False

    def size(self) -> int:
        return len(self._inode.current)

    def read(self, at: int, size: int) -> bytes:
        self._disk.enter("read")
        return bytes(self._inode.current[at : at + size])

    def write(self, at: int, data: bytes, *, durably: bool = True) -> None:
        self._check_open()
        self._inode.change(at, data)
        self._disk.enter("write")
        if durably:
            self._inode.sync()

    def note(self, at: int, data: bytes) -> None:
        self._check_open()
        self._inode.change(at, data)
        self._disk.enter("note")

    def fill(self, at: int, size: int) -> None:
        self.write(at, bytes(size))

    def sync(self) -> None:
        self._check_open()
        try:
            self._disk.enter("sync")
        except OSError:
            self._inode.pending.clear()
            raise
        self._inode.sync()

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(9, "Bad file descriptor")

    def close(self) -> None:
        self._closed = True


class SimulatedFile:
    """Implements files.File."""

    def __init__(self, disk: "SimulatedDisk", inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._closed = False

    def _enter(self, operation: str) -> None:
        if self._closed:
            raise OSError(9, "Bad file descriptor")
        self._disk.enter(operation)

    def size(self) -> int:
        self._enter("size")
        return len(self._inode.current)

    def read(self, at: int, size: int) -> bytes:
        self._enter("read")
        return bytes(self._inode.current[at : at + size])

    def append(self, data: bytes) -> None:
        try:
            self._enter("append")
        except OSError:
            self._inode.change(len(self._inode.current), data[: len(data) // 2])
            raise
        self._inode.change(len(self._inode.current), data)

    def truncate(self, size: int) -> None:
        self._enter("truncate")
        self._inode.change(size, None)

    def sync(self) -> None:
        try:
            self._enter("sync")
        except OSError:
            self._inode.pending.clear()
            raise
        self._inode.sync()

    def close(self) -> None:
        self._closed = True


class RenameHistory(NamedTuple):
    """The names of a file since its directory was synced, with the number of each rename."""

    inode: Inode
    names: list[Path]
    times: list[int]


class SimulatedDisk:
    """Implements files.Files."""

    def __init__(self) -> None:
        self.names_now: dict[Path, Inode | None] = {}
        """None is a directory."""
        self.durable_names: dict[Path, Inode | None] = {}
        self._rename_histories: dict[int, RenameHistory] = {}
        """Of files whose renames are not durable yet, by the inode's id."""
        self._renames = 0
        self.syncs = 0
        self.on_operation: Callable[[str], None] = lambda _operation: None
        self.boot = b"\1" * 16
        """The start of the machine, another one after each loss of power."""
        self._faults: dict[str, list[OSError]] = {}

    # --- for tests ---

    def fail(self, operation: str, error: OSError, times: int = 1) -> None:
        """Let the next uses of an operation fail; a failed append writes half of its data."""
        self._faults.setdefault(operation, []).extend([error] * times)

    def lose_power(self, random: Random) -> "SimulatedDisk":
        """The disk after a loss of power."""
        after = SimulatedDisk()
        after.boot = (int.from_bytes(self.boot, "big") + 1).to_bytes(16, "big")
        renamed = {path for history in self._rename_histories.values() for path in history.names}
        for path in {**self.durable_names, **self.names_now}:
            if path in renamed:
                continue
            was, now = path in self.durable_names, path in self.names_now
            if (was and now) or random.random() < 0.5:
                inode = self.names_now[path] if now else self.durable_names[path]
                after.names_now[path] = None if inode is None else inode.after_power_loss(random)
        for path, inode in self._placed(renamed, random).items():
            after.names_now[path] = inode.after_power_loss(random)
        for path in list(after.names_now):
            if any(
                above in self.names_now and above not in after.names_now for above in path.parents
            ):
                del after.names_now[path]
        after.durable_names = dict(after.names_now)
        return after

    def kill(self) -> "SimulatedDisk":
        """The disk after the end of the process: all written data is there, synced or not."""
        after = SimulatedDisk()
        after.boot = self.boot
        copies = {id(inode): inode.copy() for inode in self._inodes()}
        after.names_now = {p: inode and copies[id(inode)] for p, inode in self.names_now.items()}
        after.durable_names = {
            path: inode and copies[id(inode)] for path, inode in self.durable_names.items()
        }
        after._rename_histories = {
            id(copies[number]): history._replace(inode=copies[number])
            for number, history in self._rename_histories.items()
        }
        after._renames = self._renames
        return after

    def _inodes(self) -> list[Inode]:
        trails = [history.inode for history in self._rename_histories.values()]
        named = [*self.names_now.values(), *self.durable_names.values()]
        return [*trails, *(inode for inode in named if inode is not None)]

    def _placed(self, renamed: set[Path], random: Random) -> dict[Path, Inode]:
        """The paths of renamed files, and of files at those paths, after a loss of power.

        Each file keeps one of its names, chosen independently; a later rename wins a path.
        """
        moved = {id(history.inode) for history in self._rename_histories.values()}
        placed = {
            path: (-1, inode)
            for path in sorted(renamed)
            if (inode := self.durable_names.get(path)) is not None and id(inode) not in moved
        }
        for history in self._rename_histories.values():
            choices: list[tuple[int, Path] | None] = [
                *zip(history.times, history.names, strict=True)
            ]
            is_gone = self.names_now.get(history.names[-1]) is not history.inode
            if is_gone or self.durable_names.get(history.names[0]) is not history.inode:
                choices.append(None)
            if (choice := random.choice(choices)) is not None:
                time, path = choice
                if path not in placed or placed[path][0] < time:
                    placed[path] = time, history.inode
        return {path: inode for path, (_, inode) in placed.items()}

    def enter(self, operation: str) -> None:
        self.on_operation(operation)
        self.syncs += operation == "sync"
        if faults := self._faults.get(operation):
            raise faults.pop(0)

    def has_durably(self, data: bytes) -> bool:
        """Whether some file with a durable name has the bytes on the disk."""
        return any(
            inode is not None and data in inode.durable for inode in self.durable_names.values()
        )

    def drop_directory(self, path: Path) -> None:
        """Remove a directory and its contents durably."""
        for names in (self.names_now, self.durable_names):
            for name in [each for each in names if each == path or path in each.parents]:
                del names[name]
        self._rename_histories = {
            number: history
            for number, history in self._rename_histories.items()
            if path not in history.names[-1].parents
        }

    # --- files.Files ---

    def open(self, path: Path) -> SimulatedFile:
        self.enter("open")
        inode = self.names_now.setdefault(path, Inode())
        assert inode is not None
        return SimulatedFile(self, inode)

    def open_block(self, path: Path) -> SimulatedBlockFile:
        self.enter("open")
        inode = self.names_now.setdefault(path, Inode())
        assert inode is not None
        # A segment is appended to all the same.
        inode.in_place = path.suffix != ".log"
        return SimulatedBlockFile(self, inode)

    def names(self, directory: Path) -> list[str]:
        return [path.name for path in self.names_now if _parent(path) == directory]

    def make_directory(self, path: Path) -> None:
        self.enter("make_directory")
        self.names_now.setdefault(path, None)

    def remove(self, path: Path) -> None:
        self.enter("remove")
        self.names_now.pop(path, None)

    def rename(self, path: Path, to: Path) -> None:
        self.enter("rename")
        inode = self.names_now[to] = self.names_now.pop(path)
        assert inode is not None, "directories are not renamed"
        history = self._rename_histories.setdefault(id(inode), RenameHistory(inode, [path], [-1]))
        self._renames += 1
        history.names.append(to)
        history.times.append(self._renames)

    def replace(self, path: Path, data: bytes) -> None:
        self.enter("replace")
        inode = Inode(bytearray(data), bytearray(data))
        self.names_now[path] = self.durable_names[path] = inode

    def sync_directory(self, path: Path) -> None:
        self.enter("sync_directory")
        self._rename_histories = {
            number: history
            for number, history in self._rename_histories.items()
            if _parent(history.names[-1]) != path
        }
        for name in {**self.names_now, **self.durable_names}:
            if _parent(name) == path:
                if name in self.names_now:
                    self.durable_names[name] = self.names_now[name]
                else:
                    del self.durable_names[name]
