"""A stream over the log ends with the tables that one batch run makes of the same records."""

import pytest

pytest.importorskip("pyspark", reason="needs the extra `pipeline`")

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from coordinator_pipeline import record_files
from coordinator_pipeline.follow import (
    CHECKPOINT,
    FollowStopped,
    MicroBatchHandler,
    start_following,
)
from coordinator_pipeline.run import LogSource, prepare
from coordinator_pipeline.store import BY_NAME, RECORDS, TOUCHED, Store, write_rows
from coordinator_protocol.batch import LogRecord, build_batch, stamped
from coordinator_protocol.batch_records import read_records
from coordinator_server.storage.segments.compact import compact
from coordinator_server.storage.segments.log import SegmentLog
from tests.support.compacted_logs import NoPace
from tests.support.coordinator_log import marker
from tests.support.pipeline_log import commit, content, generation, ran, write_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MEMBERS = ("a-1", "b-1", "static/n1#1", "static/n1#2")
DEATHS = (
    "before the tables",
    "offset_commits",
    "rebalances",
    "hot_partitions",
    TOUCHED,
    "behind it",
)


def ignore(text: str) -> None:
    """Print nothing."""


class Killed(Exception):
    """Stands for the death of the process."""


class StreamHistory:
    """A random history of appends, rolls and compactions, and of a stream that is killed."""

    def __init__(self, seed: int, home: Path) -> None:
        self.random = Random(seed)
        self.data, self.out = home / "data", home / "out"
        self.logs = {n: self._log(f"__consumer_offsets-{n}") for n in (0, 3)}
        self.topic = self._log("orders-0")
        self.at = 0
        self.generations: dict[str, int] = {}
        self.seen: dict[int, dict[int, LogRecord]] = {n: {} for n in self.logs}
        """The records that finished batches have read, by log partition and offset."""

    def _log(self, name: str) -> SegmentLog:
        (self.data / name).mkdir(parents=True)
        return SegmentLog(self.data / name, segment_bytes=700)

    def append(self) -> None:
        """Append a few batches."""
        for _ in range(self.random.randrange(1, 6)):
            number = self.random.choice(sorted(self.logs))
            self.at += self.random.choice([10, 900, 70_000, 400_000])
            self.logs[number].append(
                build_batch(self._records(f"g{number}{self.random.randrange(2)}"))
            )
        self.topic.append(build_batch([commit("end", 0, self.at)] * self.random.randrange(1, 9)))
        for log in (self.topic, *self.logs.values()):
            log.sync()

    def _records(self, group: str) -> list[LogRecord]:
        chance = self.random.random()
        producer = self.random.choice([7, 8])
        if chance < 0.1:
            return [marker(producer, commit=self.random.random() < 0.5)]
        if chance < 0.4:
            step = self.random.choice([1, 1, 1, 2])
            self.generations[group] = self.generations.get(group, 0) + step
            members = self.random.sample(MEMBERS, self.random.randrange(4))
            headers = {"rb.reason": "member_left"} if self.random.random() < 0.3 else None
            return [generation(group, self.generations[group], members, self.at, headers)]
        who = producer if chance < 0.6 else -1
        return [
            commit(group, self.random.randrange(99), self.at, n % 3, who)
            for n in range(self.random.randrange(1, 5))
        ]

    def compact(self) -> None:
        """Compact the logs as the server does in the background."""
        for log in self.logs.values():
            compact(log, throttle=NoPace(), wall_ms=lambda: 0, delete_retention_ms=1)

    def read(self, spark: SparkSession) -> None:
        """Let the stream read to the end of the log."""
        source = LogSource(log=self.data)
        prepare(source, self.out, follow=True)
        start_following(spark, source, self.out, ignore, once=True).awaitTermination()
        for number, log in self.logs.items():
            for header, chunk, at in log.batches():
                self.seen[number] |= {one.offset: one for one in read_records(header, chunk, at)}

    def die(self, spark: SparkSession) -> None:
        """Kill the stream in a batch, if there are new records."""
        with killed_at(self.random.choice(DEATHS)):
            source = LogSource(log=self.data)
            prepare(source, self.out, follow=True)
            query = start_following(spark, source, self.out, ignore, once=True)
            failed = ""
            try:
                query.awaitTermination()
            except StreamingQueryException as error:
                failed = str(error)
        assert not failed or Killed.__name__ in failed

    def twin(self, home: Path) -> Path:
        """Write a log of the records that the stream has read."""
        for number, records in self.seen.items():
            write_log(home, number, sorted(records.items()))
        batches = [
            (header, chunk[at : at + header.size]) for header, chunk, at in self.topic.batches()
        ]
        (home / "orders-0").mkdir()
        whole = b"".join(stamped(raw, header.base_offset) for header, raw in batches)
        (home / "orders-0" / f"{0:020d}.log").write_bytes(whole)
        return home


@contextmanager
def killed_at(place: str) -> Iterator[None]:
    """End a batch before it writes the named table, or when it has written `touched`."""
    write = write_rows

    def dying_on_table(name: str) -> None:
        if place in (name, "before the tables"):
            raise Killed

    def dying_write(directory: Path, rows: object, batch: int) -> None:
        if place == TOUCHED:
            raise Killed
        write(directory, rows, batch)
        if place == "behind it":
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("coordinator_pipeline.follow._ignore", dying_on_table)
        patch.setattr("coordinator_pipeline.follow.write_rows", dying_write)
        yield


def differences(spark: SparkSession, one: Path, other: Path) -> dict[str, tuple[str, ...]]:
    """Rows of each table that are in only one of two output directories."""
    found = {}
    for name in (RECORDS, *BY_NAME):
        mine, theirs = content(spark, one, name), content(spark, other, name)
        if mine != theirs:
            only = tuple(f"stream {row}" for row in mine if row not in theirs)
            found[name] = only + tuple(f"batch {row}" for row in theirs if row not in mine)
    return found


def test_a_truncated_and_rewritten_log_gives_the_tables_of_the_new_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    first = [(0, generation("g", 1, ["a-1"], 0)), *((n, commit("g", n, n)) for n in range(1, 6))]
    path = write_log(data, 0, first)
    source = LogSource(log=data)
    for turn in range(2):
        prepare(source, out, follow=True)
        start_following(spark, source, out, ignore, once=True).awaitTermination()
        if not turn:
            kept = first[:3]
            rewritten = [(n, commit("h", n, 1_000_000 + n)) for n in range(3, 9)]
            path.unlink()
            path.parent.rmdir()
            write_log(data, 0, [*kept, *rewritten])
    ran(spark, data, tmp_path / "once")

    found = differences(spark, out, tmp_path / "once")

    assert set(found) <= {RECORDS}
    assert all("incarnation=1" in row for row in found[RECORDS] if row.startswith("stream"))


def test_the_line_of_a_batch_reports_its_problems(spark: SparkSession, tmp_path: Path) -> None:
    path = write_log(tmp_path / "data", 0, [(n, commit("g", n, n)) for n in range(3)])
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3 + 70] ^= 1
    path.write_bytes(raw)
    source, said = LogSource(log=tmp_path / "data"), list[str]()
    prepare(source, tmp_path / "out", follow=True)

    start_following(spark, source, tmp_path / "out", said.append, once=True).awaitTermination()

    assert said[0].startswith("batch 0: 2 records, ")
    expected = "batch 0: 1 batches or records could not be read, the first: partition 0, offset 1: "
    assert said[1].startswith(f"{expected}{path}, position {len(raw) // 3}: ")


def test_a_missing_checkpoint_is_reported_and_nothing_is_overwritten(
    spark: SparkSession, tmp_path: Path
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_log(data, 0, [(0, commit("g", 1, 1))])
    source = LogSource(log=data)
    prepare(source, out, follow=True)
    (out / TOUCHED / "batch=3").mkdir(parents=True)
    (out / CHECKPOINT).mkdir()

    query = start_following(spark, source, out, ignore, once=True)
    with pytest.raises(StreamingQueryException, match="is missing or of another run"):
        query.awaitTermination()

    assert not (out / RECORDS).exists()


def test_a_stream_that_dies_and_returns_ends_with_the_tables_of_a_batch(
    spark: SparkSession, tmp_path: Path, interleaving: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if interleaving % 3 == 2:
        monkeypatch.setattr(record_files, "SMALL_BYTES", -1)
    history = StreamHistory(interleaving, tmp_path)
    history.append()
    for _ in range(4):
        step = history.random.choice(["append", "append", "compact", "die", "read"])
        if step == "append":
            history.append()
        elif step == "compact":
            history.compact()
        elif step == "die":
            history.die(spark)
        else:
            history.read(spark)
    history.append()
    history.die(spark)
    history.read(spark)

    ran(spark, history.twin(tmp_path / "twin"), tmp_path / "once")

    assert differences(spark, history.out, tmp_path / "once") == {}


def test_a_follower_that_is_ending_begins_no_other_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    follower = MicroBatchHandler(Store(spark, tmp_path), LogSource(log=tmp_path), ignore)
    follower.end()

    with pytest.raises(FollowStopped):
        follower.batch(spark.createDataFrame([], "n int"), 0)

    assert list(tmp_path.iterdir()) == []
