"""Reads a range of offsets from a partition's segments, and skips and reports damage."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from coordinator_pipeline.decode.batches import (
    LARGEST_DELTA,
    BatchSpan,
    find_whole_batch,
    is_whole_batch,
    walk_batches,
)
from coordinator_pipeline.decode.decoder import Decoder
from coordinator_pipeline.source.segment_bytes import CHUNK_BYTES, find_batch, find_tail, read_at
from coordinator_pipeline.source.segments import Segment
from coordinator_protocol.batch import HEADER_BYTES, batch_length


class Problem(NamedTuple):
    """Bytes that are no batches."""

    offset: int
    """The first missing offset."""
    text: str


class Chunk(NamedTuple):
    """Batches of a segment, or one problem between them."""

    buffer: bytes
    spans: Sequence[BatchSpan] = ()
    problem: Problem | None = None
    position: int = 0
    """The position of the buffer in its file."""


def rows_of(chunks: Iterable[Chunk], decoder: Decoder) -> Iterator[pa.RecordBatch]:
    """Decode chunks in their order; a problem becomes a row too."""
    for chunk in chunks:
        if chunk.problem is not None:
            yield decoder.problem(*chunk.problem)
            continue
        for rows in decoder.decode(chunk.buffer, chunk.spans):
            if rows.num_rows:
                yield rows


def read_range(segments: Sequence[Segment], start: int, end: int | None) -> Iterator[Chunk]:
    """Read the batches with offsets from `start` to before `end`; None means the end of the log.

    Batches at the borders may hold other offsets too. Bytes after the last whole batch of the last
    segment are an unfinished or torn append and are ignored.
    """
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if following is not None and following <= start:
            continue
        if end is not None and segment.base_offset >= end:
            return
        is_last = following is None
        yield from _of_segment(segment, max(start, segment.base_offset), end, is_last=is_last)


def _of_segment(segment: Segment, start: int, end: int | None, *, is_last: bool) -> Iterator[Chunk]:
    size = segment.size
    at = find_batch(segment.descriptor, start) if start > segment.base_offset else 0
    next_offset = segment.base_offset
    while at < size and (end is None or next_offset < end):
        buffer = _enough(segment, at, size)
        found = walk_batches(buffer, 0, next_offset, segment.base_offset + LARGEST_DELTA)
        spans = found.spans if end is None else _before(found.spans, end)
        if spans:
            yield Chunk(buffer, spans, position=at)
        next_offset = found.next_offset
        at += found.end
        if found.fault is None and found.end:
            continue
        if end is not None and next_offset >= end:
            return
        at, problem = _behind_damage(segment, at, size, found.fault, next_offset, is_last=is_last)
        if problem is not None:
            yield Chunk(b"", problem=problem)


def _enough(segment: Segment, at: int, size: int) -> bytes:
    """Read a chunk, or the whole batch at a position if it is larger."""
    buffer = read_at(segment.descriptor, at, min(CHUNK_BYTES, size - at))
    if len(buffer) >= HEADER_BYTES:
        length = batch_length(buffer)
        if len(buffer) < length <= size - at:
            return read_at(segment.descriptor, at, length)
    return buffer


def _before(spans: Sequence[BatchSpan], end: int) -> Sequence[BatchSpan]:
    """Drop the batches that begin at or after an offset."""
    if not spans or spans[-1].header.base_offset < end:
        return spans
    return [span for span in spans if span.header.base_offset < end]


def _behind_damage(
    segment: Segment, at: int, size: int, fault: str | None, next_offset: int, *, is_last: bool
) -> tuple[int, Problem | None]:
    """Return the position of the next whole batch, or the file's size, and the problem."""
    rest = read_at(segment.descriptor, at, size - at)
    found = find_whole_batch(rest, 1, next_offset)
    if found is None and is_last:
        return size, None
    skipped = len(rest) if found is None else found
    fault = fault or f"a batch is cut off after {len(rest)} bytes"
    text = f"{segment.path}, position {at}: {fault}; {skipped} bytes were skipped"
    return at + skipped, Problem(next_offset, text)


def end_of_log(segments: Sequence[Segment]) -> int:
    """Return the offset after the last whole batch."""
    segment = segments[-1]
    tail = find_tail(segment.descriptor, segment.base_offset)
    if tail.end == segment.size:
        last = read_at(segment.descriptor, tail.last, tail.end - tail.last)
        if not last or is_whole_batch(last, 0, segment.base_offset):
            return tail.next_offset
    end = segment.base_offset
    for chunk in read_range(segments[-1:], segment.base_offset, None):
        if chunk.spans:
            end = chunk.spans[-1].header.last_offset + 1
    return end
