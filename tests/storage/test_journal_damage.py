"""A journal with damaged bytes: nothing older is served for what was acknowledged."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator_protocol.batch import build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_format import (
    HEADER_BYTES,
    NO_HEADER,
    PAGE_BYTES,
    PROGRESS_AT,
    SECTOR_BYTES,
    Header,
    file_header,
    frame,
)
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.recovery import Recovery
from tests.support.journaled_logs import DATA, simulated_disk
from tests.support.records import numbers, record

NAMES = [f"__consumer_offsets-{number}" for number in range(4)]
FILE = ".coordinator-journal-0"
FIRST = "00000000000000000000.log"


def crashed(data: Path, *frames: str) -> None:
    """A directory of a killed server: each frame has a record for every log that it names.

    The segments lack everything.
    """
    data.mkdir(exist_ok=True)
    journal = Journal(data)
    logs = [SegmentLog(data / name, journal=journal) for name in NAMES]
    for which in frames:
        written = [logs[int(number)] for number in which]
        parts: list[bytes] = []
        for log in written:
            log.append(build_batch([record(log.end_offset)]))
            parts += log.take_entries()
        journal.write(parts, written)
    for name in NAMES:
        (data / name / FIRST).write_bytes(b"")


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def found(data: Path, recovery: Recovery = Recovery.STRICT) -> list[list[int] | str]:
    """What each log has after a start, or why it is not served."""
    journal = Journal(data, recovery=recovery)
    answers: list[list[int] | str] = []
    for name in NAMES:
        try:
            log = SegmentLog(data / name, journal=journal)
        except CorruptLog as error:
            answers.append(str(error))
            continue
        answers.append(
            numbers(
                [r for header, chunk, at in log.batches() for r in read_records(header, chunk, at)]
            )
        )
    return answers


def test_logs_with_a_later_frame_are_served_and_the_others_are_not(tmp_path: Path) -> None:
    crashed(tmp_path, "0123", "01", "23", "0", "0")
    flip(tmp_path / FILE, HEADER_BYTES + SECTOR_BYTES + 200)
    first, second, third, fourth = found(tmp_path)
    assert "does not reach offset 2" in str(first)
    assert f"{FILE}, position {HEADER_BYTES + SECTOR_BYTES}: frame 2 cannot be read" in str(second)
    assert (third, fourth) == ([0, 1], [0, 1])


def test_the_loss_is_reported_with_the_logs_and_the_command(tmp_path: Path) -> None:
    crashed(tmp_path, "0123", "01", "23")
    flip(tmp_path / FILE, HEADER_BYTES + SECTOR_BYTES + 200)
    reports: list[tuple[str, dict[str, object]]] = []
    Journal(tmp_path, report=lambda event, **fields: reports.append((event, fields)))
    ((event, fields),) = reports
    assert event == "journal_damaged"
    assert fields["file"] == str(tmp_path / FILE)
    assert fields["partitions"] == 2
    assert fields["first_partitions"] == NAMES[:2]
    command = f"coordinator-server log checkpoint --accept-loss --data {tmp_path}"
    assert fields["repair"] == command


def test_with_truncate_everything_that_is_there_is_served(tmp_path: Path) -> None:
    crashed(tmp_path, "0123", "01", "23", "0")
    flip(tmp_path / FILE, HEADER_BYTES + SECTOR_BYTES + 200)
    assert found(tmp_path, Recovery.TRUNCATE) == [[0, 2], [0], [0, 1], [0, 1]]


@pytest.mark.parametrize(
    "position",
    [HEADER_BYTES, HEADER_BYTES + 5, HEADER_BYTES + 9, HEADER_BYTES + 20, HEADER_BYTES + 27, -1],
    ids=["magic", "checksum", "generation", "sequence", "size", "batch"],
)
def test_every_field_of_a_last_frame_is_missed(tmp_path: Path, position: int) -> None:
    crashed(tmp_path, "0123")
    flip(tmp_path / FILE, HEADER_BYTES + 300 if position < 0 else position)
    assert all("frame" in str(answer) for answer in found(tmp_path))


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(HEADER_BYTES)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def without_frames_and_progress(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:PROGRESS_AT].ljust(len(data), b"\0"))


@pytest.mark.parametrize(
    "damage",
    [Path.unlink, cut, empty, zeros, without_frames_and_progress],
    ids=lambda f: f.__name__,
)
def test_a_file_that_is_missing_or_empty_makes_all_logs_suspects(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    crashed(tmp_path, "01", "23")
    damage(tmp_path / FILE)
    for _ in range(2):
        assert all(FILE in str(answer) for answer in found(tmp_path))


@pytest.mark.parametrize("position", [0, 10, 20, PROGRESS_AT, PROGRESS_AT + 38])
def test_a_damaged_page_of_the_header_costs_nothing(tmp_path: Path, position: int) -> None:
    crashed(tmp_path, "0123", "0123")
    flip(tmp_path / FILE, position)
    assert found(tmp_path) == [[0, 1]] * 4


def test_a_torn_last_write_is_cut_silently(tmp_path: Path) -> None:
    crashed(tmp_path, "0123")
    data = (tmp_path / FILE).read_bytes()
    crashed(tmp_path / "more", "0123", "0123")
    more = bytearray((tmp_path / "more" / FILE).read_bytes())
    # As the first write's progress left it, with half of the second frame.
    more[PROGRESS_AT:HEADER_BYTES] = bytes(HEADER_BYTES - PROGRESS_AT)
    end = HEADER_BYTES + SECTOR_BYTES
    assert data[end : end + SECTOR_BYTES] == bytes(SECTOR_BYTES)
    more[end + 100 : end + SECTOR_BYTES] = bytes(SECTOR_BYTES - 100)
    (tmp_path / "more" / FILE).write_bytes(more)
    reports: list[str] = []
    Journal(tmp_path / "more", report=lambda event, **_: reports.append(event))
    assert reports == []
    assert found(tmp_path / "more") == [[0]] * 4


def test_a_damaged_last_frame_costs_nothing_that_the_segments_have(tmp_path: Path) -> None:
    crashed(tmp_path, "0", "0")
    batches = [build_batch([record(number)], base_offset=number) for number in range(2)]
    (tmp_path / NAMES[0] / FIRST).write_bytes(b"".join(batches))
    path = tmp_path / FILE
    flip(path, HEADER_BYTES + SECTOR_BYTES + 200)
    flip(path, PROGRESS_AT)
    assert found(tmp_path)[0] == [0, 1]


def test_what_a_client_has_written_is_not_taken_for_a_frame(tmp_path: Path) -> None:
    crashed(tmp_path, "0123", "0123", "0123")
    data = bytearray((tmp_path / FILE).read_bytes())
    # The image of a frame without the seed, behind the last one.
    image = frame(NO_HEADER._replace(generation=1), 9, b"")
    end = HEADER_BYTES + 3 * SECTOR_BYTES
    data[end : end + len(image)] = image
    (tmp_path / FILE).write_bytes(data)
    assert found(tmp_path) == [[0, 1, 2]] * 4


def test_logs_that_were_cleared_stay_so_when_later_files_are_used_again(tmp_path: Path) -> None:
    crashed(tmp_path, "0123", "01", "23", "01")
    flip(tmp_path / FILE, HEADER_BYTES + 2 * SECTOR_BYTES + 200)
    journal = Journal(tmp_path)
    for name in NAMES[:2]:
        SegmentLog(tmp_path / name, journal=journal).close()
    assert not journal.close()
    assert [isinstance(answer, list) for answer in found(tmp_path)] == [True, True, False, False]


def test_accepted_loss_ends_the_matter(tmp_path: Path) -> None:
    crashed(tmp_path, "0123", "01", "23")
    flip(tmp_path / FILE, HEADER_BYTES + SECTOR_BYTES + 200)
    assert not Journal(tmp_path).close()
    journal = Journal(tmp_path, recovery=Recovery.TRUNCATE)
    for name in NAMES:
        SegmentLog(tmp_path / name, journal=journal).close()
    assert journal.close()
    assert [path.name for path in tmp_path.glob(".coordinator*")] == []
    assert found(tmp_path) == [[0], [0], [0, 1], [0, 1]]


def kept_by(data: Path, *frames: str) -> None:
    """As `crashed`, with a file for every frame, behind records that are synced."""
    data.mkdir(exist_ok=True)
    journal = Journal(data, capacity=1)
    journal.begin_checkpoint = lambda: None  # type: ignore[method-assign]
    logs = [SegmentLog(data / name, journal=journal) for name in NAMES]
    for log in logs:
        log.append(build_batch([record(0)]))
        log.take_entries()
        log.sync_and_note()
    journal.points.write()
    for which in frames:
        written = [logs[int(number)] for number in which]
        parts: list[bytes] = []
        for log in written:
            log.append(build_batch([record(log.end_offset)]))
            parts += log.take_entries()
        journal.write(parts, written)


def flip_inside(path: Path) -> None:
    flip(path, 30)


@pytest.mark.interpreted
@pytest.mark.parametrize("damage", [Path.unlink, flip_inside], ids=lambda f: f.__name__)
def test_records_behind_a_lost_file_that_nothing_names_stay_refused_at_every_start(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    kept_by(tmp_path, "0", "0")
    (tmp_path / FILE).unlink()
    damage(tmp_path / ".coordinator-journals")
    for _ in range(3):
        assert "does not reach offset 2" in str(found(tmp_path)[0])


@pytest.mark.interpreted
def test_a_manifest_that_is_gone_alone_costs_nothing_and_leaves_no_doubt(tmp_path: Path) -> None:
    kept_by(tmp_path, "01", "0")
    (tmp_path / ".coordinator-journals").unlink()
    journal = Journal(tmp_path)
    for name in NAMES:
        SegmentLog(tmp_path / name, journal=journal).close()
    assert journal.close()
    assert [path.name for path in tmp_path.glob(".coordinator*")] == []
    assert found(tmp_path) == [[0, 1, 2], [0, 1], [0], [0]]


def test_a_new_file_of_the_journal_of_which_one_page_has_arrived_is_no_damage() -> None:
    header = file_header(Header(1, is_synced=True, seed=7))
    for page in (0, PAGE_BYTES):
        disk = simulated_disk()
        file = disk.open_block(DATA / ".coordinator-journal-0")
        file.fill(0, 3 * PAGE_BYTES)
        file.write(page, header[page : page + PAGE_BYTES])
        journal = Journal(DATA, files=disk)
        SegmentLog(DATA / "a-0", files=disk, journal=journal)
        assert journal.close()
