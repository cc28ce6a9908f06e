"""The journal of a data directory: what all its logs took in a moment goes to disk in one write.

The segments get the same batches later and in bulk. When a file of the journal is full the next one
goes on, while the logs named in the full one are written and synced; then it is used again under a
new generation, which makes what it holds stale. Opening a log first writes into it what the journal
has of it, so a crash at any moment leaves either the segments synced or the journal whole. Blocks;
one thread writes, another one checkpoints, and one may sync.

Damaged files stay until somebody accepts the loss (`log.recovery`, `log checkpoint --accept-loss`),
and the logs that may have lost something cannot be opened.
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
    """Writes entries, and knows what of them the segments may still lack."""

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
        """Find the files that an earlier life has left; `owner` names one of several journals.

        With `syncs` a write is on disk when it returns; otherwise it only survives the process,
        and `write` never waits for anybody. `topic_ids` tells which logs have to be there; without
        it a log whose directory is gone counts as deleted. `guard` watches over the directory.
        Raises OSError.
        """
        self.points = RecoveryPoints(directory, files, owner)
        self.is_written = writes
        """Whether logs hand over what they append; otherwise it is only replayed."""
        self.syncs = syncs
        self.written_bytes = 0
        """By this process, to all files."""
        self.is_strict = recovery is Recovery.STRICT
        """Whether a log that has lost acknowledged records cannot be opened."""
        self.topic_ids = topic_ids
        self.allows_gaps = not self.is_strict or exists(files, directory / BROKER_FILE)
        """Whether segments need not meet: somebody accepts losses, or a broker has compacted."""
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
        """The directories of logs of which segments may lack what is here."""
        with self._journal_files.changed:
            return sorted({name for file in self._journal_files.live() for name in file.names})

    def may_have_entries(self, identity: bytes) -> bool:
        """Whether there may be something of a log."""
        with self._journal_files.changed:
            return any(directory_of(identity) in file.names for file in self._journal_files.live())

    def identities(self, name: str) -> set[bytes]:
        """Those of the logs of a directory that it has entries of."""
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
        """Whether it has all that was written of a log behind the recovery point, for sure."""
        is_known = self._recovery.is_whole and self.points.problem is None
        return is_known and name in self.points.names()

    def note_recovery_point(self, name: str, log: Journaled, synced: int) -> None:
        """Note a recovery point; not that of a log that was deleted or opened anew meanwhile."""
        self._checkpoints.note_recovery_point(name, log, synced)

    def is_expected(self, name: str, topic_id: str | None = None) -> bool:
        """Whether a log has to be there: its topic was not deleted, nor made anew since."""
        if self.topic_ids is None:
            return False
        known = self.topic_ids(name.rpartition("-")[0])
        return known is not None and topic_id in (None, known)

    def is_deleted(self, name: str, topic_id: str) -> bool:
        """Whether the topic of a log was deleted, or made anew since.

        The id is empty if the log's directory is not marked with one.
        """
        return self.topic_ids is not None and not self.is_expected(name, topic_id or None)

    def is_of_deleted(self, log: Journaled) -> bool:
        """Whether the topic of an open log was deleted, or made anew since."""
        return self.is_deleted(log.directory.name, topic_id_of(log.identity))

    def forget(self, names: Iterable[str]) -> None:
        """Durably forget the recovery points of logs that are to be deleted. Raises OSError.

        A checkpoint that has just synced such a log, which was given up before, does not note one.
        """
        for name in names:
            self._checkpoints.forget(name)
        self.points.write()

    def batch_runs(self, identity: bytes, first: int = 0) -> list[BatchRun]:
        """What there is of a log from an offset on, in order. Raises OSError."""
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
        """Say that records at an offset are no use: what came before was lost or cut off."""
        self._report("journal_out_of_reach", segment=str(path), offset=offset)

    def register(self, log: Journaled, end_offset: int) -> None:
        """A log has got what is here, and it is synced: from now on it answers for itself.

        Raises OSError.
        """
        with self._journal_files.changed:
            self._checkpoints.logs[log.directory.name] = log
        # A checkpoint may have noted more, of the one that was here before.
        self.points.lower(log.directory.name, end_offset)

    def open_logs(self) -> list[Journaled]:
        """The logs that were opened and not deleted since."""
        with self._journal_files.changed:
            return list(self._checkpoints.logs.values())

    def close_previous(self, name: str) -> None:
        """Close the log that a directory had: its topic was deleted, or its closing has failed.

        Its threads open files by their paths, so a new segment would come into the directory of the
        next one, and what it kept back behind what that one has of it already. Blocks.
        """
        with self._journal_files.changed:
            log = self._checkpoints.logs.get(name)
        if log is not None:
            log.fail(OSError(f"{log.directory} is deleted, or opened anew"))
            log.close()

    # --- writing ---

    def write(self, parts: Sequence[bytes], logs: Iterable[Journaled]) -> None:
        """Write the parts of entries, which are of these logs.

        Raises OSError; it is not known then whether they are on disk, and the file is given up.
        """
        body = b"".join(parts)
        size = frame_size(len(body))
        if self._guard is not None:
            self._guard.check_sometimes()
        current = self._file_with_room(size)
        try:
            self._write_frame(current, body, logs)
        except (Exception, CancelledError):
            # Whatever it is: a frame that is left out in a file would look like a damaged one. The
            # mark comes first, as giving up can fail, too.
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
                    # Before the write: once any of it is there, the file is needed until it is
                    # settled.
                    file.names.add(log.directory.name)
            file.expect_entries_until(log.identity, log.end_offset)
        if self.syncs:
            file.make_room(len(data), self._capacity)
        file.file.write(file.position, data, durably=self.syncs)
        # Before anybody is answered: a process that is killed now must not take damage to its last
        # frame for a torn write.
        file.note_progress(self._sequence)
        file.position += len(data)
        file.is_dirty = not self.syncs

    def _file_with_room(self, size: int) -> JournalFile:
        """The file to write into; a full one is left to a checkpoint. Raises OSError."""
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
                # Nobody may wait for it, so this one takes a little more.
                return current
            # Nothing follows in this file: its last frame must not look like a torn one.
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
        """Whether the next file is the one that is just being freed: there are two, if possible."""
        is_freeing = self._checkpoints.running is not None and not self._journal_files.free
        return is_freeing and self.syncs and len(self._journal_files.full) > 1

    def sync(self) -> list[JournalFile]:
        """Make durable what was written without; which files that failed for. Blocks.

        Another thread may write meanwhile; that one hands over to `abandon` what has failed.
        """
        with self._journal_files.changed:
            dirty = [file for file in self._journal_files.live() if file.is_dirty]
        failed = []
        for file in dirty:
            # Before the sync: what is written meanwhile is for the next one.
            file.is_dirty = False
            try:
                file.file.sync()
                self._files.sync_directory(self._directory)
            except Exception as error:  # noqa: BLE001 - it is not known to be durable, whatever it is
                failed.append(file)
                self._report("journal_sync_failed", file=str(file.path), error=str(error))
        return failed

    def abandon(self, failed: Iterable[JournalFile]) -> None:
        """Give up files that could not be synced: the segments are, with all that is in them."""
        for file in failed:
            if file is self._journal_files.current:
                self._journal_files.abandon(file)
            file.broken = True
        self.begin_checkpoint()

    # --- checkpoints ---

    def begin_checkpoint(self) -> None:
        """Free the full files in a thread of its own, unless one is at it."""
        self._checkpoints.begin()

    def checkpoint(self) -> bool:
        """Sync what the full files have entries of and free them; whether all could be freed."""
        return self._checkpoints.run()

    def close(self) -> bool:
        """Checkpoint and remove the files; False if some must stay, for logs that have failed."""
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
