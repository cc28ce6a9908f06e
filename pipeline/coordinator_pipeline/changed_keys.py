"""Finds the groups and ten-minute windows whose rows a batch of new records changes.

A group changes with its own records; with a marker, which ends the transactions of its producer;
with a newer incarnation of its log partition, which makes older records void; and, for its lag,
with a later end offset of a topic in a minute in which the group commits.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coordinator_pipeline.end_offsets import EndOffset
from coordinator_pipeline.record_files import (
    RecordFile,
    files_of_partitions,
    in_portions,
    read_rows,
)

WINDOW_SECONDS: Final = 600
"""The length of a window of `hot_partitions`."""
COLUMNS: Final = ["group_id", "log_partition", "ts"]


def window_of(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the start of each time's window, in seconds since 1970."""
    begins = pc.floor_temporal(times, WINDOW_SECONDS, "second", calendar_based_origin=False)
    return pc.cast(begins, pa.timestamp("s", tz="UTC")).cast(pa.int64())


def window_bounds(windows: Collection[int]) -> tuple[datetime, datetime]:
    """Return the start of the first window and the end of the last; without windows, the epoch."""
    begins = [datetime.fromtimestamp(at, UTC) for at in windows or (0,)]
    return min(begins), max(begins) + timedelta(seconds=WINDOW_SECONDS)


@dataclass
class ChangedKeys:
    """Keys of the table rows that a batch changes."""

    groups: set[str] = field(default_factory=set)
    windows: set[int] = field(default_factory=set)
    """Starts of windows, in seconds since 1970."""
    partitions: set[int] = field(default_factory=set)
    """The log partitions of the groups."""

    def add(self, rows: pa.Table) -> None:
        """Add the keys of rows, which have COLUMNS."""
        self.partitions.update(pc.unique(rows["log_partition"]).to_pylist())
        self.groups.update(pc.unique(rows["group_id"].drop_null()).to_pylist())
        self.windows.update(pc.unique(window_of(rows["ts"].drop_null())).to_pylist())

    def table(self, batch: int) -> pa.Table:
        """Return the rows of the table `touched`."""
        keys = [("group", key) for key in sorted(self.groups)]
        keys += [("window", str(key)) for key in sorted(self.windows)]
        return pa.table(
            {
                "unit": pa.array([unit for unit, _ in keys], pa.string()),
                "key": pa.array([key for _, key in keys], pa.string()),
                "batch": pa.array([batch] * len(keys), pa.int64()),
            }
        )


def find_changed_keys(
    new: Sequence[RecordFile], everything: Sequence[RecordFile], ends: Iterable[EndOffset]
) -> ChangedKeys:
    """Find the keys that new files and end offsets change; `everything` includes the new files."""
    found = ChangedKeys()
    for some in in_portions(new):
        found.add(read_rows(some, COLUMNS))
    old = set(everything) - set(new)
    if old:
        for files, where in (*_ended(new, everything), *_void(new, old)):
            for some in in_portions(files):
                found.add(read_rows(some, COLUMNS, where))
    for group, number in _behind(everything, ends):
        found.groups.add(group)
        found.partitions.add(number)
    return found


def _ended(
    new: Sequence[RecordFile], everything: Sequence[RecordFile]
) -> Iterator[tuple[list[RecordFile], ds.Expression]]:
    """Select the records of transactions that a marker in the new files may end."""
    markers = read_rows(new, ["log_partition", "producer_id"], ds.field("is_control"))
    for number in pc.unique(markers["log_partition"]).to_pylist():
        mine = markers.filter(pc.equal(markers["log_partition"], number))
        producers = pc.unique(mine["producer_id"])
        where = ds.field("is_txn") & ds.field("producer_id").isin(producers)
        yield files_of_partitions(everything, [number]), where


def _void(
    new: Sequence[RecordFile], old: Iterable[RecordFile]
) -> Iterator[tuple[list[RecordFile], ds.Expression]]:
    """Select the records that a newer incarnation in the new files makes void."""
    for one in new:
        if one.incarnation and one.rows:
            where = ds.field("log_offset") >= one.first
            older = [each for each in old if each.incarnation < one.incarnation]
            yield files_of_partitions(older, [one.log_partition]), where


def _behind(
    everything: Sequence[RecordFile], ends: Iterable[EndOffset]
) -> Iterator[tuple[str, int]]:
    """Find groups that commit in or after the minute of a new end, and their log partitions."""
    first: dict[tuple[str, int], datetime] = {}
    for ts, topic, partition, _, _ in ends:
        minute = ts.replace(second=0, microsecond=0)
        first[topic, partition] = min(minute, first.get((topic, partition), minute))
    if not first:
        return
    begin = pa.scalar(min(first.values()), pa.timestamp("us", tz="UTC"))
    topics = pa.array(sorted({topic for topic, _ in first}))
    where = (ds.field("ts") >= begin) & ds.field("topic").isin(topics)
    keys = ["group_id", "log_partition", "topic", "partition"]
    late = [one for one in everything if one.times and one.times[1] >= begin.as_py()]
    for some in in_portions(late):
        rows = read_rows(some, [*keys, "ts"], where)
        for row in rows.group_by(keys).aggregate([("ts", "max")]).to_pylist():
            since = first.get((row["topic"], row["partition"]))
            if since is not None and row["ts_max"] >= since and row["group_id"] is not None:
                yield row["group_id"], row["log_partition"]
