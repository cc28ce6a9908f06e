"""Lets a data directory go on without what it has lost: `log checkpoint --accept-loss`.

After it a strict start has nothing to complain of: segments meet, recovery points lie within their
logs, and the journal is gone. Nothing that is there is removed.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from coordinator_protocol.batch import BatchHeader
from coordinator_protocol.rewrite import rewritten
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.directory_files import log_directories_in
from coordinator_server.storage.segments.files import SYSTEM_FILES
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_names import owners
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.recovery import Recovery
from coordinator_server.storage.segments.segment import Segment, segment_bases
from coordinator_server.storage.segments.segment_recovery import (
    LEADER_EPOCHS_FILE,
    first_epoch_offset,
)

Say = Callable[..., None]
"""Called as `say(event, **fields)` with what was done."""
LARGEST_DELTA = (1 << 31) - 1


def accept_loss(data: Path, say: Say) -> bool:
    """Close gaps and lower recovery points; whether every log can be opened then.

    Nobody serves the directory meanwhile, and its journals are empty. Raises OSError.
    """
    assert not owners(data)
    journal = Journal(data, writes=False, recovery=Recovery.TRUNCATE, report=say)
    names = log_directories_in(data, SYSTEM_FILES.names(data))
    is_sound = True
    for name in sorted(names):
        directory = data / name
        try:
            close_gaps(directory, say)
            before = journal.points.of(name)
            log = SegmentLog(directory, journal=journal)
            log.close()
            if log.end_offset < before:
                say("recovery_point_lowered", directory=str(directory), end_offset=log.end_offset)
        except CorruptLog as error:
            is_sound = False
            say("log_open_failed", directory=str(directory), error=str(error))
    for name in journal.points.names() - set(names):
        say("recovery_point_forgotten", directory=str(data / name))
    return journal.close() and is_sound


def close_gaps(directory: Path, say: Say) -> None:
    """Let every segment end where the next begins, by empty batches.

    Raises CorruptLog, OSError.
    """
    bases = segment_bases(SYSTEM_FILES, directory)
    epochs = directory / LEADER_EPOCHS_FILE
    first = first_epoch_offset(epochs.read_bytes()) if epochs.is_file() else None
    if bases and (first is None or first < bases[0]):
        SYSTEM_FILES.replace(epochs, f"0\n1\n0 {bases[0]}\n".encode())
        say("log_begins_later", directory=str(directory), offset=bases[0])
    for base, following in pairwise(bases):
        segment = Segment(SYSTEM_FILES, directory, base)
        try:
            end = base
            for _, header, _, _ in segment.walk(checked=True):
                end = header.last_offset + 1
            if end < following:
                segment.file.append(empty_batches(end, following))
                segment.file.sync()
                say("gap_closed", segment=str(segment.path), first=end, last=following - 1)
        finally:
            segment.file.close()


def empty_batches(begin: int, end: int) -> bytes:
    """Batches without records that take up a range of offsets."""
    parts = []
    while begin < end:
        last_delta = min(end - begin - 1, LARGEST_DELTA)
        header = BatchHeader(
            base_offset=begin,
            batch_length=0,
            partition_leader_epoch=0,
            magic=2,
            crc=0,
            attributes=0,
            last_offset_delta=last_delta,
            base_timestamp=-1,
            max_timestamp=-1,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            records=0,
        )
        parts.append(rewritten(header, (), None))
        begin += last_delta + 1
    return b"".join(parts)
