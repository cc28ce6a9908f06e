"""Small logs for the pipeline's tables, and what is in a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from coordinator_pipeline.run import LogSource, RunSummary, prepare, run_batch
from coordinator_pipeline.store import Store
from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    encode_key,
    encode_value,
)
from coordinator_protocol.subscription import Assignment, encode_assignment

BEGIN_MS = 1_760_000_000_000


def commit(group: str, offset: int, at: int, partition: int = 0, producer: int = -1) -> LogRecord:
    """A commit, `at` milliseconds after the beginning; in a transaction if there is a producer."""
    key = encode_key(OffsetCommitKey(group, "orders", partition))
    value = encode_value(OffsetCommitValue(offset, -1, "", BEGIN_MS + at))
    record = LogRecord(key, value, BEGIN_MS + at)
    if producer < 0:
        return record
    return replace(record, producer_id=producer, producer_epoch=0, transactional=True)


def generation(
    group: str,
    number: int,
    members: Sequence[str],
    at: int,
    headers: Mapping[str, str] | None = None,
) -> LogRecord:
    """A generation; members named `static/SOMETHING` are static with that instance id."""
    listed = [
        MemberMetadata(
            name,
            name.split("/")[1].split("#")[0] if name.startswith("static/") else None,
            name.split("-")[0],
            "/10.0.0.1",
            300_000,
            45_000,
            b"",
            encode_assignment(Assignment({"orders": range(place, 4, len(members))})),
        )
        for place, name in enumerate(members)
    ]
    leader = members[0] if members else None
    value = GroupMetadataValue("consumer", number, "range", leader, BEGIN_MS + at, listed)
    given = tuple((name, text.encode()) for name, text in (headers or {}).items())
    key = encode_key(GroupMetadataKey(group))
    return LogRecord(key, encode_value(value), BEGIN_MS + at, given)


def deleted(group: str, at: int) -> LogRecord:
    """A group's tombstone."""
    return LogRecord(encode_key(GroupMetadataKey(group)), None, BEGIN_MS + at)


def write_log(data: Path, number: int, records: Iterable[tuple[int, LogRecord]]) -> Path:
    """A log partition of one segment, each record at its offset in a batch of its own."""
    directory = data / f"__consumer_offsets-{number}"
    directory.mkdir(parents=True)
    batches = [build_batch([record], offset) for offset, record in records]
    path = directory / f"{0:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def _ignore(name: str) -> None:
    """Print nothing."""


def ran(spark: SparkSession, data: Path, out: Path) -> RunSummary:
    """A batch run."""
    source = LogSource(log=data)
    prepare(source, out)
    return run_batch(spark, source, out, _ignore)


def rows(spark: SparkSession, out: Path, name: str, *order: str) -> list[dict[str, Any]]:
    """A table's rows, in an order."""
    found: DataFrame = Store(spark, out).table(name)
    return [row.asDict() for row in found.orderBy(*order).collect()]


def content(spark: SparkSession, out: Path, name: str) -> list[str]:
    """A table's rows to be compared with another's, in no order of meaning."""
    return sorted(repr(row) for row in Store(spark, out).table(name).drop("batch").collect())
