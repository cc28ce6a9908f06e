"""The temporary folder of `run --dev`: gone when its server is, or when the next one starts.

A server that is killed leaves its folder behind. The next one removes every folder that has our
name, our user's and a lock file that nobody holds, and nothing else.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "coordinator-dev-"
DATA: Final = "data"
LOCK: Final = "in-use"
"""Held as long as the server lives; it has this name only once it is held."""


@contextmanager
def temporary_data_dir() -> Iterator[Path]:
    """Where a server may have its data until it ends. Raises OSError."""
    _remove_left()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    unnamed = folder / f"{LOCK}.new"
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unnamed.rename(folder / LOCK)
        yield folder / DATA
    finally:
        _remove(folder)
        os.close(lock)


def _remove_left() -> None:
    """Remove what servers have left that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    """Raises OSError where somebody holds the lock, or there is none."""
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """The lock goes last: what is interrupted can be gone on with."""
    shutil.rmtree(folder / DATA, ignore_errors=True)
    with suppress(OSError):
        if not (folder / DATA).exists():
            (folder / LOCK).unlink()
            folder.rmdir()
