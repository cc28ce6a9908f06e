"""How long a load takes: commits of as many different keys, read from segments into groups.

`python -m benchmarks.load_time [RECORDS]` prints seconds and CPU per million records, beside what
Apache Kafka takes for the same files, if there is Java and Maven; `--only-ours` leaves Kafka out.
"""

import argparse
import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path
from uuid import UUID

from benchmarks.kafka_load import kafka_load
from benchmarks.servers import CannotRun
from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import OffsetCommitKey, encode_key, encode_value
from coordinator_server.runtime.loader import Loader
from coordinator_server.storage.segments.directory import DataDirectory
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.storage import TOPIC, SegmentStorage

GROUPS, TOPICS, RECORDS_PER_BATCH = 1_000, 7, 100
WALL = 1_700_000_000_000


def commit(number: int) -> LogRecord:
    """A commit of a key no other number has."""
    key = OffsetCommitKey(f"group-{number % GROUPS}", f"topic-{number % TOPICS}", number)
    value = OffsetCommitValue(number, 5, "meta", WALL + number)
    return LogRecord(encode_key(key), encode_value(value), WALL + number)


def write(directory: Path, records: int) -> None:
    """Make a partition's log of so many commits."""
    log = SegmentLog(directory / f"{TOPIC}-0")
    for first in range(0, records, RECORDS_PER_BATCH):
        last = min(first + RECORDS_PER_BATCH, records)
        log.append(build_batch([commit(number) for number in range(first, last)]))
    log.close()


async def load(directory: Path) -> Loader:
    """Load the partition as a server does."""
    held = DataDirectory(directory, node_id=1, cluster_id=None)
    storage = SegmentStorage(
        held,
        Flusher(FlushPolicy.OS),
        partitions=1,
        segment_bytes=1 << 30,
        topic_id=UUID(int=1),
        report=lambda *_, **__: None,
    )
    loader = Loader()
    log = await storage.claim(0)
    await loader.load(log)
    await log.close()
    held.close()
    return loader


def main(records: int, *, beside_kafka: bool) -> int:
    """Measure and print; the exit code."""
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        write(data, records)
        wall, cpu = time.perf_counter(), time.process_time()
        loader = asyncio.run(load(data))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        found = sum(len(group.offsets) for group in loader.groups.values())
        if found != records:
            sys.exit(f"{found} offsets of {records} were loaded")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        _print("ours", records, wall, cpu, f", {peak:.0f} MiB at most")
        del loader
        if beside_kafka:
            try:
                theirs = kafka_load(data, Path(name) / "kafka")
            except CannotRun as error:
                print(f"Kafka was not measured: {error}", file=sys.stderr)
                return 1
            _print("Kafka 4.1.1", records, theirs.seconds, theirs.cpu_seconds)
            print(
                f"ours / Kafka: {wall / theirs.seconds:.2f} of the time, "
                f"{cpu / theirs.cpu_seconds:.2f} of the CPU"
            )
    return 0


def _print(name: str, records: int, wall: float, cpu: float, more: str = "") -> None:
    print(
        f"{name}: {records:,} commits in {wall:.2f} s, {records / wall:,.0f} records/s, "
        f"{cpu * 1e6 / records:.2f} s CPU per million{more}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("records", nargs="?", type=int, default=1_000_000, metavar="RECORDS")
    parser.add_argument("--only-ours", action="store_true", help="leave Kafka out")
    given = parser.parse_args()
    sys.exit(main(given.records, beside_kafka=not given.only_ours))
