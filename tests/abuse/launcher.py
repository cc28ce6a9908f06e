"""A server for attacks: on a core, with a priority, a file limit, slow files or a planted failure.

`python -m tests.abuse.launcher [options] run ...`: what follows the options is the server's own
command line.
"""

import argparse
import asyncio
import resource
import sys
import time
from pathlib import Path
from typing import Any

from coordinator_server.cli.main import main
from coordinator_server.storage.segments.files import (
    SYSTEM_FILES,
    SystemBlockFile,
    SystemFile,
    SystemFiles,
)
from tests.abuse.placing import place


class Slowness:
    """Delays operations on files once a file says for how many seconds each."""

    def __init__(self, orders: Path) -> None:
        self._orders = orders

    def delay(self) -> None:
        """Sleep if the file is there."""
        try:
            seconds = float(self._orders.read_text())
        except (FileNotFoundError, ValueError):
            return
        time.sleep(seconds)


class SlowFile(SystemFile):
    """A file that is appended to and synced slowly."""

    __slots__ = ("_slowness",)

    def __init__(self, path: Path, slowness: Slowness) -> None:
        slowness.delay()
        super().__init__(path)
        self._slowness = slowness

    def append(self, data: bytes) -> None:
        """See File."""
        self._slowness.delay()
        super().append(data)

    def truncate(self, size: int) -> None:
        """See File."""
        self._slowness.delay()
        super().truncate(size)

    def sync(self) -> None:
        """See File."""
        self._slowness.delay()
        super().sync()


class SlowBlockFile(SystemBlockFile):
    """A journal that is written and synced slowly."""

    __slots__ = ("_slowness",)

    def __init__(self, path: Path, slowness: Slowness) -> None:
        slowness.delay()
        super().__init__(path)
        self._slowness = slowness

    def write(self, at: int, data: bytes, *, durably: bool = True) -> None:
        """See BlockFile."""
        self._slowness.delay()
        super().write(at, data, durably=durably)

    def fill(self, at: int, size: int) -> None:
        """See BlockFile."""
        self._slowness.delay()
        super().fill(at, size)

    def sync(self) -> None:
        """See BlockFile."""
        self._slowness.delay()
        super().sync()


class SlowFiles(SystemFiles):
    """The system's file layer on a slow disk."""

    slowness: Slowness

    def open_block(self, path: Path) -> SlowBlockFile:
        """See Files."""
        return SlowBlockFile(path, self.slowness)

    def open(self, path: Path) -> SlowFile:
        """See Files."""
        return SlowFile(path, self.slowness)

    def names(self, directory: Path) -> list[str]:
        """See Files."""
        self.slowness.delay()
        return super().names(directory)

    def rename(self, path: Path, to: Path) -> None:
        """See Files."""
        self.slowness.delay()
        super().rename(path, to)

    def replace(self, path: Path, data: bytes) -> None:
        """See Files."""
        self.slowness.delay()
        super().replace(path, data)

    def sync_directory(self, path: Path) -> None:
        """See Files."""
        self.slowness.delay()
        super().sync_directory(path)


def slow_down(files: SystemFiles, orders: Path) -> None:
    """Turn the file layer that every log holds into a slow one."""
    slow = SlowFiles()
    slow.slowness = Slowness(orders)
    files.__class__ = SlowFiles
    vars(files).update(vars(slow))


def block_for(seconds: float) -> None:
    """Plant a failure: every ListGroups request blocks the event loop."""
    from coordinator_server.api import list_groups

    served: Any = list_groups.handle

    def blocking(*arguments: Any) -> Any:
        time.sleep(seconds)
        return served(*arguments)

    async def blocking_later(*arguments: Any) -> Any:
        time.sleep(seconds)  # noqa: ASYNC251 - to block the loop is its purpose
        return await served(*arguments)

    is_async = asyncio.iscoroutinefunction(served)
    vars(list_groups)["handle"] = blocking_later if is_async else blocking


def use_asyncio() -> None:
    """Serve with asyncio's own event loop instead of uvloop."""
    import uvloop

    vars(uvloop)["run"] = asyncio.run


def parsed() -> tuple[argparse.Namespace, list[str]]:
    """Split the command line at `run`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--core", type=int)
    parser.add_argument("--priority", type=int, default=0)
    parser.add_argument("--nofile", type=int, default=0)
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    parser.add_argument("--slow-disk", type=Path, help="file with the seconds of each operation")
    parser.add_argument("--block-loop", type=float, default=0.0)
    at = sys.argv.index("run")
    return parser.parse_args(sys.argv[1:at]), sys.argv[at:]


def run() -> None:
    """Prepare this process and serve."""
    options, arguments = parsed()
    place(options.core, options.priority)
    if options.nofile:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options.nofile, options.nofile))
    if options.loop == "asyncio":
        use_asyncio()
    if options.slow_disk:
        slow_down(SYSTEM_FILES, options.slow_disk)
    if options.block_loop:
        block_for(options.block_loop)
    sys.argv = ["coordinator-server", *arguments]
    main()


if __name__ == "__main__":
    run()
