"""How fast the log becomes rows and Parquet, beside Kafka's own tools on the same files.

`python -m benchmarks.pipeline [--log DIR] [--commits N]`; without --log one is generated first.
Decoding is measured in records per second of CPU, the rest in records per second.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from benchmarks.pipeline_log import LOG_PARTITIONS, Size, write
from benchmarks.servers import CannotRun, kafka, two_cores
from coordinator_pipeline.errors import without_extra
from tools.kafka_jars import NoJars, kafka_jars

try:
    from coordinator_pipeline.source.directory import DirectoryLog
    from coordinator_pipeline.source.options import parse_options
    from coordinator_pipeline.source.segments import DEFAULT_TOPIC as TOPIC
    from coordinator_pipeline.source.segments import HIGH_WATERMARKS
except ModuleNotFoundError as missing:
    raise SystemExit(without_extra(missing)) from None

DUMPED_PARTITIONS = 8
"""kafka-dump-log is slow: a part of the log tells its rate."""
CONSUMER_SECONDS = 120
CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"


@dataclass(frozen=True)
class Rate:
    """What was measured."""

    what: str
    records: int
    seconds: float
    of: str
    """Seconds of what."""

    def __str__(self) -> str:
        """A row of a Markdown table."""
        rate = self.records / self.seconds
        return f"| {self.what} | {self.records:,} | {self.seconds:.2f} {self.of} | {rate:,.0f} |"


def decode(log: Path) -> Rate:
    """Files to Arrow, all columns, in this process."""
    source = DirectoryLog(parse_options({"path": str(log)}))
    records, before = 0, time.process_time()
    for number in source.partitions():
        start, end = source.bounds(number)
        records += sum(rows.num_rows for rows in source.read(number, start, end))
    return Rate("decoded to Arrow, one core", records, time.process_time() - before, "s CPU")


def parquet(log: Path) -> Iterator[Rate]:
    """Files to Parquet and to tables with Spark; the first pass also starts its workers."""
    from coordinator_pipeline.run import LogSource, prepare, run_batch
    from coordinator_pipeline.session import open_session
    from coordinator_pipeline.source.parquet import write_parquet

    spark = open_session("local[2]")
    with tempfile.TemporaryDirectory() as scratch:
        for turn in ("first", "second"):
            target = Path(scratch) / f"tasks-{turn}"
            before, cpu = time.monotonic(), _cpu_seconds()
            records = write_parquet(spark, {"path": str(log)}, target)
            took, cpu = time.monotonic() - before, _cpu_seconds() - cpu
            yield Rate(f"files to Parquet in tasks, local[2], {turn} pass", records, took, "s")
            yield Rate(f"the same, CPU of all processes, {turn} pass", records, cpu, "s CPU")
        before, cpu = time.monotonic(), _cpu_seconds()
        frame = spark.read.format("coordinator_log").load(str(log))
        frame.write.parquet(str(Path(scratch) / "written"))
        took, cpu = time.monotonic() - before, _cpu_seconds() - cpu
        yield Rate("files to Parquet by Spark's own writer", records, took, "s")
        yield Rate("the same, CPU of all processes", records, cpu, "s CPU")
        before, cpu = time.monotonic(), _cpu_seconds()
        source, out = LogSource(log=log), Path(scratch) / "tables"
        prepare(source, out)
        run_batch(spark, source, out, lambda name: None)  # noqa: ARG005
        took, cpu = time.monotonic() - before, _cpu_seconds() - cpu
        yield Rate("files to all tables", records, took, "s")
        yield Rate("the same, CPU of all processes", records, cpu, "s CPU")
    spark.stop()


def _cpu_seconds() -> float:
    """What this process and all it started have used: the JVM, its Python workers."""
    used = 0.0
    for process in (own := psutil.Process(), *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            used += sum(process.cpu_times()[:4])
    return used


def dump_log(log: Path, classes: str) -> Rate:
    """kafka-dump-log --offsets-decoder over some partitions; it prints all keys and values."""
    files: list[Path] = []
    for number in range(LOG_PARTITIONS)[:DUMPED_PARTITIONS]:
        files += sorted((log / f"__consumer_offsets-{number}").glob("*.log"))
    command = ["java", "-Xmx512m", "-cp", classes, "kafka.tools.DumpLogSegments"]
    command += ["--offsets-decoder", "--files", ",".join(map(str, files))]
    before = time.monotonic()
    done = subprocess.run(command, capture_output=True, check=True)
    seconds = time.monotonic() - before
    records = done.stdout.count(b"| offset:")
    return Rate("kafka-dump-log --offsets-decoder", records, seconds, "s")


def consume(log: Path, classes: str, records: int) -> Rate:
    """A plain JVM consumer, which decodes nothing, of a real Kafka that has the same files."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        cores = two_cores()
        with kafka(cores.server, directory, {}):
            _wait_for_topic(directory / "data")
        _put_under(log, directory / "data")
        # The consumer's own commits would keep it waiting for records that were compacted away.
        with kafka(cores.server, directory, {"log.cleaner.enable": "false"}) as running:
            command = ["java", "-Xmx512m", "-cp", classes, CONSUMER, "--topic", TOPIC]
            command += ["--bootstrap-server", f"127.0.0.1:{running.port}"]
            command += ["--messages", str(records), "--timeout", "30000"]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, check=True, timeout=CONSUMER_SECONDS
                )
            except subprocess.TimeoutExpired:
                late = f"the consumer did not read {records:,} records in {CONSUMER_SECONDS} s"
                raise CannotRun(late) from None
    return consumed(done.stdout)


def consumed(report: str) -> Rate:
    """What ConsumerPerformance reports: a line of names and a line of values."""
    lines = [line.split(", ") for line in report.splitlines() if line.count(", ") >= 8]
    values = dict(zip(lines[-2], lines[-1], strict=True))
    records = int(values["data.consumed.in.nMsg"])
    seconds = records / float(values["nMsg.sec"])
    return Rate("a plain JVM consumer, undecoded", records, seconds, "s")


def _wait_for_topic(data: Path) -> None:
    """The broker makes the topic when it is first asked for a coordinator."""
    deadline = time.monotonic() + 30
    while len(list(data.glob(f"{TOPIC}-*"))) < LOG_PARTITIONS:
        if time.monotonic() > deadline:
            raise CannotRun(f"Kafka made no {TOPIC} within 30 s")
        time.sleep(0.1)


def _put_under(log: Path, data: Path) -> None:
    for partition in sorted(log.glob(f"{TOPIC}-*")):
        target = data / partition.name
        for old in [*target.glob("0*"), *target.glob("leader-epoch-checkpoint")]:
            old.unlink()
        for path in partition.glob("*.log"):
            shutil.copy(path, target)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", HIGH_WATERMARKS):
        (data / name).unlink(missing_ok=True)


def measure(log: Path) -> Iterator[Rate]:
    """Everything that can be measured here."""
    decoded = decode(log)
    yield decoded
    yield from parquet(log)
    try:
        classes = f"{kafka_jars()}/*"
        yield dump_log(log, classes)
        yield consume(log, classes, decoded.records)
    except (NoJars, CannotRun) as error:
        print(f"not measured beside Kafka's tools: {error}")


def main() -> None:
    """Print a Markdown table, row by row."""
    parser = argparse.ArgumentParser(description="Measure the pipeline's source.")
    parser.add_argument("--log", type=Path, help="a data directory; it is only read")
    parser.add_argument("--commits", type=int, default=Size.commits, help="to generate")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        log = given.log
        if log is None:
            log = Path(scratch) / "log"
            write(log, Size(commits=given.commits, generations=given.commits // 20))
        print("| what | records | took | records/s |\n|---|--:|--:|--:|")
        for rate in measure(log):
            print(rate, flush=True)


if __name__ == "__main__":
    main()
