"""Decodes batches of one log partition into rows of `records`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from coordinator_pipeline.decode.batches import BatchSpan
from coordinator_pipeline.decode.byte_arrays import Flags
from coordinator_pipeline.decode.record_arrays import RecordArrays, find_records
from coordinator_pipeline.decode.record_columns import CONTROL, RecordColumns
from coordinator_pipeline.decode.row_decoder import Row, record_row, rows_to_arrow
from coordinator_pipeline.records_schema import HISTORY_KIND, KNOWN_KINDS, RECORDS
from coordinator_protocol.batch import LogRecord
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.errors import Malformed

VIEWS: Final = ("all", "commits", "groups")


@dataclass(frozen=True, slots=True)
class Selection:
    """The columns, kinds and offsets that a reader selects."""

    schema: pa.Schema = RECORDS
    """The columns, a subset of RECORDS."""
    view: str = "all"
    """`commits` leaves out groups and their history, `groups` leaves out offsets. Markers, problems
    and unknown kinds are in all views."""
    start: int = 0
    end: int | None = None
    """The offset before which the selection ends; it begins at `start`."""

    def includes_kind(self, kind: int | None) -> bool:
        """Whether the view includes records of a kind."""
        if self.view == "commits":
            return kind not in (2, HISTORY_KIND)
        return self.view != "groups" or kind not in (0, 1)


class Decoder:
    """Decodes the batches of one log partition."""

    def __init__(self, selection: Selection, log_partition: int, incarnation: int = 0) -> None:
        self._selection = selection
        self._identity = {"log_partition": log_partition, "incarnation": incarnation}

    def decode(self, buffer: bytes, spans: Sequence[BatchSpan]) -> Iterator[pa.RecordBatch]:
        """Decode the selected records of batches, in their order."""
        records, unusual = find_records(buffer, spans)
        if not len(unusual):
            yield self._decode(buffer, spans, records)
            return
        first = 0
        for number in unusual.tolist():
            if first < number:
                yield from self.decode(buffer, spans[first:number])
            yield self._one_by_one(buffer, spans[number])
            first = number + 1
        if first < len(spans):
            yield from self.decode(buffer, spans[first:])

    def _one_by_one(self, buffer: bytes, span: BatchSpan) -> pa.RecordBatch:
        """Decode a batch that numpy left out; a damaged one gives a row with a `problem`."""
        try:
            rows = [record_row(record) for record in _records(buffer, span)]
        except Malformed as error:
            first, last = span.header.base_offset, span.header.last_offset
            missing = max(first, min(self._selection.start, last))
            rows = [{"log_offset": missing, "problem": str(error)}]
        return self._arrow([row for row in rows if self._keeps(row)])

    def _decode(
        self, buffer: bytes, spans: Sequence[BatchSpan], records: RecordArrays
    ) -> pa.RecordBatch:
        records = records.where(self._kept(records))
        columns = RecordColumns(records)
        rows = columns.build(self._selection.schema, self._identity)
        left = np.flatnonzero(~columns.sound)
        if not len(left):
            return rows
        found: dict[int, dict[int, LogRecord]] = {}
        plain = []
        for batch, offset in zip(
            records.batch[left].tolist(), records.offset[left].tolist(), strict=True
        ):
            if batch not in found:
                found[batch] = {r.offset: r for r in _records(buffer, spans[batch])}
            plain.append(record_row(found[batch][offset]))
        order = np.arange(rows.num_rows)
        order[left] = rows.num_rows + np.arange(len(left))
        return pa.concat_batches([rows, self._arrow(plain)]).take(pa.array(order))

    def problem(self, offset: int, text: str) -> pa.RecordBatch:
        """Return one row that reports a `problem` at an offset."""
        return self._arrow([{"log_offset": offset, "problem": text}])

    def _kept(self, records: RecordArrays) -> Flags:
        """Mark the records in the range of offsets and in the view."""
        selection, offset = self._selection, records.offset
        kept: Flags = offset >= selection.start
        if selection.end is not None:
            kept &= offset < selection.end
        if selection.view != "all":
            kind = np.where(records.key_size >= 2, records.data.int16(records.key_at), -1)
            hidden = [
                kind == number for number in KNOWN_KINDS if not selection.includes_kind(number)
            ]
            # The key of a transaction marker begins like the key of a committed offset.
            kept &= ~np.logical_or.reduce(hidden) | (records.of_batch("attributes") & CONTROL != 0)
        return kept

    def _keeps(self, row: Row) -> bool:
        selection = self._selection
        offset = row["log_offset"]
        in_range = selection.start <= offset and (selection.end is None or offset < selection.end)
        return in_range and selection.includes_kind(row.get("kind"))

    def _arrow(self, rows: list[Row]) -> pa.RecordBatch:
        return rows_to_arrow([row | self._identity for row in rows], self._selection.schema)


def _records(buffer: bytes, span: BatchSpan) -> list[LogRecord]:
    return read_records(span.header, buffer, span.position)
