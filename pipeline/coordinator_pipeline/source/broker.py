"""The log of a running server, coordinator-server or Kafka, over its Fetch API."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import pyarrow as pa

from coordinator_pipeline.decode.batches import Span, next_whole, walk
from coordinator_pipeline.decode.decoder import Decoder
from coordinator_pipeline.source.fetch import Client, addresses
from coordinator_pipeline.source.options import ISOLATIONS, Options
from coordinator_pipeline.source.reading import Chunk, Problem, rows_of
from coordinator_pipeline.source.stream import Follower, Position
from coordinator_protocol.batch import read_header
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.fetch import AbortedTransaction

EMPTY_ANSWERS: Final = 3
"""So often in a row, and there is nothing left in the range: compaction took its end."""


class BrokerLog:
    """The topic as a consumer sees it: up to the high watermark, or the last stable offset."""

    def __init__(self, options: Options) -> None:
        """Raises SourceError if the addresses are none."""
        assert options.bootstrap is not None
        addresses(options.bootstrap)
        self._options = options

    def _client(self) -> closing[Client]:
        options = self._options
        assert options.bootstrap is not None
        return closing(
            Client(options.bootstrap, options.topic, ISOLATIONS.index(options.isolation))
        )

    def partitions(self) -> list[int]:
        """The log partitions. Raises SourceError."""
        with self._client() as client:
            return client.partitions()

    def bounds(self, partition: int) -> tuple[int, int]:
        """First offset and the one behind the last. Raises SourceError."""
        with self._client() as client:
            return client.bounds(partition)

    def latest(
        self,
        start: Mapping[str, Any],
        followers: dict[int, Follower],
        target: Mapping[int, int] | None = None,
    ) -> dict[str, dict[str, Any]]:
        """How far a stream that stands at `start` can read now, but not beyond `target`.

        Raises SourceError.

        A log that ends before `start` has lost its end, in an unclean election or a restore: it is
        read again from its beginning, as the next incarnation.
        """
        # One that nobody leads now has not been forgotten: it would be read again from 0.
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
        """The rows of a range of offsets. Raises SourceError."""
        decoder = Decoder(self._options.wanted(start, end), partition, incarnation)
        with self._client() as client:
            yield from rows_of(self._chunks(client, partition, start, end), decoder)

    def _chunks(self, client: Client, partition: int, offset: int, end: int) -> Iterator[Chunk]:
        empty = 0
        while offset < end and empty < EMPTY_ANSWERS:
            answer = client.fetch(partition, offset)
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                # The log's beginning has moved on; the end cannot have, it is below what was there.
                begin = client.bounds(partition).start
                if begin <= offset:
                    return
                offset = begin
                continue
            raw = answer.records or b""
            found = walk(raw)
            empty = 0 if found.spans else empty + 1
            spans = committed(found.spans, answer.aborted_transactions or ())
            yield Chunk(raw, spans)
            offset = max(offset, found.next_offset)
            if found.fault is not None:
                behind = next_whole(raw, found.end + 1, offset)
                yield Chunk(b"", problem=self._problem(partition, offset, found.fault, behind))
                if behind is None:
                    return
                offset = read_header(raw, behind).base_offset

    def _problem(self, partition: int, offset: int, fault: str, behind: int | None) -> Problem:
        left_out = "one batch is" if behind is not None else "the rest of the range is"
        where = f"{self._options.topic}-{partition} of {self._options.bootstrap}"
        return Problem(offset, f"{where}, offset {offset}: {fault}; {left_out} left out")


def committed(spans: Sequence[Span], aborted: Sequence[AbortedTransaction]) -> list[Span]:
    """Without the batches of aborted transactions, which a server lists and sends all the same."""
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
