"""A small log on a simulated disk, and what a load makes of it before and after compaction."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coordinator_protocol.batch import build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import OffsetCommitKey, encode_key, encode_value
from coordinator_server.runtime.loader import Loader
from coordinator_server.storage.base import LogRecord
from coordinator_server.storage.segments.compact import (
    CompactionCancelled,
    CompactionResult,
    compact,
)
from coordinator_server.storage.segments.log import SegmentLog
from tests.support.simulated_disk import SimulatedDisk

DIRECTORY = Path("/data/__consumer_offsets-0")
RETENTION_MS = 1_000
SEGMENT_BYTES = 700


class NoPace:
    """As fast as it can."""

    def spend(self, size: int) -> None:
        pass


class PowerLost(Exception):
    """Ends the run at an operation of the disk."""


def simulated_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.names_now[DIRECTORY.parent] = disk.durable_names[DIRECTORY.parent] = None
    return disk


def open_log(disk: SimulatedDisk) -> SegmentLog:
    return SegmentLog(DIRECTORY, files=disk, segment_bytes=SEGMENT_BYTES)


def clean(log: SegmentLog, now: int = 0) -> CompactionResult:
    return compact(log, throttle=NoPace(), wall_ms=lambda: now, delete_retention_ms=RETENTION_MS)


def close_while_compacting(log: SegmentLog) -> list[str]:
    """Close a log whose compaction has begun, and gives up then; what has ended, in order."""
    ended: list[str] = []
    began = threading.Event()

    class UntilClosed(NoPace):
        def spend(self, size: int) -> None:
            began.set()
            log.closing.wait()
            ended.append("compaction")
            raise CompactionCancelled

    with ThreadPoolExecutor(1) as pool:
        compaction = pool.submit(
            compact,
            log,
            throttle=UntilClosed(),
            wall_ms=lambda: 0,
            delete_retention_ms=RETENTION_MS,
        )
        began.wait()
        log.close()
        ended.append("closed")
        with pytest.raises(CompactionCancelled):
            compaction.result()
    return ended


def records_of(log: SegmentLog) -> list[LogRecord]:
    return [
        record for header, chunk, at in log.batches() for record in read_records(header, chunk, at)
    ]


Step = tuple[str, int, int]


def record(step: Step, number: int) -> LogRecord:
    kind, key, producer = step
    if kind in ("commits", "aborts"):
        marker = b"\0\0\0\x01" if kind == "commits" else b"\0\0\0\0"
        made = LogRecord(marker, b"\0\0\0\0\0\0", number, control=True, transactional=True)
        made.producer_id, made.producer_epoch = producer, 0
        return made
    raw_key = encode_key(OffsetCommitKey("group", "topic", key))
    value = None if kind == "tombstone" else encode_value(OffsetCommitValue(number, -1, "", number))
    made = LogRecord(raw_key, value, number, (("header", b"\xff%d" % number),))
    if kind == "pending":
        made.producer_id, made.producer_epoch, made.transactional = producer, 0, True
    return made


def write(log: SegmentLog, history: list[list[Step]]) -> None:
    for number, steps in enumerate(history):
        if steps:
            log.append(build_batch([record(step, number) for step in steps]))
    log.sync()


def state_of(log: SegmentLog) -> object:
    """What a load makes of the log."""
    loader = Loader()
    for found in records_of(log):
        loader._replay(0, found)
    return {
        name: (group.durable, group.offsets.committed, group.offsets.pending)
        for name, group in loader.groups.items()
        if not group.is_vacant and (group.durable or group.offsets)
    }
