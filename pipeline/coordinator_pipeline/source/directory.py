"""The log in a data directory: its partitions, their bounds and their rows."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from coordinator_pipeline.decode.decoder import Decoder
from coordinator_pipeline.source.listing import high_watermarks, open_segments, partitions_of
from coordinator_pipeline.source.options import Options
from coordinator_pipeline.source.reading import end_of_log, read_range, rows_of
from coordinator_pipeline.source.stream import Follower, Position


class DirectoryLog:
    """What a coordinator-server or a broker has written, or is still writing."""

    def __init__(self, options: Options) -> None:
        assert options.path is not None
        self._options = options
        self._path = options.path

    def partitions(self) -> list[int]:
        """The log partitions. Raises SourceError."""
        return partitions_of(self._path, self._options.topic)

    def directory(self, partition: int) -> Path:
        """Where a partition's segments are."""
        return self._path / f"{self._options.topic}-{partition}"

    def bounds(self, partition: int) -> tuple[int, int]:
        """First offset and the one behind the last that may be read. Raises SourceError."""
        with open_segments(self.directory(partition)) as segments:
            if not segments:
                return 0, 0
            start = segments[0].base_offset
            end = end_of_log(segments)
        return start, min(end, self.limits().get(partition, end))

    def limits(self) -> dict[int, int]:
        """What a broker calls replicated; nothing where it does not matter."""
        if self._options.past_high_watermark:
            return {}
        return high_watermarks(self._path, self._options.topic)

    def latest(
        self,
        start: Mapping[str, Any],
        followers: dict[int, Follower],
        target: Mapping[int, int] | None = None,
    ) -> dict[str, dict[str, Any]]:
        """How far a stream that stands at `start` can read now, but not beyond `target`.

        Raises SourceError.
        """
        limits = self.limits()
        # One that is not there now has not been forgotten: it would be read again from 0.
        found = dict(start)
        for number in self.partitions():
            before = Position.of(start.get(str(number)))
            follower = followers.setdefault(number, Follower())
            limit = limits.get(number)
            if target is not None:
                most = target.get(number, 0)
                limit = most if limit is None else min(limit, most)
            with open_segments(self.directory(number)) as segments:
                after = follower.look(segments, before, limit)
            found[str(number)] = after.form()
        return found

    def read(
        self, partition: int, start: int, end: int | None, incarnation: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a range of offsets. Raises SourceError."""
        decoder = Decoder(self._options.wanted(start, end), partition, incarnation)
        with open_segments(self.directory(partition)) as segments:
            yield from rows_of(read_range(segments, start, end), decoder)
