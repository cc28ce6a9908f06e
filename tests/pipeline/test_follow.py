"""A stream over the log ends with the tables that one batch run makes of the same records."""

import pytest

pytest.importorskip("pyspark", reason="needs the extra `pipeline`")

from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pipeline.follow import CHECKPOINT, start_following
from pipeline.run import Source, prepare
from pipeline.store import BY_NAME, RECORDS, TOUCHED
from tests.support.pipeline_log import commit, content, generation, ran, write_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def unsaid(text: str) -> None:
    """Nobody looks."""


def differences(spark: SparkSession, one: Path, other: Path) -> dict[str, tuple[str, ...]]:
    """Rows of each table that are in only one of two output directories."""
    found = {}
    for name in (RECORDS, *BY_NAME):
        mine, theirs = content(spark, one, name), content(spark, other, name)
        if mine != theirs:
            only = tuple(f"stream {row}" for row in mine if row not in theirs)
            found[name] = only + tuple(f"batch {row}" for row in theirs if row not in mine)
    return found


def test_a_log_that_was_cut_and_written_anew_gives_the_tables_of_the_new_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    first = [(0, generation("g", 1, ["a-1"], 0)), *((n, commit("g", n, n)) for n in range(1, 6))]
    path = write_log(data, 0, first)
    source = Source(log=data)
    for turn in range(2):
        prepare(source, out, follow=True)
        start_following(spark, source, out, unsaid, once=True).awaitTermination()
        if not turn:
            kept = first[:3]
            anew = [(n, commit("h", n, 1_000_000 + n)) for n in range(3, 9)]
            path.unlink()
            path.parent.rmdir()
            write_log(data, 0, [*kept, *anew])
    ran(spark, data, tmp_path / "once")

    found = differences(spark, out, tmp_path / "once")

    assert set(found) <= {RECORDS}
    assert all("incarnation=1" in row for row in found[RECORDS] if row.startswith("stream"))


def test_a_checkpoint_that_is_gone_is_told_and_nothing_is_overwritten(
    spark: SparkSession, tmp_path: Path
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_log(data, 0, [(0, commit("g", 1, 1))])
    source = Source(log=data)
    prepare(source, out, follow=True)
    (out / TOUCHED / "batch=3").mkdir(parents=True)
    (out / CHECKPOINT).mkdir()

    query = start_following(spark, source, out, unsaid, once=True)
    with pytest.raises(StreamingQueryException, match="is gone or of another run"):
        query.awaitTermination()

    assert not (out / RECORDS).exists()
