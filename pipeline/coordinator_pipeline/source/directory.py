"""Reads the log from a data directory: its partitions, their bounds and their rows."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from coordinator_pipeline.decode.decoder import Decoder
from coordinator_pipeline.source.options import Options
from coordinator_pipeline.source.range_reader import end_of_log, read_range, rows_of
from coordinator_pipeline.source.segments import high_watermarks, open_segments, partitions_of
from coordinator_pipeline.source.stream_position import PartitionFollower, Position


class DirectoryLog:
    """The log of a coordinator-server or a broker, which may still append to it."""

    def __init__(self, options: Options) -> None:
        assert options.path is not None
        self._options = options
        self._path = options.path

    def partitions(self) -> list[int]:
        """Return the log partitions. Raises SourceError."""
        return partitions_of(self._path, self._options.topic)

    def directory(self, partition: int) -> Path:
        """Return the directory of a partition's segments."""
        return self._path / f"{self._options.topic}-{partition}"

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the first offset and the one after the last readable. Raises SourceError."""
        with open_segments(self.directory(partition)) as segments:
            if not segments:
                return 0, 0
            start = segments[0].base_offset
            end = end_of_log(segments)
        return start, min(end, self.limits().get(partition, end))

    def limits(self) -> dict[int, int]:
        """Return the high watermarks of a broker; empty with `pastHighWatermark`."""
        if self._options.past_high_watermark:
            return {}
        return high_watermarks(self._path, self._options.topic)

    def latest(
        self,
        start: Mapping[str, Any],
        followers: dict[int, PartitionFollower],
        target: Mapping[int, int] | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Return the position up to which a stream at `start` can read, at most `target`.

        Raises:
            SourceError: a directory or a segment cannot be read.
        """
        limits = self.limits()
        # A missing partition keeps its position; else the stream would read it again from 0.
        found = dict(start)
        for number in self.partitions():
            before = Position.of(start.get(str(number)))
            follower = followers.setdefault(number, PartitionFollower())
            limit = limits.get(number)
            if target is not None:
                most = target.get(number, 0)
                limit = most if limit is None else min(limit, most)
            with open_segments(self.directory(number)) as segments:
                after = follower.advance(segments, before, limit)
            found[str(number)] = after.form()
        return found

    def read(
        self, partition: int, start: int, end: int | None, incarnation: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Read a range of offsets. Raises SourceError."""
        decoder = Decoder(self._options.selection(start, end), partition, incarnation)
        with open_segments(self.directory(partition)) as segments:
            yield from rows_of(read_range(segments, start, end), decoder)
