"""A log on a simulated disk, and how tests write to it and its journal."""

from pathlib import Path

from coordinator_protocol.batch import build_batch
from coordinator_server.storage.base import LogRecord
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import SegmentLog
from tests.support.simulated_disk import SimulatedDisk

DATA = Path("/data")
DIRECTORY = DATA / "topic-0"


def simulated_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.names_now[DATA] = disk.durable_names[DATA] = None
    return disk


def append_one(log: SegmentLog, value: bytes) -> None:
    log.append(build_batch([LogRecord(b"key", value, 1)]))


def append_five(log: SegmentLog) -> None:
    for number in range(5):
        append_one(log, b"%d" % number)


def write(journal: Journal, log: SegmentLog) -> None:
    journal.write(log.take_entries(), [log])
