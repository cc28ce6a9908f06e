"""The cleaner picks the dirtiest log, compacts it in its thread, and lets go when asked to."""

import asyncio
from pathlib import Path
from threading import Event

import pytest

from coordinator_protocol.batch import build_batch
from coordinator_server.storage.base import LogRecord
from coordinator_server.storage.segments.cleaner import Cleaner, CleanerSettings, Throttle
from coordinator_server.storage.segments.compact import CompactionCancelled
from coordinator_server.storage.segments.log import SegmentLog

SETTINGS = CleanerSettings(min_dirty_bytes=1, backoff_ms=1, max_bytes_per_second=1e12)


def filled(path: Path, records: int) -> SegmentLog:
    log = SegmentLog(path, segment_bytes=1_000)
    for number in range(records):
        log.append(build_batch([LogRecord(b"key", b"%d" % number, 1)]))
    log.sync()
    return log


class Desk:
    """A cleaner and what it has said."""

    def __init__(self, *logs: SegmentLog, settings: CleanerSettings = SETTINGS) -> None:
        self.reports: list[tuple[str, dict[str, object]]] = []
        self.seconds: list[float] = []
        self.reported = asyncio.Event()
        self.cleaner = Cleaner(lambda: logs, settings, lambda: 0, self._report, self.seconds.append)

    def _report(self, event: str, **fields: object) -> None:
        self.reports.append((event, fields))
        self.reported.set()


async def test_a_dirty_log_is_compacted_and_reported(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 200)
    before = log.size
    desk = Desk(log)
    desk.cleaner.start()
    await desk.reported.wait()
    await desk.cleaner.stop()
    assert [event for event, _ in desk.reports] == ["log_compacted"]
    assert desk.reports[0][1]["directory"] == str(log.directory)
    assert len(desk.seconds) == 1
    assert log.size < before / 4
    assert log.dirty_bytes == 0


async def test_the_dirtiest_log_is_first_and_a_clean_one_is_left_alone(tmp_path: Path) -> None:
    half, dirty = filled(tmp_path / "half", 200), filled(tmp_path / "dirty", 200)
    half.clean_offset = half.closed_segments()[-3].end_offset
    desk = Desk(half, dirty)
    assert desk.cleaner.filthiest() is dirty
    await desk.cleaner.clean(dirty)
    assert desk.cleaner.filthiest() is None
    await desk.cleaner.stop()


async def test_few_bytes_are_not_worth_a_compaction(tmp_path: Path) -> None:
    desk = Desk(filled(tmp_path / "log", 200), settings=CleanerSettings())
    assert desk.cleaner.filthiest() is None
    await desk.cleaner.stop()


async def test_a_damaged_log_is_reported_once_and_not_tried_again(tmp_path: Path) -> None:
    filled(tmp_path / "log", 200).close()
    first = tmp_path / "log" / "00000000000000000000.log"
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    desk = Desk(SegmentLog(tmp_path / "log"))
    desk.cleaner.start()
    await desk.reported.wait()
    assert desk.cleaner.filthiest() is None
    await desk.cleaner.stop()
    assert [event for event, _ in desk.reports] == ["log_compaction_failed"]


async def test_a_log_that_has_failed_is_left_to_its_owner(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 200)
    log.fail(OSError("no space left"))
    desk = Desk(log)
    assert desk.cleaner.filthiest() is None
    await desk.cleaner.stop()


async def test_a_stop_abandons_a_compaction_that_waits(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 200)
    size = log.size
    desk = Desk(log, settings=CleanerSettings(min_dirty_bytes=1, max_bytes_per_second=1.0))
    desk.cleaner.start()
    await asyncio.sleep(0)
    await asyncio.wait_for(desk.cleaner.stop(), 10)
    assert desk.reports == []
    assert log.size == size


def test_a_throttle_gives_up_when_the_log_is_closed() -> None:
    closing = Event()
    throttle = Throttle(1e12, closing, Event())
    throttle.spend(1)
    closing.set()
    with pytest.raises(CompactionCancelled):
        throttle.spend(1)


async def cleaned_once(log: SegmentLog) -> None:
    desk = Desk(log)
    assert desk.cleaner.filthiest() is log
    assert await desk.cleaner.clean(log)
    await desk.cleaner.stop()


async def test_a_restart_does_not_compact_again_what_is_clean(tmp_path: Path) -> None:
    log = filled(tmp_path / "__consumer_offsets-7", 200)
    await cleaned_once(log)
    clean_offset = log.clean_offset
    log.close()
    text = (tmp_path / "cleaner-offset-checkpoint").read_text()
    assert text == f"0\n1\n__consumer_offsets 7 {clean_offset}\n"

    again = SegmentLog(tmp_path / "__consumer_offsets-7", segment_bytes=1_000)
    desk = Desk(again)
    assert again.dirty_bytes > 0
    assert desk.cleaner.filthiest() is None
    assert again.clean_offset == clean_offset
    for number in range(50):
        again.append(build_batch([LogRecord(b"key", b"%d" % number, 1)]))
    again.sync()
    assert desk.cleaner.filthiest() is again
    await desk.cleaner.stop()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1\n1\nlog 0 150\n",
        "0\n2\nlog 0 150\n",
        "0\n1\nlog 0 many\n",
        "0\n1\nlog 0 100000\n",
        "0\n1\nlog 0 -1\n",
        "0\n1\nother 0 150\n",
    ],
)
async def test_a_checkpoint_that_cannot_be_right_counts_for_nothing(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "cleaner-offset-checkpoint").write_text(text)
    log = filled(tmp_path / "log-0", 200)
    await cleaned_once(log)
    assert log.dirty_bytes == 0


async def test_a_brokers_lines_of_other_topics_stay(tmp_path: Path) -> None:
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nmy-topic 3 12\n")
    await cleaned_once(filled(tmp_path / "log-0", 200))
    lines = (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()
    assert lines[1] == "2"
    assert "my-topic 3 12" in lines


async def test_the_lag_is_the_share_of_the_dirtiest_log(tmp_path: Path) -> None:
    log = filled(tmp_path / "log-0", 200)
    desk = Desk(log, SegmentLog(tmp_path / "empty-0"))
    assert desk.cleaner.lag().dirtiest_ratio == 1.0
    assert await desk.cleaner.clean(log)
    assert desk.cleaner.lag().dirtiest_ratio == 0.0
    assert desk.cleaner.lag().idle_seconds >= 0
    await desk.cleaner.stop()


@pytest.mark.interpreted
async def test_a_bug_met_in_one_log_does_not_end_the_cleaner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = filled(tmp_path / "broken-0", 300), filled(tmp_path / "sound-0", 200)
    monkeypatch.setattr(broken, "closed_segments", lambda: [None])
    desk = Desk(broken, sound)
    desk.cleaner.start()
    while len(desk.reports) < 2:
        desk.reported.clear()
        await desk.reported.wait()
    await desk.cleaner.stop()
    events = {Path(str(fields["directory"])).name: event for event, fields in desk.reports}
    assert events == {"broken-0": "log_compaction_failed", "sound-0": "log_compacted"}
