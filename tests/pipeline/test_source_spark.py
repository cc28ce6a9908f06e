"""The data source in a Spark session: what `format("coordinator_log")` gives, batch and stream."""

import pytest

pytest.importorskip("pyspark", reason="needs the extra `pipeline`")

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from coordinator_pipeline.records_schema import RECORDS
from coordinator_pipeline.source.parquet import write_parquet
from coordinator_protocol.batch import build_batch
from tests.support.coordinator_log import commits, segment

pytestmark = pytest.mark.slow


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two log partitions of 30 commits each, in two segments."""
    for number in (0, 3):
        directory = tmp_path / "log" / f"__consumer_offsets-{number}"
        directory.mkdir(parents=True)
        segment(directory).write_bytes(build_batch(commits(f"g{number}", 20)))
        last = build_batch(commits(f"g{number}", 10, 20), 20)
        segment(directory, 20).write_bytes(last + last[:50])
    return tmp_path / "log"


def places(frame: DataFrame) -> list[tuple[int, int]]:
    """Partition and offset of each row, in order; commits say at which offset they are."""
    rows = frame.select("log_partition", "log_offset", "committed_offset").collect()
    assert all(row.log_offset == row.committed_offset for row in rows)
    return sorted((row.log_partition, row.log_offset) for row in rows)


def test_a_batch_has_every_record_in_the_documented_schema(spark: SparkSession, log: Path) -> None:
    frame = spark.read.format("coordinator_log").load(str(log))
    assert to_arrow_schema(frame.schema, timezone="UTC").equals(RECORDS)
    assert places(frame) == [(number, at) for number in (0, 3) for at in range(30)]
    reader = spark.read.format("coordinator_log").option("columns", "group_id")
    assert reader.load(str(log)).distinct().count() == 2


def test_tasks_write_the_same_rows_to_parquet_themselves(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    target = tmp_path / "bronze"
    assert write_parquet(spark, {"path": str(log)}, target) == 60
    written = spark.read.parquet(str(target))
    assert [path.name for path in target.iterdir()] == ["date=2025-10-09"]
    assert to_arrow_schema(written.drop("date").schema, timezone="UTC").equals(RECORDS)
    assert places(written) == [(number, at) for number in (0, 3) for at in range(30)]
    with pytest.raises(FileExistsError):
        write_parquet(spark, {"path": str(log)}, target)


def test_the_error_names_a_directory_without_a_log(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.format("coordinator_log").load(str(tmp_path / "missing"))
    with pytest.raises(Exception, match="there is no such directory"):
        frame.count()


def test_a_stream_goes_on_where_its_checkpoint_stands(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    def run() -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        query = (
            spark.readStream.format("coordinator_log")
            .load(str(log))
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(lambda frame, _: found.extend(places(frame)))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(found)

    assert run() == [(number, at) for number in (0, 3) for at in range(30)]
    active = segment(log / "__consumer_offsets-3", 20)
    whole = active.read_bytes()[:-50]
    active.write_bytes(whole + build_batch(commits("g3", 5, 30), 30))
    segment(log / "__consumer_offsets-3").unlink()
    assert run() == [(3, at) for at in range(30, 35)]
    assert run() == []
