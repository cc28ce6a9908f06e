"""Ends of topic partitions: from the headers of their own batches, or asked of a server.

Of a log there is one row for the last batch of each minute, which is all that lag needs.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pipeline.decode.plain import EARLIEST_MS, LATEST_MS
from pipeline.source.errors import SourceError
from pipeline.source.fetch import Client
from protocol.batch import HEADER_BYTES, BatchHeader, read_header
from protocol.errors import Malformed

EndOffset = tuple[datetime, str, int, int, str]
"""ts, topic, partition, end_offset, source: a row of the table."""

_DIRECTORY: Final = re.compile(r"(.+)-(\d+)")
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_MINUTE_MS: Final = 60_000


def from_directory(directory: Path) -> list[EndOffset]:
    """Of all topics in a data directory but internal ones; a log that vanishes is left out."""
    rows: list[EndOffset] = []
    for path in sorted(directory.iterdir()):
        match = _DIRECTORY.fullmatch(path.name)
        if match and not match[1].startswith("__") and path.is_dir():
            rows += _of_partition(path, match[1], int(match[2]))
    return rows


def _of_partition(path: Path, topic: str, partition: int) -> Iterator[EndOffset]:
    last: dict[int, tuple[int, int]] = {}
    newest = 0
    for segment in sorted(path.iterdir()):
        if not _SEGMENT.fullmatch(segment.name):
            continue
        for header in _headers(segment):
            # A client may stamp its records as it likes; an end never comes before an older one.
            newest = max(newest, min(header.max_timestamp, LATEST_MS), EARLIEST_MS)
            last[newest // _MINUTE_MS] = (newest, header.last_offset + 1)
    for millis, end in last.values():
        yield datetime.fromtimestamp(millis / 1000, UTC), topic, partition, end, "log"


def _headers(segment: Path) -> Iterator[BatchHeader]:
    """Of whole batches, in order; what is torn or damaged ends them."""
    try:
        with segment.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            at = 0
            while size - at >= HEADER_BYTES:
                file.seek(at)
                header = read_header(file.read(HEADER_BYTES))
                if header.size > size - at:
                    return
                yield header
                at += header.size
    except (FileNotFoundError, Malformed):
        return


def from_bootstrap(address: str, partitions: Sequence[tuple[str, int]]) -> list[EndOffset]:
    """Ask a server with ListOffsets; what it does not know is left out."""
    rows: list[EndOffset] = []
    topics = sorted({topic for topic, _ in partitions})
    for topic in topics:
        with closing(Client(address, topic)) as client:
            try:
                known = set(client.partitions())
            except SourceError:
                continue
            wanted = sorted(known & {number for name, number in partitions if name == topic})
            ends = [(number, client.bounds(number).end) for number in wanted]
        now = datetime.now(UTC)
        rows += [(now, topic, number, end, "list_offsets") for number, end in ends]
    return rows
