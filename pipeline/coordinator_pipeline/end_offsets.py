"""Reads end offsets of topic partitions from batch headers in their logs, or with ListOffsets.

A log gives one row for the last batch of each minute, which is enough for lag. The current minute
of a log that grows can have several rows: the last one counts.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from coordinator_pipeline.decode.row_decoder import EARLIEST_MS, LATEST_MS
from coordinator_pipeline.source.errors import SourceError
from coordinator_pipeline.source.fetch import TopicClient
from coordinator_protocol.batch import HEADER_BYTES, BatchHeader, read_header
from coordinator_protocol.errors import Malformed

EndOffset = tuple[datetime, str, int, int, str]
"""ts, topic, partition, end_offset, source: a row of the table."""

_DIRECTORY: Final = re.compile(r"(.+)-(\d+)")
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_MINUTE_MS: Final = 60_000


class TopicEndReader:
    """Reads the end offsets in a data directory; each read continues where the last one ended."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._partitions: dict[Path, _Partition] = {}

    def read_new(self) -> list[EndOffset]:
        """Return the rows of minutes that changed since the last read, without internal topics.

        It skips a log that is deleted during the read.
        """
        rows: list[EndOffset] = []
        for path in sorted(self._directory.iterdir()):
            match = _DIRECTORY.fullmatch(path.name)
            if match and not match[1].startswith("__") and path.is_dir():
                mine = self._partitions.setdefault(path, _Partition(path))
                rows += (
                    (datetime.fromtimestamp(at / 1000, UTC), match[1], int(match[2]), end, "log")
                    for at, end in mine.read_new()
                )
        return rows


class _Partition:
    """A topic partition's log, and the position of the last read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._newest = 0
        self._segment = ""
        self._at = 0
        self._last = 0, b""
        """The position of the last batch in the segment, and its header."""

    def read_new(self) -> list[tuple[int, int]]:
        """Return time and end offset of each minute's last batch since the last read."""
        last: dict[int, tuple[int, int]] = {}
        names = self._names()
        if names and names[-1] < self._segment:
            self._segment = ""
        for name in names:
            if name < self._segment:
                continue
            if name != self._segment:
                self._begin(name)
            for header in self._headers(self._path / name):
                # Clients choose timestamps; the time of a later end never decreases.
                self._newest = max(self._newest, min(header.max_timestamp, LATEST_MS), EARLIEST_MS)
                last[self._newest // _MINUTE_MS] = (self._newest, header.last_offset + 1)
        return list(last.values())

    def _names(self) -> list[str]:
        try:
            return sorted(p.name for p in self._path.iterdir() if _SEGMENT.fullmatch(p.name))
        except FileNotFoundError:
            return []

    def _begin(self, segment: str) -> None:
        self._segment, self._at, self._last = segment, 0, (0, b"")

    def _headers(self, segment: Path) -> Iterator[BatchHeader]:
        """Read the headers of new whole batches, in order, up to a torn or damaged one."""
        try:
            with segment.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                at, raw = self._last
                file.seek(at)
                if file.read(len(raw)) != raw:
                    # The topic was created again, or its log was truncated or compacted.
                    self._begin(segment.name)
                while size - self._at >= HEADER_BYTES:
                    file.seek(self._at)
                    raw = file.read(HEADER_BYTES)
                    header = read_header(raw)
                    if header.size > size - self._at:
                        return
                    self._last = self._at, raw
                    self._at += header.size
                    yield header
        except (FileNotFoundError, Malformed):
            return


def from_bootstrap(address: str, partitions: Sequence[tuple[str, int]]) -> list[EndOffset]:
    """Read end offsets with ListOffsets; skips topics that the server does not have."""
    rows: list[EndOffset] = []
    topics = sorted({topic for topic, _ in partitions})
    for topic in topics:
        with closing(TopicClient(address, topic)) as client:
            try:
                known = set(client.led())
            except SourceError:
                continue
            wanted = sorted(known & {number for name, number in partitions if name == topic})
            ends = [(number, client.bounds(number).end) for number in wanted]
        now = datetime.now(UTC)
        rows += [(now, topic, number, end, "list_offsets") for number, end in ends]
    return rows
