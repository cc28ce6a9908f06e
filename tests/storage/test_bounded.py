"""However often the same offsets are committed, their directory stays small."""

from pathlib import Path

import pytest

from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import OffsetCommitKey, encode_key, encode_value
from coordinator_server.storage.base import LogRecord
from coordinator_server.storage.segments.cleaner import Cleaner, CleanerSettings
from coordinator_server.storage.segments.flusher import FlushPolicy
from coordinator_server.storage.segments.log import SegmentLog
from tests.storage.conftest import SegmentRig
from tests.support.appending import appended
from tests.support.compacted_logs import records_of

KEYS, COMMITS, PER_REQUEST = 1_000, 1_000_000, 500
SEGMENT_BYTES = 1_000_000
BOUND = 4 * SEGMENT_BYTES
"""The active segment, one that waits for the next look, and the clean rest while it is replaced."""


def request(number: int) -> list[LogRecord]:
    """A commit of many partitions at once, as a group makes it that consumes all of them."""
    first = number * PER_REQUEST % KEYS
    value = encode_value(OffsetCommitValue(number, -1, "", number))
    return [
        LogRecord(encode_key(OffsetCommitKey("group", "topic", key)), value, number)
        for key in range(first, first + PER_REQUEST)
    ]


@pytest.mark.slow
async def test_a_million_commits_of_a_thousand_offsets_end_in_a_few_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator_server.storage.segments.cleaner.IDLE_PER_WORK", 0.0)
    rig = SegmentRig(tmp_path / "data", policy=FlushPolicy.OS, segment_bytes=SEGMENT_BYTES)
    compactions: list[float] = []
    async with rig.run() as storage:
        settings = CleanerSettings(backoff_ms=10, max_bytes_per_second=1e9)
        cleaner = Cleaner(
            storage.open_logs, settings, lambda: 0, rig._report, count=compactions.append
        )
        log = await storage.claim(0)
        cleaner.start()
        for number in range(COMMITS // PER_REQUEST):
            await appended(log, request(number))
        written = storage.sizes()[0][0]
        while (dirty := cleaner.filthiest()) is not None:
            await cleaner.clean(dirty)
        await cleaner.stop()
        await log.close()
    assert compactions
    on_disk = sum(path.stat().st_size for path in rig.path.rglob("*.log*"))
    assert on_disk < BOUND, f"{on_disk:,} bytes, {written:,} when the last commit was answered"
    found = records_of(SegmentLog(rig.path / "__consumer_offsets-0"))
    last = {each.key: each.value for each in found}
    wanted = COMMITS // PER_REQUEST
    expected = [*request(wanted - 2), *request(wanted - 1)]
    assert last == {record.key: record.value for record in expected}
