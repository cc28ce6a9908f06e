"""Which transactions of a log are open and which were aborted, as Kafka's `.txnindex` says it.

Kept in memory and read from the batch headers of the log; it grows with aborted transactions only.
Everything here reads files and blocks; it is called in a thread.
"""

from typing import Final, NamedTuple

from coordinator_protocol.batch import BatchHeader, batches
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.markers import decode_marker
from coordinator_server.storage.segments.log import SegmentLog

CHUNK_BYTES: Final = 1024 * 1024


class Aborted(NamedTuple):
    """An aborted transaction: its producer and the offsets of its first batch and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Transactions:
    """The transactions of a log, for read_committed readers; follows the log as it grows."""

    def __init__(self) -> None:
        self.end = 0
        """Everything before this offset has been looked at."""
        self._open: dict[int, int] = {}
        """First offset of each open transaction, by producer id."""
        self._aborted: list[Aborted] = []

    def advance(self, log: SegmentLog, up_to: int) -> None:
        """Look at what lies before the offset `up_to`. Raises CorruptLog, Malformed, OSError."""
        at = max(self.end, log.start_offset)
        while at < up_to and (chunk := log.read(at, CHUNK_BYTES, up_to)):
            for position, header in batches(chunk):
                if header.last_offset < at:
                    continue
                if header.is_transactional:
                    self._note(header, chunk, position)
                at = header.last_offset + 1
        self.end = max(self.end, up_to)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where the first transaction begins that is still open, or the high watermark."""
        return min(self._open.values(), default=high_watermark)

    def aborted_within(self, first: int, end: int) -> list[Aborted]:
        """Those with offsets from `first` up to but not including `end`."""
        return [
            each for each in self._aborted if each.last_offset >= first and each.first_offset < end
        ]

    def _note(self, header: BatchHeader, chunk: bytes, position: int) -> None:
        if not header.is_control:
            self._open.setdefault(header.producer_id, header.base_offset)
            return
        for marker in read_records(header, chunk, position):
            begin = self._open.pop(header.producer_id, None)
            if begin is not None and not decode_marker(marker.key or b""):
                self._aborted.append(Aborted(header.producer_id, begin, marker.offset))
