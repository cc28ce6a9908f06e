"""Finds the new offsets of a log for a stream, and detects a log that was truncated.

A stream's offset is, by log partition, `next` (the offset to continue at), `inc` (the incarnation)
and `marks`: the last batches read, as [base offset, records, checksum]. A log that lost its
unsynced tail in a crash gives the same offsets to other records; then a mark no longer matches. The
stream reads such a partition again, as the next incarnation, from the newest matching batch.
"""

import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from coordinator_pipeline.decode.batches import is_whole_batch
from coordinator_pipeline.source.range_reader import read_range
from coordinator_pipeline.source.segment_bytes import find_batch, find_tail, read_at
from coordinator_pipeline.source.segments import Segment
from coordinator_protocol.batch import HEADER_BYTES, BatchHeader, read_header
from coordinator_protocol.errors import Malformed

KEPT_MARKS: Final = 8
_DELETE_HORIZON: Final = 0x40
"""The attribute of a batch to which compaction added the delete horizon (KIP-534)."""

Mark = list[int]
"""Base offset, number of records and checksum of a batch."""


class Position(NamedTuple):
    """The position of a stream in one partition."""

    next: int = 0
    incarnation: int = 0
    marks: tuple[Mark, ...] = ()
    """Marks of the last batches, oldest first."""
    again_from: int | None = None
    """The offset at which this incarnation began."""

    @classmethod
    def of(cls, form: dict[str, Any] | None) -> "Position":
        """Parse a stream's offset; None is the beginning."""
        if form is None:
            return cls()
        return cls(form["next"], form["inc"], tuple(form["marks"]), form.get("from"))

    def form(self) -> dict[str, Any]:
        """Return the JSON form for a stream's offset."""
        found: dict[str, Any] = {"next": self.next, "inc": self.incarnation}
        found["marks"] = list(self.marks)
        if self.again_from is not None:
            found["from"] = self.again_from
        return found

    def moved_to(self, end: int, mark: Mark | None) -> "Position":
        """Return the position after reading to offset `end`, whose last batch is `mark`."""
        marks = self.marks if mark is None else (*self.marks, mark)[-KEPT_MARKS:]
        return Position(end, self.incarnation, marks, self.again_from)


class LogTip(NamedTuple):
    """The end of a partition's log; the next search starts at its last batch."""

    end: int
    """The offset after the last whole batch."""
    mark: Mark | None = None
    """The mark of that batch; None if there is none."""
    inode: int = -1
    """The inode of its segment."""
    at: int = 0
    """The batch's position in the segment."""


def mark_of(header: BatchHeader) -> Mark:
    """Return the mark of a batch."""
    return [header.base_offset, header.records, header.crc]


class PartitionFollower:
    """Finds the new offsets of one partition at each micro-batch."""

    def __init__(self) -> None:
        self._tip = LogTip(0)

    def advance(self, segments: Sequence[Segment], start: Position, limit: int | None) -> Position:
        """Return the position up to which the stream can read, at most `limit`.

        If the batches read before no longer match, the position has the next incarnation, which
        begins at `again_from`.
        """
        if not segments:
            return start
        tip = self._tip = self._find_tip(segments)
        if not self._still_there(segments, start, tip):
            start = _rewound(segments, start)
        if limit is not None and limit < tip.end:
            return start.moved_to(max(start.next, limit), None)
        return start.moved_to(tip.end, tip.mark) if tip.end > start.next else start

    def _find_tip(self, segments: Sequence[Segment]) -> LogTip:
        filled = [segment for segment in segments if segment.size] or segments[-1:]
        segment, known = filled[-1], self._tip
        inode = os.fstat(segment.descriptor).st_ino
        at = known.at if inode == known.inode and _header(segment, known.at) else 0
        tail = find_tail(segment.descriptor, segment.base_offset, at)
        header = _header(segment, tail.last)
        if tail.end != segment.size or header is None or not _whole(segment, header, tail.last):
            return _careful_tip(segments, filled[-1:], inode)
        end = max(tail.next_offset, segments[-1].base_offset)
        return LogTip(end, mark_of(header), inode, tail.last)

    def _still_there(self, segments: Sequence[Segment], start: Position, tip: LogTip) -> bool:
        if tip.end < start.next:
            return False
        if not start.marks or tip.mark == start.marks[-1]:
            return True
        return _has(segments, start.marks[-1]) is not False


def _rewound(segments: Sequence[Segment], start: Position) -> Position:
    """Return the start of the next incarnation: the newest batch that still matches."""
    for number in range(len(start.marks) - 1, -1, -1):
        mark = start.marks[number]
        if _has(segments, mark):
            return Position(mark[0], start.incarnation + 1, start.marks[:number], mark[0])
    begin = segments[0].base_offset
    return Position(begin, start.incarnation + 1, (), begin)


def _careful_tip(segments: Sequence[Segment], last: Sequence[Segment], inode: int) -> LogTip:
    """Find the tip by reading every batch: the file does not end with a whole batch."""
    end, mark, at = segments[-1].base_offset, None, 0
    for chunk in read_range(last, last[0].base_offset, None):
        if chunk.spans:
            position, header = chunk.spans[-1]
            end, mark = max(end, header.last_offset + 1), mark_of(header)
            at = chunk.position + position
    return LogTip(end, mark, inode, at)


def _has(segments: Sequence[Segment], mark: Mark) -> bool | None:
    """Whether the log still has a batch that was read; None if compaction may have changed it.

    Compaction keeps a batch byte for byte if all its records stay; else the batch has fewer records
    or a delete horizon. The last segment is never compacted.
    """
    base_offset, records, crc = mark
    covering = [number for number, one in enumerate(segments) if one.base_offset <= base_offset]
    if not covering:
        return None
    segment, is_last = segments[covering[-1]], covering[-1] == len(segments) - 1
    header = _header(segment, find_batch(segment.descriptor, base_offset))
    if header is not None and header.base_offset == base_offset and header.crc == crc:
        return True
    if is_last:
        return False
    if header is None or header.base_offset > base_offset:
        return None
    if header.base_offset < base_offset:
        return False
    is_compacted = header.records < records or header.attributes & _DELETE_HORIZON
    return None if is_compacted else False


def _header(segment: Segment, at: int) -> BatchHeader | None:
    try:
        return read_header(read_at(segment.descriptor, at, HEADER_BYTES))
    except Malformed:
        return None


def _whole(segment: Segment, header: BatchHeader, at: int) -> bool:
    return is_whole_batch(read_at(segment.descriptor, at, header.size), 0, header.base_offset)
