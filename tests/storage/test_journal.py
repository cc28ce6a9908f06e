"""The journal's files on a real directory, and the command that empties them."""

import asyncio
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator_protocol.batch import build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_server.cli.main import app
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import SYSTEM_FILES, SystemBlockFile
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_file import FIRST_BYTES
from coordinator_server.storage.segments.journal_files import JournalFiles
from coordinator_server.storage.segments.journal_format import (
    HEADER_BYTES,
    NO_HEADER,
    SECTOR_BYTES,
    BatchRun,
    JournalEntry,
    frame,
    frame_size,
    merged_runs,
)
from coordinator_server.storage.segments.journal_names import FILE_PREFIX
from coordinator_server.storage.segments.journal_replay import replay_all
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.recovery import Recovery
from tests.support.records import numbers, record

NAME = "__consumer_offsets-0"
FIRST = "00000000000000000000.log"


def batch(number: int, size: int = 0) -> bytes:
    return build_batch([record(number, size)], base_offset=number)


def opened(journal: Journal, data: Path, name: str = NAME) -> SegmentLog:
    return SegmentLog(data / name, journal=journal)


def commit(journal: Journal, log: SegmentLog, *which: int, size: int = 0) -> None:
    """Append records and make them durable as the flusher does."""
    for number in which:
        log.append(build_batch([record(number, size)]))
    journal.write(log.take_entries(), [log])
    log.mark_safe(log.end_offset)


def crashed(data: Path, *which: int) -> Path:
    """A data directory of a server that was killed; its segment, which lacks everything."""
    data.mkdir()
    journal = Journal(data)
    commit(journal, opened(journal, data), *which)
    (data / NAME / FIRST).write_bytes(b"")
    return data / NAME / FIRST


def found(log: SegmentLog) -> list[int]:
    return numbers(
        [each for header, chunk, at in log.batches() for each in read_records(header, chunk, at)]
    )


def journal_files(data: Path) -> list[str]:
    return sorted(path.name for path in data.iterdir() if path.name.startswith(FILE_PREFIX))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["log", "checkpoint", *map(str, arguments)])


# --- files ---


def test_what_the_segments_lack_is_there_after_a_replay(tmp_path: Path) -> None:
    crashed(tmp_path / "data", 0, 1, 2)
    journal = Journal(tmp_path / "data")
    reports: list[tuple[str, dict[str, object]]] = []
    assert replay_all(
        journal, tmp_path / "data", lambda event, **fields: reports.append((event, fields))
    )
    directory = str(tmp_path / "data" / NAME)
    assert reports == [("journal_replayed", {"directory": directory, "end_offset": 3})]
    assert found(opened(journal, tmp_path / "data")) == [0, 1, 2]
    assert journal.directories() == []


def test_a_full_file_is_used_again_once_the_logs_are_synced(tmp_path: Path) -> None:
    journal = Journal(tmp_path, capacity=HEADER_BYTES + 4 * SECTOR_BYTES)
    log = opened(journal, tmp_path)
    for number in range(100):
        commit(journal, log, number)
    assert len(journal_files(tmp_path)) <= 2
    assert sum((tmp_path / name).stat().st_size for name in journal_files(tmp_path)) <= (
        2 * FIRST_BYTES
    )


def test_a_write_larger_than_a_file_makes_the_file_larger(tmp_path: Path) -> None:
    journal = Journal(tmp_path, capacity=HEADER_BYTES + SECTOR_BYTES)
    log = opened(journal, tmp_path)
    commit(journal, log, 0, size=2 * FIRST_BYTES)
    (tmp_path / NAME / FIRST).write_bytes(b"")
    assert found(opened(Journal(tmp_path), tmp_path)) == [0]


def test_a_clean_stop_leaves_no_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    log = opened(journal, tmp_path)
    commit(journal, log, 0)
    log.close()
    assert journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        NAME,
        "recovery-point-offset-checkpoint",
    ]


def test_a_log_made_anew_under_the_same_name_gets_nothing_of_the_old_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "partition.metadata").write_text("version: 0\ntopic_id: one")
    commit(journal, opened(journal, tmp_path), 0, 1)
    (tmp_path / NAME / FIRST).unlink()
    (tmp_path / NAME / "partition.metadata").write_text("version: 0\ntopic_id: two")
    assert found(opened(Journal(tmp_path), tmp_path)) == []


def test_entries_of_a_log_whose_directory_is_gone_are_skipped_with_a_line(tmp_path: Path) -> None:
    segment = crashed(tmp_path / "data", 0)
    for path in segment.parent.iterdir():
        path.unlink()
    segment.parent.rmdir()
    reports: list[str] = []
    journal = Journal(tmp_path / "data")
    assert replay_all(journal, tmp_path / "data", lambda event, **_: reports.append(event))
    assert reports == ["journal_entries_skipped"]


def test_a_log_that_cannot_be_opened_keeps_its_entries_and_holds_up_no_other(
    tmp_path: Path,
) -> None:
    data = tmp_path
    journal = Journal(data, capacity=HEADER_BYTES + 4 * SECTOR_BYTES)
    sick, sound = opened(journal, data), opened(journal, data, "orders-0")
    commit(journal, sick, 0)
    commit(journal, sound, 0)
    whole = (data / NAME / FIRST).rename(data / "aside")
    (data / NAME / FIRST).mkdir()
    reports: list[str] = []
    again = Journal(data, capacity=HEADER_BYTES + 4 * SECTOR_BYTES)
    assert not replay_all(again, data, lambda event, **_: reports.append(event))
    assert reports == ["journal_replay_failed", "journal_replayed"]
    log = opened(again, data, "orders-0")
    for number in range(1, 50):
        commit(again, log, number)
    assert again.directories()[0] == NAME
    (data / NAME / FIRST).rmdir()
    whole.rename(data / NAME / FIRST)
    assert found(opened(again, data)) == [0]
    assert again.close()


def test_a_system_without_durable_writes_syncs_after_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> int:
        raise OSError(95, "Operation not supported")

    synced: list[int] = []
    monkeypatch.setattr(os, "pwritev", unsupported)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    file = SYSTEM_FILES.open_block(tmp_path / "file")
    file.write(3, b"abc")
    assert file.read(0, 10) == b"\0\0\0abc"
    assert len(synced) == 1


# --- frames ---


def test_frames_fill_their_last_sector() -> None:
    for size in (0, 1, 483, 484, 485, 5_000):
        assert len(frame(NO_HEADER, 1, bytes(size))) == frame_size(size)
        assert frame_size(size) % SECTOR_BYTES == 0


def test_an_entry_takes_back_what_reaches_its_offset() -> None:
    three = build_batch([record(1), record(2), record(3)], base_offset=1)
    old = [JournalEntry(b"", 0, batch(0)), JournalEntry(b"", 1, three)]

    def kept(*later: JournalEntry) -> list[bytes]:
        (run,) = merged_runs([*old, *later])
        assert run.offset == 0
        return run.batches

    assert kept(JournalEntry(b"", 4, batch(4))) == [batch(0), three, batch(4)]
    assert kept(JournalEntry(b"", 1, batch(1))) == [batch(0), batch(1)]
    assert kept(JournalEntry(b"", 2, b"")) == [batch(0)]
    assert kept(JournalEntry(b"", 0, b""), JournalEntry(b"", 0, batch(0))) == [batch(0)]


def test_a_gap_parts_two_runs_and_what_goes_on_before_it_takes_the_later_one_back() -> None:
    entries = [
        JournalEntry(b"", 0, batch(0)),
        *(JournalEntry(b"", n, batch(n), is_synced=False) for n in (5, 6)),
    ]
    first, second = (
        BatchRun(0, [batch(0)], is_synced=True),
        BatchRun(5, [batch(5), batch(6)], is_synced=False),
    )
    assert merged_runs(entries) == [first, second]
    assert merged_runs(entries, first=5) == [second]
    assert merged_runs([*entries, JournalEntry(b"", 1, batch(1))]) == [
        first._replace(batches=[batch(0), batch(1)])
    ]


# --- what is lost, and the command ---


def test_a_segment_that_does_not_reach_the_journal_is_an_error(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    log = opened(journal, tmp_path)
    log.append(build_batch([record(0)]))
    log.take_entries()
    commit(journal, log, 1)
    (tmp_path / NAME / FIRST).write_bytes(b"")
    with pytest.raises(CorruptLog, match="does not reach offset 1, where the journal goes on"):
        opened(Journal(tmp_path), tmp_path)
    refused = run("--data", tmp_path)
    assert refused.exit_code == 1
    assert "does not reach offset 1" in refused.output
    assert journal_files(tmp_path)
    accepted = run("--data", tmp_path, "--accept-loss")
    assert accepted.exit_code == 0, accepted.output
    assert found(SegmentLog(tmp_path / NAME)) == [1]


def test_the_command_leaves_plain_directories(tmp_path: Path) -> None:
    data = tmp_path / "data"
    crashed(data, 0, 1, 2)
    seen = CliRunner().invoke(app, ["log", "verify", "--data", str(data)])
    assert "note: there is a journal" in seen.output
    result = run("--data", data)
    assert result.exit_code == 0, result.output
    assert f"journal replayed: directory {data / NAME}, end_offset 3" in result.output
    assert journal_files(data) == []
    assert found(SegmentLog(data / NAME)) == [0, 1, 2]
    points = (data / "recovery-point-offset-checkpoint").read_text()
    assert points == "0\n1\n__consumer_offsets 0 3\n"
    assert "the journal was empty" in run("--data", data).output


def test_the_command_wants_a_data_directory(tmp_path: Path) -> None:
    result = run("--data", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "expected a data directory" in result.output


def test_a_recovery_point_behind_the_end_of_its_log_is_forgotten_where_loss_is_accepted(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path)
    log = opened(journal, tmp_path)
    commit(journal, log, 0, 1, 2)
    log.close()
    assert journal.close()
    (tmp_path / NAME / FIRST).write_bytes(batch(0))
    journal = Journal(tmp_path, recovery=Recovery.TRUNCATE)
    commit(journal, opened(journal, tmp_path), 1, 2, 3)
    (tmp_path / NAME / FIRST).write_bytes(b"".join(batch(number) for number in range(3)))
    assert found(opened(Journal(tmp_path), tmp_path)) == [0, 1, 2, 3]
    assert Journal(tmp_path).points.of(NAME) == 1


# --- errors that no disk reports ---

UNEXPECTED = [MemoryError("no room"), RuntimeError("a bug"), asyncio.CancelledError()]


def fail_next(monkeypatch: pytest.MonkeyPatch, operation: str, error: BaseException) -> None:
    """Let one operation of the files of blocks raise."""

    def fail(*_arguments: object, **_how: object) -> None:
        monkeypatch.undo()
        raise error

    monkeypatch.setattr(SystemBlockFile, operation, fail)


@pytest.mark.interpreted
@pytest.mark.parametrize("error", UNEXPECTED, ids=repr)
def test_a_frame_that_an_error_has_left_out_is_no_damage_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    journal = Journal(tmp_path)
    # The directory is read while this one is in use: no file may go meanwhile.
    journal.begin_checkpoint = lambda: None  # type: ignore[method-assign]
    first, other = opened(journal, tmp_path), opened(journal, tmp_path, "__consumer_offsets-1")
    commit(journal, first, 0)
    fail_next(monkeypatch, "write", error)
    with pytest.raises(type(error)):
        commit(journal, other, 0)
    commit(journal, first, 1)
    again = Journal(tmp_path)
    assert found(opened(again, tmp_path)) == [0, 1]
    # What was not acknowledged may be there or not: the log can be opened.
    opened(again, tmp_path, "__consumer_offsets-1")


@pytest.mark.interpreted
@pytest.mark.parametrize("which", [(JournalFiles, "abandon"), (SystemBlockFile, "close")], ids=str)
def test_a_file_that_could_not_even_be_given_up_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: tuple[type, str]
) -> None:
    journal = Journal(tmp_path)
    # The directory is read while this one is in use: no file may go meanwhile.
    journal.begin_checkpoint = lambda: None  # type: ignore[method-assign]
    first, other = opened(journal, tmp_path), opened(journal, tmp_path, "__consumer_offsets-1")
    commit(journal, first, 0)

    def fail(*_arguments: object, **_how: object) -> None:
        monkeypatch.undo()
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(*which, fail)
    monkeypatch.setattr(SystemBlockFile, "write", lambda *_arguments, **_how: 1 / 0)
    with pytest.raises(OSError, match="Input/output"):
        commit(journal, other, 0)
    commit(journal, first, 1)
    again = Journal(tmp_path)
    assert found(opened(again, tmp_path)) == [0, 1]
    opened(again, tmp_path, "__consumer_offsets-1")


@pytest.mark.interpreted
@pytest.mark.parametrize("error", UNEXPECTED, ids=repr)
@pytest.mark.parametrize("operation", ["fill", "write"])
def test_a_file_that_could_not_be_begun_is_no_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, error: BaseException
) -> None:
    journal = Journal(tmp_path)
    log = opened(journal, tmp_path)
    fail_next(monkeypatch, operation, error)
    with pytest.raises(type(error)):
        commit(journal, log, 0)
    assert journal_files(tmp_path) == []
    assert found(opened(Journal(tmp_path), tmp_path)) == []
