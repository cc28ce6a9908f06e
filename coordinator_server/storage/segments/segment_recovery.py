"""Replays the journal into the active segment when a log is opened, and detects lost records."""

from collections.abc import Sequence
from pathlib import Path

from coordinator_protocol.batch import read_header as read_batch_header
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import Files, contents
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_format import BatchRun
from coordinator_server.storage.segments.recovery import accept_loss_command
from coordinator_server.storage.segments.segment import CHUNK_BYTES, Segment

LEADER_EPOCHS_FILE = "leader-epoch-checkpoint"


def check_nothing_lost(
    journal: Journal, identity: bytes, directory: Path, bases: Sequence[int]
) -> None:
    """Raise CorruptLog if a log has lost acknowledged records; called before files are created.

    The journal may be damaged, or all segments may be missing although a recovery point exists.
    """
    name = directory.name
    journal.check_undamaged(name)
    point = journal.points.of(name)
    if bases or not point or not journal.is_strict or not journal.is_expected(name):
        return
    runs = journal.batch_runs(identity)
    if not runs or runs[0].offset > 0:
        raise CorruptLog(
            f"{directory} has no segment, but records up to offset {point} were synced there "
            f"({journal.points.path.name})",
            accept_loss_command(directory.parent),
        )


def check_first_segment(files: Files, directory: Path, bases: Sequence[int]) -> None:
    """Raise CorruptLog if the first segment is missing, by the log's leader epochs. OSError."""
    names = files.names(directory)
    if not bases or LEADER_EPOCHS_FILE not in names:
        return
    first = first_epoch_offset(contents(files, directory / LEADER_EPOCHS_FILE))
    if first is not None and first < bases[0]:
        raise CorruptLog(
            f"{directory} begins with offset {bases[0]}, but {LEADER_EPOCHS_FILE} there says that "
            f"the log begins with {first}: a segment is missing",
            accept_loss_command(directory.parent),
        )


def first_epoch_offset(text: bytes) -> int | None:
    """The start offset of the first leader epoch; None if the file is not in Kafka's format."""
    try:
        version, count, *lines = text.decode().splitlines()
        offsets = [int(line.split(" ")[1]) for line in lines]
    except (ValueError, IndexError):
        return None
    return offsets[0] if version == "0" and offsets and count == str(len(offsets)) else None


def restore_from_journal(segment: Segment, journal: Journal, identity: bytes, point: int) -> None:
    """Write the journal's batches behind the recovery point into the active segment.

    They are written even if the file seems to have them: after a failed write-back the kernel may
    still show pages that never reached the disk. Intact batches behind the journal's last one stay
    and are written again: the journal may have lost its last frame, and they may be of it. Earlier
    segments need no replay, as they were synced before the active one was begun.
    Raises CorruptLog, OSError.
    """
    if not journal.may_have_entries(identity):
        return
    is_certain = journal.is_complete(segment.path.parent.name)
    if not _reaches(segment, point):
        # The recovery point or the segment is wrong, so neither is trusted.
        point, is_certain = 0, False
    later: list[bytes] = []
    """Batches of runs behind a gap; the operator has accepted the loss of the records between."""
    for run in reversed(journal.batch_runs(identity, max(point, segment.base_offset))):
        position = _position(segment, run, point, exactly=journal.is_strict)
        if position is not None:
            behind = later or _intact_batches_after(segment, run)
            segment.rewrite(position, [*run.batches, *behind])
            return
        if is_certain:
            # A complete journal lacks only records that were truncated. So this run was written
            # before the truncation and was never acknowledged.
            journal.report_unreachable(segment.path, run.offset)
            continue
        if run.is_synced and not journal.is_strict:
            later = [*run.batches, *later]
            continue
        if run.is_synced:
            raise CorruptLog(
                f"{segment.path} does not reach offset {run.offset}, where the journal goes on: "
                "records in between were acknowledged and are lost",
                accept_loss_command(segment.path.parent.parent),
            )
        journal.report_unreachable(segment.path, run.offset)
    if later:
        segment.rewrite(segment.size, later)


def rewrite_unsynced(files: Files, segment: Segment, point: int) -> None:
    """Write and sync again the bytes of a recovered segment behind the recovery point.

    After a failed sync the kernel may show pages that never reached the disk and count them as
    clean: another sync alone would succeed, and a power loss would remove records that were read
    since. The same bytes are written in place, so an interruption does no harm. Raises OSError.
    """
    if segment.end_offset == point:
        return
    at = segment.indexed_position(point) if segment.end_offset > point else 0
    file = files.open_block(segment.path)
    try:
        while at < segment.size:
            data = segment.file.read(at, min(CHUNK_BYTES, segment.size - at))
            file.write(at, data, durably=False)
            at += len(data)
        file.sync()
    finally:
        file.close()


def _intact_batches_after(segment: Segment, run: BatchRun) -> list[bytes]:
    """The intact batches of a segment that continue directly behind a run."""
    end = read_batch_header(run.batches[-1]).last_offset + 1
    batches: list[bytes] = []
    try:
        position = segment.position_after(end)
        if position is None:
            return []
        for _, header, chunk, at in segment.walk(position, checked=True):
            if header.base_offset != end:
                break
            batches.append(chunk[at : at + header.size])
            end = header.last_offset + 1
    except CorruptLog:
        # A torn batch was never acknowledged.
        pass
    return batches


def _reaches(segment: Segment, point: int) -> bool:
    try:
        return segment.position_after(point) is not None
    except CorruptLog:
        return False


def _position(segment: Segment, run: BatchRun, point: int, *, exactly: bool) -> int | None:
    """The position of a run in a segment; None if records before it are missing or torn."""
    if run.is_synced:
        return segment.position_after(run.offset, exactly=exactly)
    try:
        return segment.position_after(run.offset, checked_from=point)
    except CorruptLog:
        return None
