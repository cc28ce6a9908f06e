"""Faults of compactions that tests/simulation/storage has found, each by itself."""

import pytest

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.compact import compact
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.segment import file_name
from tests.support.compacted_logs import NoPace
from tests.support.simulated_log import (
    DATA,
    DIRECTORY,
    append_five,
    append_one,
    simulated_disk,
    write,
)


def test_compaction_drops_nothing_for_records_that_may_still_be_cut() -> None:
    disk = simulated_disk()
    journal = Journal(DATA, files=disk)
    log = SegmentLog(DIRECTORY, files=disk, segment_bytes=100, journal=journal)
    append_one(log, b"acknowledged")
    write(journal, log)
    log.mark_safe(log.end_offset)
    append_one(log, b"not in the journal yet")
    append_one(log, b"active")
    assert [segment.base_offset for segment in log.closed_segments()] == [0]
    write(journal, log)
    log.mark_safe(log.end_offset)
    assert [segment.base_offset for segment in log.closed_segments()] == [0, 1]


def test_a_failed_sync_cuts_nothing_for_which_a_compaction_has_dropped_records() -> None:
    disk = simulated_disk()
    log = SegmentLog(DIRECTORY, files=disk, segment_bytes=100)
    for value in (b"first", b"second", b"active"):
        append_one(log, value)
    log.mark_safe(log.write_out())
    compacted = log.closed_segments()
    assert [segment.base_offset for segment in compacted] == [0, 1]
    disk.fail("sync", OSError(5, "Input/output error"))
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    assert log.durable_offset == compacted[-1].end_offset


def test_a_compaction_does_not_hide_that_a_segment_is_missing() -> None:
    disk = simulated_disk()
    log = SegmentLog(DIRECTORY, files=disk, segment_bytes=100)
    append_five(log)
    log.close()
    disk.remove(DIRECTORY / file_name(2))
    log = SegmentLog(DIRECTORY, files=disk, journal=Journal(DATA, files=disk))
    before = log.base_offsets
    with pytest.raises(CorruptLog, match="records in between are lost"):
        compact(log, throttle=NoPace(), wall_ms=lambda: 0, delete_retention_ms=0)
    assert log.base_offsets == before == [0, 1, 3, 4]
