"""Spark's Python data source `coordinator_log`: `spark.read.format("coordinator_log")`.

An input partition is a range of offsets of one log partition, fixed when Spark plans the read. The
task that reads it looks for the segments again: the server may have rolled, compacted or deleted
files since.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from coordinator_pipeline.records_schema import spark_ddl
from coordinator_pipeline.source.broker import BrokerLog
from coordinator_pipeline.source.directory import DirectoryLog
from coordinator_pipeline.source.options import RANGES_VIEW, Options, parse_options
from coordinator_pipeline.source.stream_position import PartitionFollower, Position

NAME = "coordinator_log"
RANGES: Final = pa.schema(
    [
        ("log_partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("incarnation", pa.int32()),
    ]
)
"""The columns of the view `ranges`: a row for each log partition that has new offsets."""


@dataclass
class OffsetRange(InputPartition):
    """Offsets of a log partition, from `start` to before `end`."""

    log_partition: int
    start: int
    end: int
    incarnation: int = 0


@dataclass
class RangeList(InputPartition):
    """All ranges: one task returns them as the rows of the view `ranges`."""

    ranges: list[OffsetRange]


class CoordinatorLog(DataSource):
    """The data source; see `pipeline/coordinator_pipeline/source/options.py` for its options."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return NAME

    def schema(self) -> str:
        """Return the selected columns of `records`, or those of the view `ranges`."""
        return spark_ddl(RANGES if self._options.view == RANGES_VIEW else self._options.schema)

    def reader(self, schema: Any) -> "LogReader":
        """Return the reader of a batch query."""
        return LogReader(self._options)

    def streamReader(self, schema: Any) -> "LogStreamReader":  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        return LogStreamReader(self._options)


class LogReader(DataSourceReader):
    """Reads the offsets that exist when Spark plans the query."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return a range for each log partition with records, or one empty range."""
        return _planned(self._options, self.ranges()) or [OffsetRange(-1, 0, 0)]

    def ranges(self) -> list[OffsetRange]:
        """Return the ranges that can be read now. Raises SourceError."""
        log = open_log(self._options)
        ranges: list[OffsetRange] = []
        for number in log.partitions():
            start, end = log.bounds(number)
            start = max(start, (self._options.starting or {}).get(number, start))
            end = min(end, (self._options.ending or {}).get(number, end))
            if start < end:
                ranges.append(OffsetRange(number, start, end))
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a range."""
        return _rows(self._options, partition)


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the records appended since the last micro-batch."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._log = open_log(options)
        self._followers: dict[int, PartitionFollower] = {}
        self._target: dict[int, int] | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of the stream to the current end of the log.

        Without this method Spark runs one micro-batch, which may only repeat an interrupted one.
        """
        numbers = self._log.partitions()
        self._target = {number: self._log.bounds(number)[1] for number in numbers}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the beginning, or the offsets of `startingOffsets`."""
        starting = self._options.starting or {}
        return {str(number): Position(offset).form() for number, offset in starting.items()}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        """Return the position up to which each log partition can be read now."""
        return self._log.latest(start, self._followers, self._target)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return a range for each log partition with new records."""
        ranges: list[OffsetRange] = []
        for name, form in end.items():
            before, after = Position.of(start.get(name)), Position.of(form)
            begin = before.next
            if after.incarnation > before.incarnation and after.again_from is not None:
                begin = after.again_from
            if begin < after.next:
                ranges.append(OffsetRange(int(name), begin, after.next, after.incarnation))
        return _planned(self._options, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a range."""
        return _rows(self._options, partition)


def open_log(options: Options) -> DirectoryLog | BrokerLog:
    """Open the log that the options name."""
    return DirectoryLog(options) if options.bootstrap is None else BrokerLog(options)


def _planned(options: Options, ranges: list[OffsetRange]) -> list[InputPartition]:
    return [RangeList(ranges)] if ranges and options.view == RANGES_VIEW else [*ranges]


def _rows(options: Options, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, RangeList):
        yield pa.RecordBatch.from_pylist([vars(one) for one in partition.ranges], schema=RANGES)
        return
    assert isinstance(partition, OffsetRange)
    if partition.start < partition.end:
        yield from open_log(options).read(
            partition.log_partition, partition.start, partition.end, partition.incarnation
        )


def register(spark: SparkSession) -> None:
    """Make the format `coordinator_log` known to a session."""
    spark.dataSource.register(CoordinatorLog)
