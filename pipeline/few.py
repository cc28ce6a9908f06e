"""Few records, read by this process: what a batch of the stream changes."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pipeline import commits, gold_groups
from pipeline.bronze import File, is_small, of_partitions, of_times, valid, with_holes
from pipeline.records_schema import HISTORY_KIND, select
from pipeline.touched import WINDOW_SECONDS, Touched, window_of

_READ: Final = sorted({*commits.READ, *gold_groups.READ, *gold_groups.HOT_READ, "incarnation"})
_KEPT_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Few:
    """What all tables of some groups and times are made of."""

    commits: pa.Table
    """Committed offsets and markers, with the columns commits.py reads."""
    groups: pa.Table
    """Records of groups and of their history, with those gold_groups.py reads."""
    hot: pa.Table
    """All records of the times of `hot_partitions`."""
    holey: pa.Table | None
    """All records of the log partitions in which offsets are missing; None if none is."""


class Reader:
    """Reads files of `records`, and keeps in memory what it has read last: they never change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[File, pa.Table] = OrderedDict()

    def take(self, files: Sequence[File], touched: Touched) -> Few | None:
        """What is touched, of all files; None if it is not few."""
        mine = of_partitions(files, touched.partitions)
        begin, end = _span(touched.windows)
        at_times = of_times(files, begin, end)
        if not is_small({*mine, *at_times}):
            return None
        wanted = ds.field("group_id").isin(pa.array(sorted(touched.groups), pa.string()))
        is_commit = wanted & ds.field("kind").isin([0, 1])
        is_group = wanted & ds.field("kind").isin([2, HISTORY_KIND])
        rows = self._read(mine).filter(valid(files))
        hot = self._read(at_times).filter(
            valid(files) & (ds.field("ts") >= begin) & (ds.field("ts") < end)
        )
        windows = pa.array(sorted(touched.windows), pa.int64())
        holes = with_holes(mine)
        return Few(
            rows.filter(is_commit | ds.field("is_control")).select(commits.READ),
            rows.filter(is_group & ds.field("problem").is_null()).select(gold_groups.READ),
            hot.filter(pc.is_in(window_of(hot["ts"]), windows)).select(gold_groups.HOT_READ),
            _of(rows, holes).select(commits.NUMBERED_READ) if holes else None,
        )

    def _read(self, files: Collection[File]) -> pa.Table:
        found = [self._rows(one) for one in files]
        while len(self._kept) > len(found) and self._bytes() > _KEPT_BYTES:
            self._kept.popitem(last=False)
        return pa.concat_tables([select(_READ).remove_metadata().empty_table(), *found])

    def _rows(self, file: File) -> pa.Table:
        rows = self._kept.pop(file, None)
        if rows is None:
            rows = pq.ParquetFile(file.path).read(_READ).select(_READ).replace_schema_metadata()
        self._kept[file] = rows
        return rows

    def _bytes(self) -> int:
        return sum(rows.nbytes for rows in self._kept.values())


def _of(rows: pa.Table, partitions: Collection[int]) -> pa.Table:
    return rows.filter(ds.field("log_partition").isin(pa.array(sorted(partitions), pa.int32())))


def _span(windows: Collection[int]) -> tuple[datetime, datetime]:
    """From the begin of the first window to the end of the last."""
    begins = [datetime.fromtimestamp(at, UTC) for at in windows] or [datetime.fromtimestamp(0, UTC)]
    return min(begins), max(begins) + timedelta(seconds=WINDOW_SECONDS)
