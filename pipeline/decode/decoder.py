"""Batches to rows: what a reader of the log calls, whatever way the bytes came."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pipeline.decode.batches import Span
from pipeline.decode.plain import Row, record_row, rows_to_arrow
from pipeline.records_schema import HISTORY_KIND, RECORDS
from protocol.batch import read_records
from protocol.errors import Malformed

VIEWS: Final = ("all", "commits", "groups")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of the records a reader asks for."""

    schema: pa.Schema = RECORDS
    """The columns; a part of RECORDS."""
    view: str = "all"
    """`commits` leaves out groups and their history, `groups` leaves out offsets. Markers, problems
    and unknown kinds are in all views."""
    start: int = 0
    end: int | None = None
    """The offsets, from `start` to before `end`."""

    def keeps_kind(self, kind: int | None) -> bool:
        """Whether the view has records of a kind."""
        if self.view == "commits":
            return kind not in (2, HISTORY_KIND)
        return self.view != "groups" or kind not in (0, 1)


class Decoder:
    """Decodes the batches of one log partition."""

    def __init__(self, wanted: Wanted, log_partition: int, incarnation: int = 0) -> None:
        self._wanted = wanted
        self._identity: Row = {"log_partition": log_partition, "incarnation": incarnation}

    def decode(self, buffer: bytes, spans: Sequence[Span]) -> pa.RecordBatch:
        """The records of batches, in their order."""
        rows: list[Row] = []
        for position, header in spans:
            try:
                rows += [record_row(record) for record in read_records(header, buffer, position)]
            except Malformed as error:
                rows.append({"log_offset": header.base_offset, "problem": str(error)})
        return self._arrow([row for row in rows if self._keeps(row)])

    def problem(self, offset: int, text: str) -> pa.RecordBatch:
        """The row that reports what could not be read."""
        return self._arrow([{"log_offset": offset, "problem": text}])

    def _keeps(self, row: Row) -> bool:
        wanted = self._wanted
        offset = row["log_offset"]
        in_range = wanted.start <= offset and (wanted.end is None or offset < wanted.end)
        return in_range and wanted.keeps_kind(row.get("kind"))

    def _arrow(self, rows: list[Row]) -> pa.RecordBatch:
        return rows_to_arrow([row | self._identity for row in rows], self._wanted.schema)
