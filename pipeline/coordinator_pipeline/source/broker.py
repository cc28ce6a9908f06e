"""Reads the log of a running server, coordinator-server or Kafka, with Fetch."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import pyarrow as pa

from coordinator_pipeline.decode.batches import BatchSpan, find_whole_batch, walk_batches
from coordinator_pipeline.decode.decoder import Decoder
from coordinator_pipeline.source.fetch import TopicClient, addresses
from coordinator_pipeline.source.options import ISOLATIONS, Options
from coordinator_pipeline.source.range_reader import Chunk, Problem, rows_of
from coordinator_pipeline.source.stream_position import PartitionFollower, Position
from coordinator_protocol.batch import read_header
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.fetch import AbortedTransaction

EMPTY_RESPONSES: Final = 3
"""So many empty responses in a row mean that compaction removed the rest of the range."""


class BrokerLog:
    """The topic up to the high watermark, or to the last stable offset for read_committed."""

    def __init__(self, options: Options) -> None:
        """Check the options. Raises SourceError for an invalid address."""
        assert options.bootstrap is not None
        addresses(options.bootstrap)
        self._options = options

    def _client(self) -> closing[TopicClient]:
        options = self._options
        assert options.bootstrap is not None
        return closing(
            TopicClient(options.bootstrap, options.topic, ISOLATIONS.index(options.isolation))
        )

    def partitions(self) -> list[int]:
        """Return the log partitions. Raises SourceError."""
        with self._client() as client:
            return client.partitions()

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the first offset and the one after the last. Raises SourceError."""
        with self._client() as client:
            return client.bounds(partition)

    def latest(
        self,
        start: Mapping[str, Any],
        followers: dict[int, PartitionFollower],
        target: Mapping[int, int] | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Return the position up to which a stream at `start` can read, at most `target`.

        A log that ends before `start` was truncated by an unclean election or a restore: the
        stream reads it again from its beginning, as the next incarnation.

        Raises:
            SourceError: no server answers.
        """
        # A partition without a leader keeps its position; else the stream would read it from 0.
        found = dict(start)
        with self._client() as client:
            for number in client.led():
                before = Position.of(start.get(str(number)))
                bounds = client.bounds(number)
                end = bounds.end if target is None else min(bounds.end, target.get(number, 0))
                if bounds.end < before.next:
                    again = bounds.start
                    before = Position(again, before.incarnation + 1, again_from=again)
                found[str(number)] = before.moved_to(max(end, before.next), None).form()
        return found

    def read(
        self, partition: int, start: int, end: int, incarnation: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Read a range of offsets. Raises SourceError."""
        decoder = Decoder(self._options.selection(start, end), partition, incarnation)
        with self._client() as client:
            yield from rows_of(self._chunks(client, partition, start, end), decoder)

    def _chunks(
        self, client: TopicClient, partition: int, offset: int, end: int
    ) -> Iterator[Chunk]:
        empty = 0
        while offset < end and empty < EMPTY_RESPONSES:
            response = client.fetch(partition, offset)
            if response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                # Retention moved the log's start; the end of the range existed when it was planned.
                begin = client.bounds(partition).start
                if begin <= offset:
                    return
                offset = begin
                continue
            raw = response.records or b""
            found = walk_batches(raw)
            empty = 0 if found.spans else empty + 1
            spans = committed(found.spans, response.aborted_transactions or ())
            yield Chunk(raw, spans)
            offset = max(offset, found.next_offset)
            if found.fault is not None:
                behind = find_whole_batch(raw, found.end + 1, offset)
                yield Chunk(b"", problem=self._problem(partition, offset, found.fault, behind))
                if behind is None:
                    return
                offset = read_header(raw, behind).base_offset

    def _problem(self, partition: int, offset: int, fault: str, behind: int | None) -> Problem:
        skipped = "one batch was" if behind is not None else "the rest of the range was"
        where = f"{self._options.topic}-{partition} of {self._options.bootstrap}"
        return Problem(offset, f"{where}, offset {offset}: {fault}; {skipped} skipped")


def committed(spans: Sequence[BatchSpan], aborted: Sequence[AbortedTransaction]) -> list[BatchSpan]:
    """Drop the batches of aborted transactions: Fetch sends them, with a list of transactions."""
    if not aborted:
        return list(spans)
    begins = sorted((each.first_offset, each.producer_id) for each in aborted)
    open_now: set[int] = set()
    kept = []
    for span in spans:
        header = span.header
        while begins and begins[0][0] <= header.last_offset:
            open_now.add(begins.pop(0)[1])
        if header.is_control:
            open_now.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_now:
            continue
        kept.append(span)
    return kept
