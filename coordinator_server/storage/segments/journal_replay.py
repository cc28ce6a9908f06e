"""Puts what a crash has left in the journal into the segments, before anything is served."""

from pathlib import Path

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files, exists
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.log_identity import (
    PARTITION_METADATA,
    read_identity,
    topic_id_of,
)
from coordinator_server.storage.segments.recovery import repair_command, repair_files_command
from coordinator_server.storage.segments.reporting import Report


def replay_all(
    journal: Journal, directory: Path, report: Report, files: Files = SYSTEM_FILES
) -> bool:
    """Open and close every log of which the journal has entries; whether it is empty then.

    A log that cannot be opened stays in the journal until it can, and is reported. One whose
    directory is gone does so, too, unless its topic was deleted.
    """
    for name in journal.directories():
        path = directory / name
        try:
            if not exists(files, path):
                _report_missing(journal, path, report)
                continue
            _check_marked(journal, path, files)
            log = SegmentLog(path, files=files, journal=journal)
            log.close()
        except (OSError, CorruptLog) as error:
            repair = getattr(error, "repair", "") or repair_command(path)
            fields = {"repair": repair} if isinstance(error, CorruptLog) else {}
            report("journal_replay_failed", directory=str(path), error=str(error), **fields)
        else:
            report("journal_replayed", directory=str(path), end_offset=log.end_offset)
    return journal.checkpoint()


def _report_missing(journal: Journal, path: Path, report: Report) -> None:
    is_lost = any(
        journal.is_expected(path.name, topic_id_of(each)) for each in journal.identities(path.name)
    )
    if journal.is_strict and is_lost:
        report(
            "log_directory_missing",
            directory=str(path),
            error="the journal has records of it, and its topic was not deleted",
        )
    else:
        report("journal_entries_skipped", directory=str(path), reason="no such directory")


def _check_marked(journal: Journal, path: Path, files: Files) -> None:
    """Raise CorruptLog if the journal has entries of a log that is there under another topic id.

    They would be taken for those of a topic that was deleted. Raises OSError.
    """
    found = topic_id_of(read_identity(files, path))
    for each in journal.identities(path.name):
        topic_id = topic_id_of(each)
        if journal.is_strict and topic_id != found and journal.is_expected(path.name, topic_id):
            raise CorruptLog(
                f"{path / PARTITION_METADATA} says topic_id {found!r}, but topics.json and the "
                f"journal say {topic_id!r}",
                repair_files_command(path.parent),
            )
