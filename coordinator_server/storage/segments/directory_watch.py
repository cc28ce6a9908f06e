"""Looks every second whether the directories of open logs are still there."""

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from coordinator_server.storage.segments.guard import DirectoryGuard, DirectoryLost, Mark, mark_of
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journaled import Journaled
from coordinator_server.storage.segments.reporting import Report

WATCH_SECONDS: Final = 1.0

Lost = Callable[[str, OSError], None]
"""Called with the name of a log's directory, on the event loop, when the log was given up."""


class DirectoryWatch:
    """Gives up the logs of directories that were removed or replaced.

    Their files are still open, so writes go on without an error, and are lost with the process.
    """

    def __init__(
        self,
        guard: DirectoryGuard,
        journal: Journal,
        lost: Lost,
        report: Report,
        seconds: float = WATCH_SECONDS,
    ) -> None:
        """`journal` knows the open logs, and which of them are of deleted topics."""
        self._guard = guard
        self._journal = journal
        self._lost = lost
        self._report = report
        self._seconds = seconds
        self._marks: dict[Journaled, Mark] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_reported = False

    def start(self) -> None:
        """Begin, on the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - it looks again, whatever it was
                self._report("directory_watch_failed", error=repr(error))

    async def look(self) -> None:
        """Look once, and give up what is gone."""
        data_error, lost = await asyncio.to_thread(self._find_lost)
        for log, error in lost:
            # The directory of a topic that was deleted while they were looked at is gone rightly.
            if not log.is_open or self._journal.is_of_deleted(log):
                continue
            if data_error is None:
                self._report("log_directory_lost", directory=str(log.directory), error=str(error))
            log.fail(error)
            self._lost(log.directory.name, error)

    def _find_lost(self) -> tuple[OSError | None, list[tuple[Journaled, OSError]]]:
        """The problem of the data directory, and the logs whose directory is gone. Blocks."""
        logs = [log for log in self._journal.open_logs() if log.is_open]
        try:
            self._guard.check()
        except DirectoryLost as gone:
            if not self._is_reported:
                self._is_reported = True
                path = str(self._guard.path)
                self._report("data_directory_lost", directory=path, error=str(gone))
            return gone, [(log, gone) for log in logs]
        self._is_reported = False
        marks: dict[Journaled, Mark] = {}
        lost: list[tuple[Journaled, OSError]] = []
        for log in logs:
            mark = mark_of(log.directory)
            if mark is None or mark != self._marks.get(log, mark):
                lost.append((log, _gone(log.directory)))
            else:
                marks[log] = mark
        self._marks = marks
        return None, lost


def _gone(directory: Path) -> OSError:
    why = (
        f"the directory {directory} was removed or replaced while the server used it; put it back, "
        "or accept the loss with coordinator-server log checkpoint --accept-loss --data "
        f"{directory.parent}"
    )
    return DirectoryLost(errno.ESTALE, why)
