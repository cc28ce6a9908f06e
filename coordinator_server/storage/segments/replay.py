"""Puts what a crash has left in the journal into the segments, before anything is served."""

from pathlib import Path

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files, exists
from coordinator_server.storage.segments.journal import Journal, Report
from coordinator_server.storage.segments.log import SegmentLog


def replay_all(
    journal: Journal, directory: Path, report: Report, files: Files = SYSTEM_FILES
) -> bool:
    """Open and close every log of which the journal has entries; whether it is empty then.

    A log that cannot be opened stays in the journal until it can, and is reported.
    """
    for name in journal.directories():
        path = directory / name
        try:
            if not exists(files, path):
                report("journal_entries_skipped", directory=str(path), reason="no such directory")
                continue
            log = SegmentLog(path, files=files, journal=journal)
            log.close()
        except (OSError, CorruptLog) as error:
            report("journal_replay_failed", directory=str(path), error=str(error))
        else:
            report("journal_replayed", directory=str(path), end_offset=log.end_offset)
    return journal.checkpoint()
