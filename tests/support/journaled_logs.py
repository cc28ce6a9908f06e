"""Logs with a journal on a simulated disk, and what their files hold."""

from pathlib import Path

from coordinator_protocol.batch import batches, build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import SegmentLog
from tests.support.records import numbers, record
from tests.support.simulated_disk import SimulatedDisk

DATA = Path("/data")


def simulated_disk() -> SimulatedDisk:
    """With the data directory."""
    made = SimulatedDisk()
    made.names_now[DATA] = made.durable_names[DATA] = None
    return made


def journal_on(disk: SimulatedDisk, *, syncs: bool = True, capacity: int = 1 << 20) -> Journal:
    return Journal(DATA, capacity=capacity, syncs=syncs, files=disk)


def log_on(
    disk: SimulatedDisk, journal: Journal, name: str = "a-0", size: int = 1 << 20
) -> SegmentLog:
    return SegmentLog(DATA / name, files=disk, journal=journal, segment_bytes=size)


def append(log: SegmentLog, *which: int, size: int = 0) -> None:
    for number in which:
        log.append(build_batch([record(number, size)]))


def written(disk: SimulatedDisk, name: str = "a-0") -> list[int]:
    """What the files of a log hold, whatever the log says."""
    paths = sorted(path for path in disk.names_now if path.parent == DATA / name)
    contents = [disk.open(path).read(0, 1 << 30) for path in paths if path.suffix == ".log"]
    return [
        n
        for raw in contents
        for at, header in batches(raw)
        for n in numbers(read_records(header, raw, at))
    ]


def found(log: SegmentLog) -> list[int]:
    return [
        n for header, chunk, at in log.batches() for n in numbers(read_records(header, chunk, at))
    ]
