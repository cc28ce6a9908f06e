"""Frees full journal files by syncing the logs that have entries in them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread

from coordinator_server.storage.segments.checkpoint import RecoveryPoints
from coordinator_server.storage.segments.files import Files, exists
from coordinator_server.storage.segments.guard import DirectoryGuard
from coordinator_server.storage.segments.journal_file import JournalFile
from coordinator_server.storage.segments.journal_files import JournalFiles
from coordinator_server.storage.segments.journaled import Journaled
from coordinator_server.storage.segments.log_identity import directory_of, topic_id_of
from coordinator_server.storage.segments.reporting import Report


class JournalCheckpoints:
    """Runs checkpoints in a thread."""

    def __init__(
        self,
        journal_files: JournalFiles,
        points: RecoveryPoints,
        directory: Path,
        *,
        is_strict: bool,
        is_expected: Callable[[str, str | None], bool],
        guard: DirectoryGuard | None,
        files: Files,
        report: Report,
    ) -> None:
        self._journal_files = journal_files
        self._points = points
        self._directory = directory
        self._is_strict = is_strict
        self._is_expected = is_expected
        self._guard = guard
        self._files = files
        self._report = report
        self.logs: dict[str, Journaled] = {}
        """The latest log of every directory, open or closed; guarded by `JournalFiles.changed`."""
        self.running: Thread | None = None
        self._is_wanted_again = False
        """Whether a file became full or was abandoned since the running checkpoint began."""
        self._reported_missing: set[str] = set()
        """Directories whose loss was logged."""

    def begin(self) -> None:
        """Free the full files in a thread, unless one is at it."""
        with self._journal_files.changed:
            if self.running is not None or not self._journal_files.full:
                self._is_wanted_again = self.running is not None
                return
            thread = Thread(target=self._run, name="journal-checkpoint", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # The system cannot start a thread: the next full file tries again.
                self._report("journal_checkpoint_failed", error=str(error))
                return
            self.running = thread

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            raised = True
            try:
                self.run()
                raised = False
            except Exception as error:  # noqa: BLE001 - the next full file begins another one
                self._report("journal_checkpoint_failed", error=repr(error))
            finally:
                with self._journal_files.changed:
                    goes_on, self._is_wanted_again = self._is_wanted_again and not raised, False
                    if not goes_on:
                        self.running = None
                    self._journal_files.changed.notify_all()

    def run(self) -> bool:
        """Sync the logs with entries in full files and free the files; True if all were freed."""
        try:
            if self._guard is not None:
                self._guard.check()
            self._forget_deleted()
        except Exception as error:  # noqa: BLE001 - any failure frees nothing
            self._report("journal_checkpoint_failed", file=str(self._directory), error=repr(error))
            return False
        with self._journal_files.changed:
            full = list(self._journal_files.full)
        kept: list[JournalFile] = []
        for file in full:
            try:
                if self._release_logs(file, kept):
                    self._journal_files.release(file)
                    continue
            except Exception as error:  # noqa: BLE001 - the other files are checkpointed
                self._report("journal_checkpoint_failed", file=str(file.path), error=repr(error))
            kept.append(file)
        with self._journal_files.changed:
            return not self._journal_files.full

    def _forget_deleted(self) -> None:
        """Forget logs and recovery points of deleted directories. Raises OSError."""
        with self._journal_files.changed:
            logs = dict(self.logs)
        there = set(self._files.names(self._directory))
        for name in self._points.names() - there:
            if (
                not self._is_strict
                or not self._is_expected(name, None)
                or not self._points.of(name)
            ):
                self._points.forget(name)
            elif name not in self._reported_missing:
                self._reported_missing.add(name)
                self._report(
                    "log_directory_missing",
                    directory=str(self._directory / name),
                    error=f"records up to offset {self._points.of(name)} were synced there",
                )
        for name, log in logs.items():
            if name not in there:
                with self._journal_files.changed:
                    # The directory may have been created again, with another log.
                    if self.logs.get(name) is log:
                        del self.logs[name]

    def _release_logs(self, file: JournalFile, kept: Sequence[JournalFile]) -> bool:
        """Sync every log with entries in a file and write the recovery points.

        Returns whether the file may be freed. Older files in `kept` may have entries that were
        truncated later; until the log has grown past them, a replay needs this file to undo them.
        Raises OSError.
        """
        for name in sorted(file.names):
            log = self.logs.get(name)
            if log is not None and self._is_lost(name, file, besides=log.identity):
                continue
            synced = None if log is None else log.sync_and_note()
            if log is not None and synced is not None:
                # A log that was opened again meanwhile has replayed the file and is synced.
                is_latest, identity = self.logs.get(name) is log, log.identity
                if not is_latest or any(older.ends.get(identity, 0) > synced for older in kept):
                    continue
            elif exists(self._files, self._directory / name) or self._is_lost(name, file):
                continue
            # The log is synced, or its topic was deleted.
            with self._journal_files.changed:
                file.names.discard(name)
        # Even if the file stays: entries before the recovery points must not be replayed.
        self._points.write()
        return not file.names and not file.is_damaged

    def _is_lost(self, name: str, file: JournalFile, besides: bytes = b"") -> bool:
        """Whether a file has entries of an expected log other than `besides` in a directory."""
        others = [each for each in file.ends if directory_of(each) == name and each != besides]
        ids = [topic_id_of(each) for each in others]
        return self._is_strict and any(self._is_expected(name, topic_id) for topic_id in ids)

    def forget(self, name: str) -> None:
        """Forget a log that is about to be deleted, and its recovery point."""
        with self._journal_files.changed:
            log = self.logs.get(name)
            if log is not None and not self._is_needed(name, log):
                del self.logs[name]
            self._points.forget(name)

    def _is_needed(self, name: str, log: Journaled) -> bool:
        """Whether a log is open or belongs to an existing topic."""
        return log.is_open or self._is_expected(name, topic_id_of(log.identity))

    def note_recovery_point(self, name: str, log: Journaled, synced: int) -> None:
        """Note a recovery point, unless the log was deleted or opened again meanwhile."""
        with self._journal_files.changed:
            if self.logs.get(name) is log:
                self._points.note(name, synced)
