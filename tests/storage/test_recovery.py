"""Recovery points, and segments that end because their records' time has passed on."""

from pathlib import Path

import pytest

from coordinator_protocol.batch import build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_server.storage.base import CorruptLog, LogRecord
from coordinator_server.storage.segments.checkpoint import RECOVERY_POINTS_FILE, RecoveryPoints
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.recovery import Recovery
from coordinator_server.storage.segments.segment import Segment
from tests.support.records import record

NAME = "__consumer_offsets-7"
FIRST = "00000000000000000000.log"


def stopped(data: Path, count: int) -> Path:
    """The segment of a log with so many batches after a clean stop."""
    journal = Journal(data)
    log = SegmentLog(data / NAME, journal=journal)
    for number in range(count):
        log.append(build_batch([record(number, size=100)]))
    log.close()
    journal.close()
    return data / NAME / FIRST


def spoil(segment: Path, at: int) -> None:
    raw = bytearray(segment.read_bytes())
    raw[at] ^= 0xFF
    segment.write_bytes(raw)


def load(log: SegmentLog) -> int:
    return sum(len(read_records(header, chunk, at)) for header, chunk, at in log.batches())


def test_points_are_written_as_kafka_writes_them_and_read_again(tmp_path: Path) -> None:
    points = RecoveryPoints(tmp_path)
    points.note("my-topic-3", 12)
    points.note("__consumer_offsets-0", 7)
    points.write()
    text = (tmp_path / RECOVERY_POINTS_FILE).read_text()
    assert text == "0\n2\n__consumer_offsets 0 7\nmy-topic 3 12\n"
    again = RecoveryPoints(tmp_path)
    assert [again.of(name) for name in ("my-topic-3", "__consumer_offsets-0", "x-0")] == [12, 7, 0]


@pytest.mark.parametrize("text", ["", "1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 x\n"])
def test_points_that_cannot_be_read_count_for_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / RECOVERY_POINTS_FILE).write_text(text)
    assert RecoveryPoints(tmp_path).of("a-0") == 0


@pytest.mark.interpreted
def test_only_what_lies_behind_the_point_is_checked_at_the_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(tmp_path, 10)
    checked: list[int] = []
    check = Segment._check

    def note(self: Segment, position: int, *rest: object) -> None:
        checked.append(position)
        check(self, position, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Segment, "_check", note)
    log = SegmentLog(tmp_path / NAME, journal=Journal(tmp_path))
    assert (log.end_offset, checked) == (10, [])
    log = SegmentLog(tmp_path / NAME)
    assert (log.end_offset, len(checked)) == (10, 10)


def test_damage_before_the_point_is_noticed_by_the_load(tmp_path: Path) -> None:
    segment = stopped(tmp_path, 10)
    spoil(segment, 150)
    log = SegmentLog(tmp_path / NAME, journal=Journal(tmp_path))
    with pytest.raises(CorruptLog, match=f"{segment}, position 0: a batch with checksum"):
        load(log)


def test_a_log_that_ends_before_its_point_is_not_opened(tmp_path: Path) -> None:
    segment = stopped(tmp_path, 10)
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.truncate(size - 5)
    for _ in range(2):
        with pytest.raises(
            CorruptLog, match=f"{segment} ends at offset 9, .* up to offset 10 were"
        ):
            SegmentLog(tmp_path / NAME, journal=Journal(tmp_path, topic_ids=lambda _name: "an id"))
        assert segment.stat().st_size == size - 5
    log = SegmentLog(tmp_path / NAME, journal=Journal(tmp_path, recovery=Recovery.TRUNCATE))
    assert log.end_offset == 9


def test_a_log_whose_loss_is_accepted_is_checked_from_its_beginning(tmp_path: Path) -> None:
    segment = stopped(tmp_path, 10)
    size = segment.stat().st_size
    spoil(segment, size // 10 - 1)
    with segment.open("ab") as file:
        file.truncate(size - 5)
    with pytest.raises(CorruptLog, match="position 0"):
        SegmentLog(tmp_path / NAME, journal=Journal(tmp_path, recovery=Recovery.TRUNCATE))


def test_a_log_made_anew_or_cut_has_no_point_behind_its_end(tmp_path: Path) -> None:
    segment = stopped(tmp_path, 10)
    log = SegmentLog(tmp_path / NAME, journal=Journal(tmp_path))
    log.truncate(4)
    assert RecoveryPoints(tmp_path).of(NAME) == 4
    segment.unlink()
    SegmentLog(tmp_path / NAME, journal=Journal(tmp_path))
    assert RecoveryPoints(tmp_path).of(NAME) == 0


def rolled_at(directory: Path, timestamps: list[int], segment_ms: int) -> list[int]:
    """The base offsets of the segments that batches with these timestamps lie in."""
    log = SegmentLog(directory, segment_ms=segment_ms)
    for timestamp in timestamps:
        log.append(build_batch([LogRecord(b"key", b"value", timestamp)]))
        log.sync()
    log.close()
    return sorted(int(path.stem) for path in directory.glob("*.log"))


@pytest.mark.parametrize(
    ("timestamps", "segments"),
    [
        ([1_000, 1_500, 2_000], [0]),
        ([1_000, 1_500, 2_001, 2_500, 3_001, 3_002], [0, 2, 5]),
        # An older record does not roll, and the first one's time is what counts.
        ([5_000, 1_000, 5_500, 6_001], [0, 3]),
        # Without timestamps there is no age.
        ([-1, 5_000, 10_000], [0]),
    ],
)
def test_a_segment_ends_when_its_records_time_has_passed_on(
    tmp_path: Path, timestamps: list[int], segments: list[int]
) -> None:
    assert rolled_at(tmp_path / NAME, timestamps, 1_000) == segments


def test_a_segment_is_as_old_after_a_restart(tmp_path: Path) -> None:
    assert rolled_at(tmp_path / NAME, [1_000, 1_500], 1_000) == [0]
    assert rolled_at(tmp_path / NAME, [2_001], 1_000) == [0, 2]
