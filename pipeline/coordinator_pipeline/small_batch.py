"""SmallBatch records, read by this process: what a batch of the stream changes."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from coordinator_pipeline import commits, gold_groups
from coordinator_pipeline.changed_keys import WINDOW_SECONDS, ChangedKeys, window_of
from coordinator_pipeline.record_files import (
    RecordFile,
    files_of_partitions,
    files_of_times,
    is_small,
    partitions_with_gaps,
    valid,
)
from coordinator_pipeline.records_schema import HISTORY_KIND, select

_READ: Final = sorted({*commits.READ, *gold_groups.READ, *gold_groups.HOT_READ, "incarnation"})
_NONE: Final = select(_READ).remove_metadata().empty_table()
_ASKED: Final = (
    "log_partition",
    "log_offset",
    "incarnation",
    "group_id",
    "kind",
    "ts",
    "is_control",
    "problem",
)
"""What rows are chosen by."""
_KEPT_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SmallBatch:
    """What all tables of some groups and times are made of."""

    commits: pa.Table
    """Committed offsets and markers, with the columns commits.py reads."""
    groups: pa.Table
    """Records of groups and of their history, with those gold_groups.py reads."""
    hot: pa.Table
    """All records of the times of `hot_partitions`."""
    holey: pa.Table | None
    """All records of the log partitions in which offsets are missing; None if none is."""


class SmallBatchReader:
    """Reads files of `records`, and keeps in memory what it has read last: they never change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[RecordFile, pa.Table] = OrderedDict()
        self._bytes = 0

    def take(self, files: Sequence[RecordFile], touched: ChangedKeys) -> SmallBatch | None:
        """What is touched, of all files; None if it is not few."""
        mine = files_of_partitions(files, touched.partitions)
        begin, end = _span(touched.windows)
        at_times = files_of_times(files, begin, end)
        if not is_small({*mine, *at_times}):
            return None
        wanted = ds.field("group_id").isin(pa.array(sorted(touched.groups), pa.string()))
        is_commit = wanted & ds.field("kind").isin([0, 1])
        is_group = wanted & ds.field("kind").isin([2, HISTORY_KIND])
        still = valid(files)
        rows = self._read(mine)
        hot = _some(
            self._read(at_times),
            gold_groups.HOT_READ,
            still & (ds.field("ts") >= begin) & (ds.field("ts") < end),
        )
        windows = pa.array(sorted(touched.windows), pa.int64())
        holes = partitions_with_gaps(mine)
        is_holey = ds.field("log_partition").isin(pa.array(holes, pa.int32()))
        return SmallBatch(
            _some(rows, commits.READ, still & (is_commit | ds.field("is_control"))),
            _some(rows, gold_groups.READ, still & is_group & ds.field("problem").is_null()),
            hot.filter(pc.is_in(window_of(hot["ts"]), windows)),
            _some(rows, commits.NUMBERED_READ, still & is_holey) if holes else None,
        )

    def _read(self, files: Collection[RecordFile]) -> pa.Table:
        found = [self._rows(one) for one in files]
        while len(self._kept) > len(found) and self._bytes > _KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.nbytes
        # As one chunk: a filter takes its time for each.
        return pa.concat_tables([_NONE, *found]).combine_chunks()

    def _rows(self, file: RecordFile) -> pa.Table:
        rows = self._kept.pop(file, None)
        if rows is None:
            rows = pq.ParquetFile(file.path).read(_READ).select(_READ).replace_schema_metadata()
            self._bytes += rows.nbytes
        self._kept[file] = rows
        return rows


def _some(rows: pa.Table, columns: Sequence[str], where: ds.Expression) -> pa.Table:
    """Some columns of some rows; little else of them is copied."""
    return rows.select(sorted({*columns, *_ASKED})).filter(where).select(columns)


def _span(windows: Collection[int]) -> tuple[datetime, datetime]:
    """From the begin of the first window to the end of the last."""
    begins = [datetime.fromtimestamp(at, UTC) for at in windows] or [datetime.fromtimestamp(0, UTC)]
    return min(begins), max(begins) + timedelta(seconds=WINDOW_SECONDS)
