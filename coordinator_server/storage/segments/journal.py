"""The journal of a data directory: one write makes the new batches of all logs durable.

The segments get the same batches later, in large writes. When a journal file is full, the journal
continues in the next one, while a checkpoint writes and syncs the logs with entries in the full
file. The file is then reused under a new generation, which makes its old frames stale. Opening a
log replays its journal entries first, so after a crash every acknowledged record is in a synced
segment or in the journal. All methods block; one thread writes, another one runs checkpoints, and
a third may sync.

Damaged files stay until an operator accepts the loss (`log.recovery`, `log checkpoint
--accept-loss`). Until then the logs that may have lost records cannot be opened.
"""

from asyncio import CancelledError
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.checkpoint import RecoveryPoints
from coordinator_server.storage.segments.directory_files import BROKER_FILE
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files, exists
from coordinator_server.storage.segments.guard import DirectoryGuard
from coordinator_server.storage.segments.journal_checkpoints import JournalCheckpoints
from coordinator_server.storage.segments.journal_file import JournalFile, entries_in
from coordinator_server.storage.segments.journal_files import JournalFiles
from coordinator_server.storage.segments.journal_format import (
    HEADER_BYTES,
    BatchRun,
    frame,
    frame_size,
    merged_runs,
)
from coordinator_server.storage.segments.journal_recovery import JournalRecovery
from coordinator_server.storage.segments.journaled import Journaled
from coordinator_server.storage.segments.log_identity import directory_of, topic_id_of
from coordinator_server.storage.segments.recovery import Recovery, TopicIds, accept_loss_command
from coordinator_server.storage.segments.reporting import Report

DEFAULT_BYTES: Final = 64 * 1024 * 1024


class Journal:
    """Writes journal entries, and tracks which logs may need them for recovery."""

    def __init__(
        self,
        directory: Path,
        *,
        owner: str = "",
        capacity: int = DEFAULT_BYTES,
        writes: bool = True,
        syncs: bool = True,
        recovery: Recovery = Recovery.STRICT,
        topic_ids: TopicIds | None = None,
        guard: DirectoryGuard | None = None,
        boot: bytes | None = None,
        files: Files = SYSTEM_FILES,
        report: Report = lambda *_args, **_fields: None,
    ) -> None:
        """Recover the files that an earlier process has left.

        `owner` names one of several journals in a directory. With `syncs` a write is on disk when
        it returns; otherwise it survives the process only, and `write` does not wait for
        checkpoints. `topic_ids` tells which logs must exist; without it a log without a directory
        counts as deleted. `guard` checks that the data directory was not replaced. Raises OSError.
        """
        self.points = RecoveryPoints(directory, files, owner)
        self.is_written = writes
        """Whether appends are written to the journal; otherwise it is only replayed."""
        self.syncs = syncs
        self.written_bytes = 0
        """Bytes this process has written to all files."""
        self.is_strict = recovery is Recovery.STRICT
        """Whether a log that has lost acknowledged records cannot be opened."""
        self.topic_ids = topic_ids
        self.allows_gaps = not self.is_strict or exists(files, directory / BROKER_FILE)
        """Whether offsets may be missing between segments: losses are accepted, or a broker has
        compacted the logs."""
        self._directory = directory
        self._capacity = capacity
        self._files = files
        self._report = report
        self._guard = guard
        self._journal_files = JournalFiles(directory, owner, files, syncs=syncs, boot=boot)
        if self.points.problem is not None:
            report("checkpoint_damaged", file=str(self.points.path), error=self.points.problem)
        self._recovery = JournalRecovery(
            self._journal_files, directory, owner, files, recovery, report
        )
        self._sequence = self._recovery.sequence
        self._checkpoints = JournalCheckpoints(
            self._journal_files,
            self.points,
            directory,
            is_strict=self.is_strict,
            is_expected=self.is_expected,
            guard=guard,
            files=files,
            report=report,
        )

    # --- logs ---

    def directories(self) -> list[str]:
        """The directories of logs whose segments may lack entries of the journal."""
        with self._journal_files.changed:
            return sorted({name for file in self._journal_files.live() for name in file.names})

    def may_have_entries(self, identity: bytes) -> bool:
        """Whether the journal may have entries of a log."""
        with self._journal_files.changed:
            return any(directory_of(identity) in file.names for file in self._journal_files.live())

    def identities(self, name: str) -> set[bytes]:
        """The identities of the logs of one directory name that the journal has entries of."""
        with self._journal_files.changed:
            return {
                each
                for f in self._journal_files.live()
                for each in f.ends
                if directory_of(each) == name
            }

    def check_undamaged(self, name: str) -> None:
        """Raise CorruptLog if a log may have lost acknowledged records with a damaged file."""
        damage = self._recovery.suspects.get(name)
        if damage is not None:
            raise CorruptLog(
                f"{self._directory / name} may have lost records that were acknowledged: {damage}",
                accept_loss_command(self._directory),
            )

    def is_complete(self, name: str) -> bool:
        """Whether the journal certainly has every batch of a log behind its recovery point."""
        is_known = self._recovery.is_whole and self.points.problem is None
        return is_known and name in self.points.names()

    def note_recovery_point(self, name: str, log: Journaled, synced: int) -> None:
        """Note a recovery point, unless the log was deleted or opened again meanwhile."""
        self._checkpoints.note_recovery_point(name, log, synced)

    def is_expected(self, name: str, topic_id: str | None = None) -> bool:
        """Whether a log must exist: its topic exists, with this id if one is given."""
        if self.topic_ids is None:
            return False
        known = self.topic_ids(name.rpartition("-")[0])
        return known is not None and topic_id in (None, known)

    def is_deleted(self, name: str, topic_id: str) -> bool:
        """Whether the topic of a log was deleted, or recreated with another id.

        The id is empty if the log's directory is not marked with one.
        """
        return self.topic_ids is not None and not self.is_expected(name, topic_id or None)

    def is_of_deleted(self, log: Journaled) -> bool:
        """Whether the topic of an open log was deleted, or recreated with another id."""
        return self.is_deleted(log.directory.name, topic_id_of(log.identity))

    def forget(self, names: Iterable[str]) -> None:
        """Durably remove the recovery points of logs that are about to be deleted. Raises OSError.

        A checkpoint that is running does not note them again, as the logs have failed before.
        """
        for name in names:
            self._checkpoints.forget(name)
        self.points.write()

    def batch_runs(self, identity: bytes, first: int = 0) -> list[BatchRun]:
        """Read the batches of a log from an offset on, in order. Raises OSError."""
        name = directory_of(identity)
        with self._journal_files.changed:
            live = [
                (f.path, f.header, self._journal_files.is_certain(f.header), f.ends_at_hole)
                for f in self._journal_files.live()
                if name in f.names
            ]
        found = [each for file in live for each in entries_in(self._files, *file)]
        return merged_runs((entry for entry in found if entry.identity == identity), first)

    def report_unreachable(self, path: Path, offset: int) -> None:
        """Log that entries at an offset are not replayed: the records before them are missing."""
        self._report("journal_out_of_reach", segment=str(path), offset=offset)

    def register(self, log: Journaled, end_offset: int) -> None:
        """Register a log that has replayed its entries and is synced. Raises OSError."""
        with self._journal_files.changed:
            self._checkpoints.logs[log.directory.name] = log
        # A checkpoint may have noted a higher point for the previous log of this directory.
        self.points.lower(log.directory.name, end_offset)

    def open_logs(self) -> list[Journaled]:
        """The registered logs whose directories were not deleted."""
        with self._journal_files.changed:
            return list(self._checkpoints.logs.values())

    def close_previous(self, name: str) -> None:
        """Close the previous log of a directory, before a new one is opened there. Blocks.

        Threads of the previous log open files by path: they would create segments among those of
        the new log, and write buffered batches behind those that the new log has replayed.
        """
        with self._journal_files.changed:
            log = self._checkpoints.logs.get(name)
        if log is not None:
            log.fail(OSError(f"{log.directory} was deleted, or is opened again"))
            log.close()

    # --- writing ---

    def write(self, parts: Sequence[bytes], logs: Iterable[Journaled]) -> None:
        """Write one frame with the entries of these logs.

        After an OSError the frame may or may not be on disk, and the file is abandoned.
        """
        body = b"".join(parts)
        size = frame_size(len(body))
        if self._guard is not None:
            self._guard.check_sometimes()
        current = self._file_with_room(size)
        try:
            self._write_frame(current, body, logs)
        except (Exception, CancelledError):
            # After any exception: a missing frame in the middle of a file would look like damage.
            # The mark comes first, as `abandon` can fail, too.
            current.broken = True
            self._journal_files.abandon(current)
            raise
        self.written_bytes += size

    def _write_frame(self, file: JournalFile, body: bytes, logs: Iterable[Journaled]) -> None:
        self._sequence += 1
        data = frame(file.header, self._sequence, body)
        for log in logs:
            if log.identity not in file.ends:
                with self._journal_files.changed:
                    # Before the write: a partly written file is needed until its logs are synced.
                    file.names.add(log.directory.name)
            file.expect_entries_until(log.identity, log.end_offset)
        if self.syncs:
            file.make_room(len(data), self._capacity)
        file.file.write(file.position, data, durably=self.syncs)
        # Before the acknowledgement: without it, recovery after a kill would take damage of this
        # frame for a torn write.
        file.note_progress(self._sequence)
        file.position += len(data)
        file.is_dirty = not self.syncs

    def _file_with_room(self, size: int) -> JournalFile:
        """Return the file for the next frame; a full file goes to a checkpoint. Raises OSError."""
        current = self._journal_files.current
        if current is not None and current.broken:
            self._journal_files.abandon(current)
        elif current is not None:
            if current.position == HEADER_BYTES or current.position + size <= self._capacity:
                return current
            if (
                not self.syncs
                and not self._journal_files.free
                and self._checkpoints.running is not None
            ):
                # This journal must not wait for the checkpoint, so the file exceeds its capacity.
                return current
            # The file gets no more frames: damage of its last one must not look like a torn write.
            if self.syncs:
                current.note_progress(self._sequence, durably=True)
            with self._journal_files.changed:
                self._journal_files.full.append(current)
                self._journal_files.current = None
        self.begin_checkpoint()
        with self._journal_files.changed:
            while self._must_wait_for_checkpoint():
                self._journal_files.changed.wait()
            fresh = self._journal_files.free.pop(0) if self._journal_files.free else None
        fresh = fresh or self._journal_files.make()
        with self._journal_files.changed:
            self._journal_files.current = fresh
        return fresh

    def _must_wait_for_checkpoint(self) -> bool:
        """Whether to wait for the running checkpoint instead of creating a third file."""
        is_freeing = self._checkpoints.running is not None and not self._journal_files.free
        return is_freeing and self.syncs and len(self._journal_files.full) > 1

    def sync(self) -> list[JournalFile]:
        """Sync the files that were written without a sync, and return those that failed. Blocks.

        Another thread may write meanwhile; that thread must pass the result to `abandon`.
        """
        with self._journal_files.changed:
            dirty = [file for file in self._journal_files.live() if file.is_dirty]
        failed = []
        for file in dirty:
            # Cleared before the sync: it may not cover writes that happen during it.
            file.is_dirty = False
            try:
                file.file.sync()
                self._files.sync_directory(self._directory)
            except Exception as error:  # noqa: BLE001 - the file may not be durable
                failed.append(file)
                self._report("journal_sync_failed", file=str(file.path), error=str(error))
        return failed

    def abandon(self, failed: Iterable[JournalFile]) -> None:
        """Abandon files that could not be synced; a checkpoint syncs the segments instead."""
        for file in failed:
            if file is self._journal_files.current:
                self._journal_files.abandon(file)
            file.broken = True
        self.begin_checkpoint()

    # --- checkpoints ---

    def begin_checkpoint(self) -> None:
        """Start a checkpoint of the full files in a thread, unless one is running."""
        self._checkpoints.begin()

    def checkpoint(self) -> bool:
        """Sync the logs with entries in full files and free the files; True if all were freed."""
        return self._checkpoints.run()

    def close(self) -> bool:
        """Checkpoint and remove the files; False if files must stay for logs that have failed."""
        with self._journal_files.changed:
            while self._checkpoints.running is not None:
                self._journal_files.changed.wait()
            if self._journal_files.current is not None:
                self._journal_files.full.append(self._journal_files.current)
                self._journal_files.current = None
        settled = self._checkpoints.run()
        with suppress(OSError):
            if self._guard is not None:
                self._guard.check()
            self.points.write()
            self._journal_files.remove_free()
        for file in [*self._journal_files.full, *self._journal_files.free]:
            with suppress(Exception, CancelledError):
                file.file.close()
        return settled and not self._recovery.missing
