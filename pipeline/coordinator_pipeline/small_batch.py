"""Reads the records that a small batch of the stream changes, in this process."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from coordinator_pipeline import commits, gold_groups
from coordinator_pipeline.changed_keys import ChangedKeys, window_bounds, window_of
from coordinator_pipeline.record_files import (
    RecordFile,
    files_of_partitions,
    files_of_times,
    is_current,
    is_small,
    partitions_with_holes,
)
from coordinator_pipeline.records_schema import HISTORY_KIND, select

_READ: Final = sorted({*commits.READ, *gold_groups.READ, *gold_groups.HOT_READ, "incarnation"})
_NONE: Final = select(_READ).remove_metadata().empty_table()
_FILTER_COLUMNS: Final = (
    "log_partition",
    "log_offset",
    "incarnation",
    "group_id",
    "kind",
    "ts",
    "is_control",
    "problem",
)
"""The columns of the filters."""
_CACHE_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SmallBatch:
    """The records from which the tables of the changed groups and windows are made."""

    commits: pa.Table
    """Committed offsets and markers, with the columns that commits.py reads."""
    groups: pa.Table
    """Records of groups and of their history, with the columns that gold_groups.py reads."""
    hot: pa.Table
    """All records of the changed windows of `hot_partitions`."""
    incomplete: pa.Table | None
    """All records of log partitions with missing offsets; None if there are none."""


class SmallBatchReader:
    """Reads files of `records` and caches the last ones in memory: files never change."""

    def __init__(self) -> None:
        self._cache: OrderedDict[RecordFile, pa.Table] = OrderedDict()
        self._bytes = 0

    def read(self, files: Sequence[RecordFile], changed: ChangedKeys) -> SmallBatch | None:
        """Read the records of changed keys from all files; None if the files are too large."""
        mine = files_of_partitions(files, changed.partitions)
        begin, end = window_bounds(changed.windows)
        at_times = files_of_times(files, begin, end)
        if not is_small({*mine, *at_times}):
            return None
        is_changed = ds.field("group_id").isin(pa.array(sorted(changed.groups), pa.string()))
        is_commit = is_changed & ds.field("kind").isin([0, 1])
        is_group = is_changed & ds.field("kind").isin([2, HISTORY_KIND])
        current = is_current(files)
        rows = self._read(mine)
        hot = _filter_rows(
            self._read(at_times),
            gold_groups.HOT_READ,
            current & (ds.field("ts") >= begin) & (ds.field("ts") < end),
        )
        windows = pa.array(sorted(changed.windows), pa.int64())
        holes = partitions_with_holes(mine)
        is_incomplete = ds.field("log_partition").isin(pa.array(holes, pa.int32()))
        return SmallBatch(
            _filter_rows(rows, commits.READ, current & (is_commit | ds.field("is_control"))),
            _filter_rows(
                rows, gold_groups.READ, current & is_group & ds.field("problem").is_null()
            ),
            hot.filter(pc.is_in(window_of(hot["ts"]), windows)),
            _filter_rows(rows, commits.NUMBERED_READ, current & is_incomplete) if holes else None,
        )

    def _read(self, files: Collection[RecordFile]) -> pa.Table:
        found = [self._rows(one) for one in files]
        while len(self._cache) > len(found) and self._bytes > _CACHE_BYTES:
            _, oldest = self._cache.popitem(last=False)
            self._bytes -= oldest.nbytes
        # A filter has a fixed cost for each chunk, so there is one.
        return pa.concat_tables([_NONE, *found]).combine_chunks()

    def _rows(self, file: RecordFile) -> pa.Table:
        rows = self._cache.pop(file, None)
        if rows is None:
            rows = pq.ParquetFile(file.path).read(_READ).select(_READ).replace_schema_metadata()
            self._bytes += rows.nbytes
        self._cache[file] = rows
        return rows


def _filter_rows(rows: pa.Table, columns: Sequence[str], where: ds.Expression) -> pa.Table:
    """Filter rows; drops unused columns first to copy less."""
    return rows.select(sorted({*columns, *_FILTER_COLUMNS})).filter(where).select(columns)
