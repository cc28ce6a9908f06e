"""Makes `offset_commits`, `commit_rate` and commit gaps with numpy, a log partition in each task.

All commits of a group are in one log partition, in the order of the log, so a task needs no other
partition. Spark SQL would sort and shuffle all rows several times.
"""

import shutil
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from coordinator_pipeline.decode.byte_arrays import Flags, Ints
from coordinator_pipeline.record_files import RecordFile, is_current, read_rows
from coordinator_pipeline.records_schema import HISTORY_KIND
from coordinator_pipeline.source.parquet import by_day
from coordinator_pipeline.tables import COMMIT_RATE, OFFSET_COMMITS

_PLAIN: Final = [
    "group_id",
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "commit_ts",
    "ts",
    "log_partition",
    "log_offset",
]
READ: Final = [
    *_PLAIN,
    "kind",
    "tombstone",
    "producer_id",
    "is_txn",
    "is_control",
    "control_type",
    "problem",
]
_LARGEST: Final = 2**63 - 1
TABLES: Final = (OFFSET_COMMITS, COMMIT_RATE)
GAPS: Final = "group_id string, log_offset bigint, commit_gap_ms bigint"
GAPS_NAME: Final = "commit_gaps"
"""The directory in which tasks leave the gaps for the query of `rebalances`; no table."""
NUMBERED_READ: Final = ["log_partition", "log_offset", "problem"]


def offset_commits(rows: pa.Table, incomplete: pa.Table | None = None) -> pa.Table:
    """Make the table `offset_commits` from rows with the columns READ.

    Args:
        rows: All commits of some groups, and the markers of their log partitions.
        incomplete: All records, with NUMBERED_READ, of log partitions with missing offsets.
    """
    found = rows.filter(pa.array(_counting(rows))).select(_PLAIN)
    same_key, order = _by_key(found)
    found = found.take(pa.array(order))
    offsets = _ints(found["committed_offset"])
    before = np.roll(offsets, 1)
    gap = same_key & _gaps(found, incomplete)
    advance = offsets - before
    is_known = same_key & ~gap & ~_overflowed(offsets, before, advance)
    more = {
        "advance": pa.array(advance, mask=~is_known),
        "rewind": pa.array(same_key & ~gap & (offsets < before)),
        "history_gap": pa.array(gap),
    }
    for name, values in more.items():
        found = found.append_column(name, values)
    return found.select(OFFSET_COMMITS.names)


def commit_rate(commits: pa.Table) -> pa.Table:
    """Make the table `commit_rate` from the rows of `offset_commits`."""
    advances = pc.max_element_wise(commits["advance"], pa.scalar(0, pa.int64()))
    names = ["group_id", "topic", "partition", "log_partition", "rewind"]
    rows = commits.select(names).append_column(
        "minute", pc.floor_temporal(commits["ts"], 1, "minute")
    )
    rows = rows.append_column("advance", advances.cast(pa.decimal128(38)))
    found = rows.group_by(["minute", "group_id", "topic"], use_threads=False).aggregate(
        [
            ([], "count_all"),
            ("advance", "sum"),
            ("rewind", "sum"),
            ("partition", "count_distinct"),
            ("log_partition", "min"),
        ]
    )
    total = found["advance_sum"]
    advanced = pc.if_else(pc.greater(total, pa.scalar(_LARGEST, total.type)), None, total)
    return pa.table(
        {
            "minute": found["minute"],
            "group_id": found["group_id"],
            "topic": found["topic"],
            "commits": found["count_all"],
            "records_advanced": advanced.cast(pa.int64()),
            "rewinds": found["rewind_sum"].cast(pa.int64()),
            "partitions": found["partition_count_distinct"],
            "log_partition": found["log_partition_min"],
        }
    ).select(COMMIT_RATE.names)


def commit_gaps(commits: pa.Table, marks: pa.Table) -> pa.Table:
    """Compute how long a group committed nothing around each record; GAPS has the columns.

    Args:
        commits: Rows of `offset_commits`.
        marks: The records, with `group_id` and `log_offset`.

    Returns:
        Milliseconds from the last commit before a record to the first after it; null if one of the
        two is missing.
    """
    commits = commits.filter(commits["ts"].is_valid())
    chunks = [*commits["group_id"].chunks, *marks["group_id"].chunks]
    groups = _codes(pa.chunked_array(chunks, pa.string()))
    theirs, mine = groups[: commits.num_rows], groups[commits.num_rows :]
    offsets, at = _ints(commits["log_offset"]), _ints(marks["log_offset"])
    order = np.lexsort([offsets, theirs])
    theirs, offsets = theirs[order], offsets[order]
    millis = (_ints(commits["ts"]) // 1000)[order]
    gap = np.zeros(marks.num_rows, np.int64)
    is_known = np.zeros(marks.num_rows, bool)
    for group in np.unique(mine).tolist():
        begin, end = np.searchsorted(theirs, [group, group + 1]).tolist()
        if begin == end:
            continue
        places = np.flatnonzero(mine == group)
        behind = np.searchsorted(offsets[begin:end], at[places])
        latest = np.maximum.accumulate(millis[begin:end])
        earliest = np.minimum.accumulate(millis[begin:end][::-1])[::-1]
        places, behind = (one[(behind > 0) & (behind < end - begin)] for one in (places, behind))
        gap[places] = earliest[behind] - latest[behind - 1]
        is_known[places] = True
    found = marks.select(["group_id", "log_offset"])
    return found.append_column("commit_gap_ms", pa.array(gap, mask=~is_known))


def _counting(rows: pa.Table) -> Flags:
    """Mark plain commits, and those in transactions that were committed."""
    is_commit = _flags(pc.is_in(rows["kind"], pa.array([0, 1], pa.int16())))
    is_commit &= ~_flags(rows["tombstone"]) & _flags(pc.is_null(rows["problem"]))
    is_txn, is_control = _flags(rows["is_txn"]), _flags(rows["is_control"])
    counts = is_commit & ~is_txn
    if is_txn.any():
        counts[_committed(rows, np.flatnonzero(is_txn | is_control))] = True
        counts &= is_commit & ~is_control
    return counts


def _committed(rows: pa.Table, at: Ints) -> Ints:
    """Select the rows whose producer's next marker commits the transaction."""
    picked = rows.take(pa.array(at))
    # The epoch is no key: since KIP-890 Kafka's marker has the epoch after the transaction's.
    names = ("log_partition", "producer_id", "log_offset")
    keys = [_ints(picked[name]) for name in names]
    order = np.lexsort(keys[::-1])
    ends = np.flatnonzero(_flags(pc.is_valid(picked["control_type"]))[order])
    following = np.searchsorted(ends, np.arange(len(order)), side="right")
    has_end = following < len(ends)
    end = order[ends[following[has_end]]]
    mine = order[has_end]
    is_same = np.logical_and.reduce([key[mine] == key[end] for key in keys[:2]])
    commits = _flags(pc.equal(picked["control_type"], "commit"))
    committed: Ints = at[mine[is_same & commits[end]]]
    return committed


def _by_key(rows: pa.Table) -> tuple[Flags, Ints]:
    """Sort by group, topic, partition and offset; the flags mark rows with the key before them."""
    keys = [_ints(rows["log_partition"]), _codes(rows["group_id"]), _codes(rows["topic"])]
    keys.append(_ints(rows["partition"]))
    order = np.lexsort([_ints(rows["log_offset"]), *keys[::-1]])
    same = np.zeros(len(order), bool)
    same[1:] = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in keys])
    return same, order


def _gaps(rows: pa.Table, incomplete: pa.Table | None) -> Flags:
    """Mark the rows with missing records between them and the row before."""
    hole = np.zeros(rows.num_rows, np.int64)
    if incomplete is not None:
        partitions, offsets = _ints(rows["log_partition"]), _ints(rows["log_offset"])
        for number, (numbered, holes) in _holes(incomplete).items():
            mine = partitions == number
            hole[mine] = holes[np.searchsorted(numbered, offsets[mine], side="right") - 1]
    changed: Flags = hole != np.roll(hole, 1)
    return changed


def _holes(rows: pa.Table) -> dict[int, tuple[Ints, Ints]]:
    """Return, by log partition, offsets and the number of holes up to each of them.

    A row that reports damage may have the offset of the record after it: the hole is before both.
    """
    found = {}
    partitions, offsets = _ints(rows["log_partition"]), _ints(rows["log_offset"])
    is_damage = _flags(pc.is_valid(rows["problem"]))
    for number in np.unique(partitions).tolist():
        mine = np.flatnonzero(partitions == number)
        order = mine[np.lexsort([~is_damage[mine], offsets[mine]])]
        is_hole = is_damage[order]
        is_hole[1:] |= np.diff(offsets[order]) > 1
        found[number] = offsets[order], np.cumsum(is_hole, dtype=np.int64)
    return found


def _overflowed(one: Ints, other: Ints, difference: Ints) -> Flags:
    return ((one ^ other) & (one ^ difference)) < 0


def _ints(values: pa.ChunkedArray) -> Ints:
    found: Ints = values.cast(pa.int64()).fill_null(-1).to_numpy()
    return found


def _flags(values: pa.ChunkedArray) -> Flags:
    found: Flags = values.fill_null(fill_value=False).to_numpy().astype(bool)
    return found


def _codes(texts: pa.ChunkedArray) -> Ints:
    """Return a number for each text; equal texts have equal numbers."""
    return _ints(texts.combine_chunks().dictionary_encode().indices)


class _Task(NamedTuple):
    """The files of a log partition, and the filter of the rows to read."""

    number: int
    files: list[RecordFile]
    selected: ds.Expression
    has_holes: bool


def write_commits(
    spark: SparkSession,
    files: Sequence[RecordFile],
    holes: Collection[int],
    groups: Collection[str] | None,
    directory: Path,
    batch: int,
) -> None:
    """Write both tables of some groups, or of all, in Spark's tasks; replaces the batch.

    Args:
        spark: The session.
        files: All files of the log partitions of the groups.
        holes: The log partitions with missing offsets.
        groups: The groups; None for all.
        directory: The directory of all tables, which all executors share.
        batch: The number of the batch.
    """
    names = [*(table.name for table in TABLES), GAPS_NAME]
    targets = {name: directory / name / f"batch={batch}" for name in names}
    for target in targets.values():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
    of_partition: defaultdict[int, list[RecordFile]] = defaultdict(list)
    for one in files:
        of_partition[one.log_partition].append(one)
    selected = ds.scalar(value=True)
    if groups is not None:
        named = ds.field("group_id").isin(pa.array(sorted(groups), pa.string()))
        selected = named | ds.field("is_control")
    tasks = [
        _Task(number, mine, selected, number in holes) for number, mine in of_partition.items()
    ]
    if tasks:
        spark.sparkContext.parallelize(tasks, len(tasks)).foreach(
            lambda task: _write(task, targets)
        )


def _write(task: _Task, targets: Mapping[str, Path]) -> None:
    current = is_current(task.files)
    rows = read_rows(task.files, READ, current & task.selected)
    incomplete = read_rows(task.files, NUMBERED_READ, current) if task.has_holes else None
    commits = offset_commits(rows, incomplete)
    for table, found in zip(TABLES, (commits, commit_rate(commits)), strict=True):
        for day, of_day in by_day(found, table.day):
            place = targets[table.name] / f"date={day}"
            place.mkdir(exist_ok=True)
            pq.write_table(of_day, place / f"part-{task.number:05d}.parquet")
    marks = rows.filter(ds.field("kind").isin([2, HISTORY_KIND]))
    gaps = commit_gaps(commits, marks)
    pq.write_table(gaps, targets[GAPS_NAME] / f"part-{task.number:05d}.parquet")
