"""Gives a segment what the journal has of its log, before anything else is done with the log."""

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.frames import Run
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.segment import Segment


def restore(segment: Segment, journal: Journal, identity: bytes, point: int) -> None:
    """Write what the active segment of a log may lack; it was synced up to the recovery point.

    It is written even where the file seems to have it: a system that failed to write a page may
    still show it. What lies before the active segment was synced before that was begun.
    Raises CorruptLog, OSError.
    """
    if not journal.has(identity):
        return
    if not _reaches(segment, point):
        # Either the point or the segment is wrong, so neither is trusted.
        point = 0
    for run in reversed(journal.runs_of(identity, max(point, segment.base_offset))):
        position = _position(segment, run, point)
        if position is None and run.is_synced and journal.fills_gaps:
            position = segment.size
        if position is not None:
            segment.rewrite(position, run.batches)
            return
        if run.is_synced:
            raise CorruptLog(
                f"{segment.path} does not reach offset {run.offset}, where the journal goes on: "
                "records in between were acknowledged and are lost"
            )
        journal.out_of_reach(segment.path, run.offset)


def _reaches(segment: Segment, point: int) -> bool:
    try:
        return segment.position_behind(point) is not None
    except CorruptLog:
        return False


def _position(segment: Segment, run: Run, point: int) -> int | None:
    """Where a run goes on in a segment; None if there is a gap before it, or a torn batch."""
    if run.is_synced:
        return segment.position_behind(run.offset)
    try:
        return segment.position_behind(run.offset, checked_from=point)
    except CorruptLog:
        return None
