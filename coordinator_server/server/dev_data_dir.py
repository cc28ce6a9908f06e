"""The temporary data directory of `run --dev`, removed at the end of the server.

A killed server leaves its directory behind. The next one removes every directory that has the
prefix, belongs to the same user and has an unlocked lock file.
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
"""Lock file of the running server; it gets this name after it has been locked."""


@contextmanager
def temporary_data_dir() -> Iterator[Path]:
    """Create the directory and remove it at the end. Raises OSError."""
    _remove_abandoned()
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


def _remove_abandoned() -> None:
    """Remove the directories of killed servers."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            _remove_if_unlocked(folder)


def _remove_if_unlocked(folder: Path) -> None:
    """Remove a directory. Raises OSError if its lock is held or missing."""
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """Remove the lock file last, so that another start can continue an interrupted removal."""
    shutil.rmtree(folder / DATA, ignore_errors=True)
    with suppress(OSError):
        if not (folder / DATA).exists():
            (folder / LOCK).unlink()
            folder.rmdir()
