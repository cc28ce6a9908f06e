"""The journal of a data directory: what all its logs took in a moment goes to disk in one write.

The segments get the same batches later and in bulk. When a file of the journal is full the next one
goes on, while the logs named in the full one are written and synced; then it is used again under a
new generation, which makes what it holds stale. Opening a log first writes into it what the journal
has of it, so a crash at any moment leaves either the segments synced or the journal whole. Blocks;
one thread writes, another one checkpoints, and one may sync.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread
from typing import Final

from coordinator_server.storage.segments import journal_names
from coordinator_server.storage.segments.checkpoint import RecoveryPoints
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files, exists
from coordinator_server.storage.segments.frames import (
    HEADER_BYTES,
    NO_HEADER,
    Header,
    Run,
    file_header,
    folded,
    frame,
    frame_size,
)
from coordinator_server.storage.segments.identity import directory_of
from coordinator_server.storage.segments.journal_file import (
    FIRST_BYTES,
    JournalFile,
    entries_in,
    find,
)

DEFAULT_BYTES: Final = 64 * 1024 * 1024

Report = Callable[..., None]
"""Called as `report(event, **fields)` for the log."""


class Journaled(ABC):
    """A log as the journal knows it."""

    directory: Path
    identity: bytes
    end_offset: int

    @abstractmethod
    def settle(self) -> int | None:
        """Write and sync what was appended so far: up to where; None if that failed. Blocks."""


class Journal:
    """Writes entries, and knows what of them the segments may still lack."""

    def __init__(
        self,
        directory: Path,
        *,
        owner: str = "",
        capacity: int = DEFAULT_BYTES,
        writes: bool = True,
        syncs: bool = True,
        fills_gaps: bool = False,
        files: Files = SYSTEM_FILES,
        report: Report = lambda *_args, **_fields: None,
    ) -> None:
        """Find the files that an earlier life has left; `owner` names one of several journals.

        With `syncs` a write is on disk when it returns; otherwise it only survives the process,
        and `write` never waits for anybody. Raises OSError.
        """
        self.points = RecoveryPoints(directory, files, owner)
        self._owner = owner
        self.is_written = writes
        """Whether logs hand over what they append; otherwise it is only replayed."""
        self.syncs = syncs
        self.written_bytes = 0
        """By this process, to all files."""
        self.fills_gaps = fills_gaps
        """Whether a replay goes on where a segment has lost what came before; somebody said so."""
        self._directory = directory
        self._capacity = capacity
        self._files = files
        self._report = report
        self._changed = Condition()
        """Guards what follows; notified when a checkpoint has ended."""
        self._logs: dict[str, Journaled] = {}
        """The latest of every directory, open or closed."""
        self._current: JournalFile | None = None
        self._full: list[JournalFile] = []
        self._free: list[JournalFile] = []
        self._checkpointing: Thread | None = None
        self._is_wanted_again = False
        """Something has become full, or was given up, since the checkpoint began."""
        self._sequence = 0
        self._generation = 0
        self._number = 0
        self._find()

    def _find(self) -> None:
        """Take up the files there are; those with entries are full."""
        numbers = journal_names.numbers(self._directory, self._owner, self._files)
        self._number = max(numbers, default=-1) + 1
        # As they were written: a file may have got its generation before one that was used first.
        found = sorted(
            (find(self._files, self._path_of(number)) for number in numbers),
            key=lambda each: each.first,
        )
        self._full = [each.file for each in found]
        self._sequence = max((each.last for each in found), default=0)
        self._generation = max((file.generation for file in self._full), default=0)

    def _path_of(self, number: int) -> Path:
        return self._directory / journal_names.file_name(self._owner, number)

    # --- logs ---

    def directories(self) -> list[str]:
        """The directories of logs of which segments may lack what is here."""
        with self._changed:
            return sorted({name for file in self._live() for name in file.names})

    def has(self, identity: bytes) -> bool:
        """Whether there may be something of a log."""
        with self._changed:
            return any(directory_of(identity) in file.names for file in self._live())

    def runs_of(self, identity: bytes, first: int = 0) -> list[Run]:
        """What there is of a log from an offset on, in order. Raises OSError."""
        name = directory_of(identity)
        with self._changed:
            live = [(f.path, f.header) for f in self._live() if name in f.names]
        found = [each for file in live for each in entries_in(self._files, *file)]
        return folded((entry for entry in found if entry.identity == identity), first)

    def out_of_reach(self, path: Path, offset: int) -> None:
        """Say that records at an offset are no use: what came before was lost with the power."""
        self._report("journal_out_of_reach", segment=str(path), offset=offset)

    def opened(self, log: Journaled, end_offset: int) -> None:
        """A log has got what is here, and it is synced: from now on it answers for itself.

        Raises OSError.
        """
        with self._changed:
            self._logs[log.directory.name] = log
        # A checkpoint may have noted more, of the one that was here before.
        self.points.lower(log.directory.name, end_offset)

    def _live(self) -> list[JournalFile]:
        """The files with entries, oldest first."""
        return [*self._full, *([] if self._current is None else [self._current])]

    # --- writing ---

    def write(self, parts: Sequence[bytes], logs: Iterable[Journaled]) -> None:
        """Write the parts of entries, which are of these logs.

        Raises OSError; it is not known then whether they are on disk, and the file is given up.
        """
        body = b"".join(parts)
        size = frame_size(len(body))
        current = self._with_room(size)
        self._sequence += 1
        data = frame(current.generation, self._sequence, body)
        for log in logs:
            if log.identity not in current.ends:
                with self._changed:
                    # Before the write: once any of it is there, the file is needed until it is
                    # settled.
                    current.names.add(log.directory.name)
            current.reach(log.identity, log.end_offset)
        try:
            if self.syncs:
                current.make_room(size, self._capacity)
            current.file.write(current.position, data, durably=self.syncs)
        except OSError:
            self._give_up(current)
            raise
        current.position += size
        current.is_dirty = not self.syncs
        self.written_bytes += size

    def _with_room(self, size: int) -> JournalFile:
        """The file to write into; a full one is left to a checkpoint. Raises OSError."""
        current = self._current
        if current is not None:
            if current.position == HEADER_BYTES or current.position + size <= self._capacity:
                return current
            if not self.syncs and not self._free and self._checkpointing is not None:
                # Nobody may wait for it, so this one takes a little more.
                return current
            with self._changed:
                self._full.append(current)
                self._current = None
        self.begin_checkpoint()
        with self._changed:
            while self._must_wait():
                self._changed.wait()
            fresh = self._free.pop(0) if self._free else None
        fresh = fresh or self._make_file()
        with self._changed:
            self._current = fresh
        return fresh

    def _must_wait(self) -> bool:
        """Whether the next file is the one that is just being freed: there are two, if possible."""
        is_freeing = self._checkpointing is not None and not self._free
        return is_freeing and self.syncs and len(self._full) > 1

    def _make_file(self) -> JournalFile:
        path = self._path_of(self._number)
        self._number += 1
        made = JournalFile(path, self._files.open_block(path), 0, NO_HEADER)
        try:
            if self.syncs:
                made.file.fill(0, FIRST_BYTES)
                made.size = FIRST_BYTES
            self._begin_generation(made)
            if self.syncs:
                self._files.sync_directory(self._directory)
        except OSError:
            made.file.close()
            with suppress(OSError):
                self._files.remove(path)
            raise
        return made

    def _begin_generation(self, file: JournalFile) -> None:
        """Make all that a file holds stale."""
        with self._changed:
            self._generation += 1
            header = Header(self._generation, self.syncs)
        # Over an older one it is always durable: frames of two generations must not be mixed up.
        file.file.write(0, file_header(header), durably=self.syncs or file.generation > 0)
        file.header = header
        file.position = HEADER_BYTES
        file.names, file.ends = set(), {}

    def _give_up(self, file: JournalFile) -> None:
        """Never write into a file again: what the system says of it is worth nothing now."""
        file.broken = True
        file.file.close()
        with self._changed:
            self._full.append(file)
            self._current = None

    def sync(self) -> list[JournalFile]:
        """Make durable what was written without; which files that failed for. Blocks.

        Another thread may write meanwhile; that one hands over to `abandon` what has failed.
        """
        with self._changed:
            dirty = [file for file in self._live() if file.is_dirty]
        failed = []
        for file in dirty:
            # Before the sync: what is written meanwhile is for the next one.
            file.is_dirty = False
            try:
                file.file.sync()
                self._files.sync_directory(self._directory)
            except OSError as error:
                failed.append(file)
                self._report("journal_sync_failed", file=str(file.path), error=str(error))
        return failed

    def abandon(self, failed: Iterable[JournalFile]) -> None:
        """Give up files that could not be synced: the segments are, with all that is in them."""
        for file in failed:
            if file is self._current:
                self._give_up(file)
            file.broken = True
        self.begin_checkpoint()

    # --- checkpoints ---

    def begin_checkpoint(self) -> None:
        """Free the full files in a thread of its own, unless one is at it."""
        with self._changed:
            if self._checkpointing is not None or not self._full:
                self._is_wanted_again = self._checkpointing is not None
                return
            thread = Thread(target=self._run_checkpoint, name="journal-checkpoint", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # The system has no thread left: the next full file tries again.
                self._report("journal_checkpoint_failed", error=str(error))
                return
            self._checkpointing = thread

    def _run_checkpoint(self) -> None:
        goes_on = True
        while goes_on:
            raised = True
            try:
                self.checkpoint()
                raised = False
            finally:
                with self._changed:
                    goes_on, self._is_wanted_again = self._is_wanted_again and not raised, False
                    if not goes_on:
                        self._checkpointing = None
                    self._changed.notify_all()

    def checkpoint(self) -> bool:
        """Sync what the full files have entries of and free them; whether all could be freed."""
        try:
            self._forget_deleted()
        except OSError as error:
            self._report("journal_checkpoint_failed", file=str(self._directory), error=str(error))
        with self._changed:
            full = list(self._full)
        kept: list[JournalFile] = []
        for file in full:
            try:
                if self._settle(file, kept):
                    self._free_file(file)
                    continue
            except OSError as error:
                self._report("journal_checkpoint_failed", file=str(file.path), error=str(error))
            kept.append(file)
        with self._changed:
            return not self._full

    def _forget_deleted(self) -> None:
        """Keep nothing of logs of which the directory is gone. Raises OSError."""
        with self._changed:
            logs = dict(self._logs)
        there = set(self._files.names(self._directory))
        for name in self.points.names() - there:
            self.points.forget(name)
        for name, log in logs.items():
            if name not in there:
                with self._changed:
                    # One made anew meanwhile is another one.
                    if self._logs.get(name) is log:
                        del self._logs[name]

    def _settle(self, file: JournalFile, kept: Sequence[JournalFile]) -> bool:
        """Sync every log with entries in a file and write the recovery points; whether it may go.

        Older files that are kept, for logs that have failed, may have more of a log that was cut
        since: until it has grown past that, a replay needs what this one has instead. Raises
        OSError.
        """
        for name in sorted(file.names):
            log = self._logs.get(name)
            synced = None if log is None else log.settle()
            if log is not None and synced is not None:
                is_latest = self._note(name, log, synced)
                identity = log.identity
                if not is_latest or any(older.ends.get(identity, 0) > synced for older in kept):
                    continue
            elif exists(self._files, self._directory / name):
                continue
            # Otherwise it belonged to a topic that was deleted.
            with self._changed:
                file.names.discard(name)
        # Even if the file has to stay: what was settled must not be replayed over what follows.
        self.points.write()
        return not file.names

    def _note(self, name: str, log: Journaled, synced: int) -> bool:
        """Note a recovery point; not that of a log in whose place another was opened meanwhile."""
        with self._changed:
            is_latest = self._logs.get(name) is log
            if is_latest:
                self.points.note(name, synced)
        return is_latest

    def _free_file(self, file: JournalFile) -> None:
        """Use a settled file again, or remove one that has failed. Raises OSError."""
        if file.broken:
            file.file.close()
            self._files.remove(file.path)
            self._files.sync_directory(self._directory)
        else:
            try:
                self._begin_generation(file)
            except OSError:
                file.broken = True
                file.file.close()
                raise
        with self._changed:
            self._full.remove(file)
            if not file.broken:
                self._free.append(file)

    def close(self) -> bool:
        """Checkpoint and remove the files; False if some must stay, for logs that have failed."""
        with self._changed:
            while self._checkpointing is not None:
                self._changed.wait()
            if self._current is not None:
                self._full.append(self._current)
                self._current = None
        settled = self.checkpoint()
        with suppress(OSError):
            self.points.write()
            self._remove_free()
        for file in [*self._full, *self._free]:
            file.file.close()
        return settled

    def _remove_free(self) -> None:
        while self._free:
            file = self._free.pop()
            file.file.close()
            self._files.remove(file.path)
