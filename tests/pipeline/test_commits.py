"""Committed offsets by column, beside the same row by row."""

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `pipeline`")

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

from coordinator_pipeline.commits import (
    NUMBERED_READ,
    READ,
    commit_gaps,
    commit_rate,
    offset_commits,
)
from coordinator_pipeline.records_schema import RECORDS

LARGEST = 2**63 - 1
Row = dict[str, Any]


def rows_of(seed: int) -> list[Row]:
    """Two log partitions with commits, transactions, markers, damage and holes, in any order."""
    random = Random(seed)
    rows = []
    for number in (0, 3):
        offset = 0
        for _ in range(random.randrange(40)):
            offset += random.choice([1, 1, 1, 3])
            row = dict.fromkeys(RECORDS.names) | {"log_partition": number, "log_offset": offset}
            row |= random.choice([commit, commit, commit, transactional, marker, damage])(
                random, number
            )
            if row["problem"] is not None and random.random() < 0.5:
                offset -= 1
            rows.append(row)
    random.shuffle(rows)
    return rows


def commit(random: Random, number: int) -> Row:
    return {
        "kind": random.choice([0, 1, 1, 2]),
        "tombstone": random.random() < 0.1,
        "is_txn": False,
        "is_control": False,
        "group_id": f"g{number}{random.randrange(2)}",
        "topic": random.choice(["orders", "payments"]),
        "partition": random.randrange(2),
        "committed_offset": random.choice([random.randrange(99), LARGEST, -LARGEST]),
        "ts": datetime(2025, 1, 1, tzinfo=UTC),
    }


def transactional(random: Random, number: int) -> Row:
    producer = {"producer_id": random.randrange(2), "producer_epoch": random.randrange(2)}
    return commit(random, number) | {"is_txn": True} | producer


def marker(random: Random, number: int) -> Row:
    row = transactional(random, number) | {"is_control": True, "kind": None}
    return row | {"control_type": random.choice(["commit", "abort", None])}


def damage(random: Random, number: int) -> Row:
    return {"problem": "damaged"}


def one_by_one(rows: list[Row], incomplete: set[int]) -> Iterator[tuple[Any, ...]]:
    """Compute advances and gaps row by row, as the documentation of the table defines them."""
    ordered = sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"]))
    last: dict[tuple[Any, ...], Row] = {}
    for row in ordered:
        if row["problem"] or row["kind"] not in (0, 1) or row["tombstone"] or row["is_control"]:
            continue
        if row["is_txn"] and not _is_committed(row, ordered):
            continue
        key = row["group_id"], row["topic"], row["partition"]
        before, at = last.get(key), row["log_offset"]
        gap, advance = False, None
        if before is not None:
            gap = row["log_partition"] in incomplete and _is_gap(rows, before, row)
            advance = row["committed_offset"] - before["committed_offset"]
        if advance is None or gap:
            yield (*key, at, None, False, gap)
        else:
            fits = -LARGEST - 1 <= advance <= LARGEST
            yield (*key, at, advance if fits else None, advance < 0, gap)
        last[key] = row


def _is_committed(row: Row, ordered: list[Row]) -> bool:
    names = ("log_partition", "producer_id")
    for other in ordered:
        is_later = other["log_offset"] > row["log_offset"] and other["control_type"]
        if is_later and all(other[name] == row[name] for name in names):
            return bool(other["control_type"] == "commit")
    return False


def _is_gap(rows: list[Row], before: Row, row: Row) -> bool:
    """Whether an offset between the two is missing, or has a row that stands for damage."""
    mine = [one for one in rows if one["log_partition"] == row["log_partition"]]
    whole = {one["log_offset"] for one in mine if not one["problem"]}
    bad = {one["log_offset"] for one in mine if one["problem"]}
    span = range(before["log_offset"] + 1, row["log_offset"] + 1)
    return any(offset in bad or offset not in whole for offset in span)


def test_a_marker_of_the_next_epoch_ends_a_transaction_as_kafka_4_writes_it() -> None:
    row = dict.fromkeys(RECORDS.names) | {"log_partition": 0, "producer_id": 7, "is_txn": True}
    pending = {"kind": 1, "group_id": "g", "topic": "t", "partition": 0, "committed_offset": 5}
    ends = {"is_control": True, "control_type": "commit", "producer_epoch": 4, "log_offset": 1}
    rows = [row | pending | {"producer_epoch": 3, "log_offset": 0}, row | ends]
    table = pa.Table.from_pylist(rows, schema=RECORDS.remove_metadata())

    assert offset_commits(table.select(READ))["committed_offset"].to_pylist() == [5]


@pytest.mark.parametrize("seed", range(200))
def test_offset_commits_by_column_equal_those_row_by_row(seed: int) -> None:
    rows = rows_of(seed)
    incomplete = {number for number in (0, 3) if Random(seed + number).random() < 0.7}
    table = pa.Table.from_pylist(rows, schema=RECORDS.remove_metadata())
    numbered = pa.Table.from_pylist(
        [row for row in rows if row["log_partition"] in incomplete], schema=table.schema
    )

    found = offset_commits(
        table.select(READ), numbered.select(NUMBERED_READ) if incomplete else None
    )

    names = ["group_id", "topic", "partition", "log_offset", "advance", "rewind", "history_gap"]
    mine = [tuple(row[name] for name in names) for row in found.to_pylist()]
    assert sorted(mine, key=str) == sorted(one_by_one(rows, incomplete), key=str)


def test_a_gap_is_from_the_last_commit_before_a_record_to_the_first_behind_it() -> None:
    at = datetime(2025, 1, 1, tzinfo=UTC)
    seconds = {1: 5, 3: 2, 4: None, 6: 9, 8: 7}
    commits = pa.table(
        {
            "group_id": ["g"] * 5,
            "log_offset": list(seconds),
            "ts": [
                None if one is None else at + timedelta(seconds=one) for one in seconds.values()
            ],
        }
    )
    marks = pa.table({"group_id": ["g", "g", "g", "h"], "log_offset": [0, 5, 9, 5]})

    found = commit_gaps(commits, marks)

    assert found["commit_gap_ms"].to_pylist() == [None, 2_000, None, None]


def test_a_minute_whose_advances_are_no_number_of_64_bits_has_none() -> None:
    at = datetime(2025, 1, 1, tzinfo=UTC)
    row = {"group_id": "g", "topic": "t", "partition": 0, "log_partition": 0, "ts": at}
    commits = pa.Table.from_pylist(
        [
            row | {"advance": LARGEST, "rewind": False},
            row | {"advance": -5, "rewind": True},
            row | {"advance": 1, "rewind": False},
            row | {"advance": 2, "rewind": False, "ts": at + timedelta(minutes=1)},
        ]
    )

    first, second = commit_rate(commits).to_pylist()

    assert (first["commits"], first["rewinds"], first["records_advanced"]) == (3, 1, None)
    assert (second["commits"], second["partitions"], second["records_advanced"]) == (1, 1, 2)
