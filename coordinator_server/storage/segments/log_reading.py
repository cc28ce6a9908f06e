"""Reads the batches of a log, which are in several segments."""

from collections.abc import Callable, Iterator, Sequence

from coordinator_protocol.batch import BatchHeader
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.segment import Segment


def read_batches(segments: Sequence[Segment], offset: int, max_bytes: int, up_to: int) -> bytes:
    """Return whole batches of one segment from `offset` on, none that reaches `up_to`.

    Raises CorruptLog, OSError.
    """
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and following.base_offset <= offset:
            continue
        if records := segment.read(offset, max_bytes, up_to):
            return records
    return b""


def walk_batches(
    segments: Sequence[Segment], since: int | None, check_contiguous: Callable[[int, int], None]
) -> Iterator[tuple[BatchHeader, bytes, int]]:
    """Yield the header of every batch, the chunk with it and where in it; checked.

    `check_contiguous` is given the offset where a segment ends and the one where the next begins.
    Raises CorruptLog, OSError.
    """
    last = segments[-1]
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and not segment.may_reach(since):
            continue
        at, end, latest = 0, segment.base_offset, segment.latest_timestamp
        for position, header, chunk, offset in segment.walk(checked=True):
            yield header, chunk, offset
            at, end = position + header.size, header.last_offset + 1
            if latest is None or header.max_timestamp > latest:
                latest = header.max_timestamp
        if segment is not last:
            if at < segment.size:
                raise CorruptLog(f"{segment.path}, position {at}: the segment ends in a batch")
            if following is not None:
                check_contiguous(end, following.base_offset)
            segment.latest_timestamp = latest
