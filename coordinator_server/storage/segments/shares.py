"""A data directory that several processes share: whose what is, and how it changes hands.

Partition `p` belongs to share `p % of`. Each share has a journal and offset checkpoints of its own,
named after it, so that no file has two writers. They change hands only while nobody serves.
"""

import fcntl
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coordinator_server.storage.segments.checkpoint import (
    RECOVERY_POINTS_FILE,
    file_of,
    read_offsets,
    write_offsets,
)
from coordinator_server.storage.segments.cleaner_checkpoint import CLEANED_FILE
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.guard import DirectoryGuard
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_names import owners
from coordinator_server.storage.segments.journal_replay import replay_all
from coordinator_server.storage.segments.recovery import Recovery, TopicIds
from coordinator_server.storage.segments.reporting import Report

LOCKS_FILE: Final = ".coordinator-partitions"
"""Bytes of it are locked, none is ever written."""
_JOURNALS_AT: Final = 1 << 40
"""Where the locks of the journals begin, behind those of the partitions."""
PATIENCE_SECONDS: Final = 10.0
"""How long workers of a supervisor that has died may take to be gone."""


@dataclass(frozen=True, slots=True)
class Share:
    """One of `of` parts of a data directory."""

    index: int
    of: int

    def has(self, partition: int) -> bool:
        """Whether a partition, of whatever topic, is in it."""
        return partition % self.of == self.index

    @property
    def name(self) -> str:
        """How its files are called; empty for the whole directory."""
        return f"{self.index}of{self.of}" if self.of > 1 else ""


WHOLE: Final = Share(0, 1)


def is_share_name(text: str) -> bool:
    """Whether a text is the name of a share."""
    index, _, of = text.partition("of")
    return index.isdecimal() and of.isdecimal()


class Taken(OSError):
    """Another process serves a partition; the message says which."""


class ShareLocks:
    """The locks of one share, held until `close` or the end of the process.

    POSIX locks on bytes of one file: a byte for each partition, and one for the journal.
    """

    def __init__(self, directory: Path, share: Share, partitions: int) -> None:
        """Take them. Raises Taken, OSError."""
        self._fd = _open(directory)
        try:
            for partition in filter(share.has, range(partitions)):
                self._take(partition, f"partition {partition}")
            self._take(_JOURNALS_AT + share.index, f"the journal of worker {share.index}")
        except BaseException:
            self.close()
            raise

    def _take(self, at: int, what: str) -> None:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)
        except OSError as error:
            raise Taken(error.errno, f"{what} is served by another process") from error

    def close(self) -> None:
        """Let others have them."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class SharedDirectory:
    """Implements directory.HeldDirectory: a share of one that another process holds."""

    def __init__(
        self, path: Path, share: Share, *, partitions: int, cluster_id: str, start: int
    ) -> None:
        """Take the locks of the share. Raises Taken, OSError."""
        self.path = path
        self.cluster_id = cluster_id
        self.start = start
        self.guard = DirectoryGuard(path)
        try:
            self._locks = ShareLocks(path, share, partitions)
        except BaseException:
            self.guard.close()
            raise

    def close(self) -> None:
        """Let others have it."""
        self._locks.close()
        self.guard.close()


def await_nobody(directory: Path, patience: float = PATIENCE_SECONDS) -> None:
    """Wait until no worker of an earlier life holds anything. Blocks. Raises Taken, OSError."""
    if not (directory / LOCKS_FILE).exists():
        return
    fd = _open(directory)
    until = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if time.monotonic() > until:
                    why = f"{directory}: workers of an earlier start still serve its partitions"
                    raise Taken(error.errno, why) from error
                time.sleep(0.02)
            else:
                return
    finally:
        os.close(fd)


def _open(directory: Path) -> int:
    return os.open(directory / LOCKS_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


class Unsettled(ValueError):
    """A journal of other shares cannot be put into the segments; the message says what to do."""


def take_over(
    directory: Path,
    shares: Iterable[Share],
    report: Report,
    files: Files = SYSTEM_FILES,
    *,
    recovery: Recovery = Recovery.STRICT,
    topic_ids: TopicIds | None = None,
) -> None:
    """Give these shares, which are all, what earlier ones have left: journals and checkpoints.

    The journal of a share that goes on as it was is left to it. Nobody may serve the directory
    meanwhile. Blocks. Raises Unsettled, OSError.
    """
    now = list(shares)
    names = {share.name for share in now}
    for owner in owners(directory, files):
        if owner in names:
            continue
        if not empty_journal(
            directory, owner, report, recovery=recovery, topic_ids=topic_ids, files=files
        ):
            raise Unsettled(
                f"{directory}: the journal of {_spoken(owner)} has records of partitions that "
                "cannot be opened, which only a server with as many workers as before can wait "
                "for: start it like that, or mend them (coordinator-server log repair, then "
                "coordinator-server log checkpoint)"
            )
    for file in (RECOVERY_POINTS_FILE, CLEANED_FILE):
        _hand_out(directory, file, now, files)


def empty_journal(
    directory: Path,
    owner: str,
    report: Report,
    *,
    recovery: Recovery = Recovery.STRICT,
    topic_ids: TopicIds | None = None,
    files: Files = SYSTEM_FILES,
) -> bool:
    """Put what a journal has into the segments; whether nothing is left of it.

    Blocks. Raises OSError.
    """
    journal = Journal(
        directory,
        owner=owner,
        writes=False,
        recovery=recovery,
        topic_ids=topic_ids,
        files=files,
        report=report,
    )
    replay_all(journal, directory, report, files)
    return journal.close()


def _spoken(owner: str) -> str:
    index, _, of = owner.partition("of")
    return f"worker {index} of {of}" if owner else "a server without workers"


def _hand_out(directory: Path, file: str, shares: list[Share], files: Files) -> None:
    """Put the offsets of a checkpoint file where the shares look for theirs.

    New files are complete before old ones go, so a crash in between loses nothing.
    """
    found = [n for n in files.names(directory) if n == file or _is_of_share(n, file)]
    wanted = {file_of(file, share.name): share for share in shares}
    if not found or set(found) <= set(wanted):
        return
    offsets: dict[str, int] = {}
    for name in sorted(found):
        offsets.update(read_offsets(files, directory / name))
    for name, share in wanted.items():
        mine = {log: at for log, at in offsets.items() if share.has(_partition_of(log))}
        write_offsets(files, directory / name, mine)
    for name in set(found) - set(wanted):
        files.remove(directory / name)


def _is_of_share(name: str, file: str) -> bool:
    return name.startswith(f"{file}.") and is_share_name(name.removeprefix(f"{file}."))


def _partition_of(log: str) -> int:
    return int(log.rpartition("-")[2])
