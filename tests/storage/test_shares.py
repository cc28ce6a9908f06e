"""A data directory in shares: locks, and what changes hands when their number changes."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_protocol.batch import build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_server.cli.main import app
from coordinator_server.storage.segments.checkpoint import (
    RECOVERY_POINTS_FILE,
    RecoveryPoints,
    read_offsets,
    write_offsets,
)
from coordinator_server.storage.segments.cleaner_checkpoint import CLEANED_FILE
from coordinator_server.storage.segments.files import SYSTEM_FILES
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_names import FILE_PREFIX, owners
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.shares import (
    WHOLE,
    Share,
    ShareLocks,
    Taken,
    Unsettled,
    await_nobody,
    take_over,
)
from tests.support.client_processes import ROOT
from tests.support.records import numbers, record

HOLD = """
import sys
from pathlib import Path
from coordinator_server.storage.segments.shares import Share, ShareLocks
locks = ShareLocks(Path(sys.argv[1]), Share(1, 3), 6)
print("held", flush=True)
sys.stdin.read()
"""


def unreported(_event: str, **_fields: object) -> None:
    return


def shares(of: int) -> list[Share]:
    return [Share(index, of) for index in range(of)]


def partition(number: int) -> str:
    return f"__consumer_offsets-{number}"


def crashed(data: Path, share: Share, number: int, *which: int) -> None:
    """What a killed worker leaves of a partition: records in its journal alone."""
    journal = Journal(data, owner=share.name)
    log = SegmentLog(data / partition(number), journal=journal)
    for each in which:
        log.append(build_batch([record(each)]))
    journal.write(log.take_entries(), [log])
    (data / partition(number) / "00000000000000000000.log").write_bytes(b"")


def records_of(data: Path, number: int) -> list[int]:
    log = SegmentLog(data / partition(number))
    return numbers(
        [each for header, chunk, at in log.batches() for each in read_records(header, chunk, at)]
    )


def test_every_partition_is_in_one_share() -> None:
    for number in range(10):
        assert [share.has(number) for share in shares(3)].count(True) == 1
        assert WHOLE.has(number)


def test_the_whole_directory_has_kafkas_file_names_and_shares_have_their_own() -> None:
    assert WHOLE.name == ""
    assert Share(1, 3).name == "1of3"


def test_a_share_that_another_process_holds_is_refused_until_that_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holder = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        ShareLocks(tmp_path, Share(0, 3), 6).close()
        with pytest.raises(Taken, match="partition 1 is served by another process"):
            ShareLocks(tmp_path, Share(1, 2), 6)
        with pytest.raises(Taken, match="workers of an earlier start still serve"):
            await_nobody(tmp_path, patience=0)
        holder.kill()
        holder.wait()
    await_nobody(tmp_path, patience=5)
    ShareLocks(tmp_path, Share(1, 3), 6).close()


def test_a_directory_that_never_had_workers_gets_no_file_by_looking(tmp_path: Path) -> None:
    await_nobody(tmp_path, patience=0)
    take_over(tmp_path, [WHOLE], unreported)
    assert list(tmp_path.iterdir()) == []


def test_journals_do_not_see_each_others_files(tmp_path: Path) -> None:
    for owner in ("", "0of2", "1of2"):
        journal = Journal(tmp_path, owner=owner)
        journal.write([], [])
    assert owners(tmp_path) == ["", "0of2", "1of2"]
    assert [path.name for path in sorted(tmp_path.glob(f"{FILE_PREFIX}*"))] == [
        f"{FILE_PREFIX}0",
        f"{FILE_PREFIX}0of2-0",
        f"{FILE_PREFIX}1of2-0",
    ]
    assert Journal(tmp_path, owner="1of2").close()
    assert owners(tmp_path) == ["", "0of2"]


@pytest.mark.parametrize("of", [1, 2, 4])
def test_journals_of_other_workers_are_put_into_the_segments_first(tmp_path: Path, of: int) -> None:
    crashed(tmp_path, Share(0, 3), 3, 1, 2)
    crashed(tmp_path, Share(1, 3), 4, 5)
    take_over(tmp_path, shares(of), unreported)
    assert owners(tmp_path) == []
    assert records_of(tmp_path, 3) == [1, 2]
    assert records_of(tmp_path, 4) == [5]


def test_journals_of_the_same_workers_are_left_to_them(tmp_path: Path) -> None:
    crashed(tmp_path, Share(1, 3), 4, 5)
    take_over(tmp_path, shares(3), unreported)
    assert owners(tmp_path) == ["1of3"]
    assert records_of(tmp_path, 4) == []


def test_a_journal_that_cannot_be_emptied_keeps_others_from_starting(tmp_path: Path) -> None:
    crashed(tmp_path, Share(1, 3), 4, 1, 2)
    segment = tmp_path / partition(4) / "00000000000000000000.log"
    sound = build_batch([record(1)])
    segment.rename(segment.with_name("00000000000000000001.log"))
    segment.with_name("00000000000000000001.log").write_bytes(sound + sound)
    (tmp_path / partition(4) / "not-a-number.log").touch()
    with pytest.raises(Unsettled, match="the journal of worker 1 of 3 has records"):
        take_over(tmp_path, shares(2), unreported)
    assert owners(tmp_path) == ["1of3"]


def test_the_command_empties_the_journals_of_all_workers(tmp_path: Path) -> None:
    crashed(tmp_path, Share(0, 2), 2, 1, 2)
    crashed(tmp_path, Share(1, 2), 3, 5)
    command = ["log", "checkpoint", "--data", str(tmp_path)]
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "the journal is empty now")
    assert owners(tmp_path) == []
    assert records_of(tmp_path, 2) == [1, 2]
    assert records_of(tmp_path, 3) == [5]
    assert CliRunner().invoke(app, command).output == "the journal was empty\n"


def test_checkpoints_go_to_who_has_the_partition_now_and_back(tmp_path: Path) -> None:
    points = {partition(number): 10 + number for number in range(5)}
    for file in (RECOVERY_POINTS_FILE, CLEANED_FILE):
        write_offsets(SYSTEM_FILES, tmp_path / file, points)
    take_over(tmp_path, shares(2), unreported)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{file}.{index}of2" for file in (RECOVERY_POINTS_FILE, CLEANED_FILE) for index in (0, 1)
    }
    first = RecoveryPoints(tmp_path, owner="0of2")
    assert [first.of(partition(number)) for number in range(5)] == [10, 0, 12, 0, 14]
    first.note(partition(2), 99)
    first.write()
    take_over(tmp_path, shares(3), unreported)
    assert read_offsets(SYSTEM_FILES, tmp_path / f"{CLEANED_FILE}.1of3") == {
        partition(1): 11,
        partition(4): 14,
    }
    take_over(tmp_path, [WHOLE], unreported)
    assert {path.name for path in tmp_path.iterdir()} == {RECOVERY_POINTS_FILE, CLEANED_FILE}
    there = read_offsets(SYSTEM_FILES, tmp_path / RECOVERY_POINTS_FILE)
    assert there == {**points, partition(2): 99}


def test_a_journal_whose_files_are_all_lost_is_still_somebodys(tmp_path: Path) -> None:
    crashed(tmp_path, Share(1, 3), 4, 1, 2)
    for file in tmp_path.glob(f"{FILE_PREFIX}1of3-*"):
        file.unlink()
    assert owners(tmp_path) == ["1of3"]
    reported: list[str] = []
    with pytest.raises(Unsettled, match="the journal of worker 1 of 3"):
        take_over(tmp_path, shares(2), lambda event, **_: reported.append(event))
    assert "journal_damaged" in reported
    command = ["log", "checkpoint", "--data", str(tmp_path)]
    refused = CliRunner().invoke(app, command)
    assert (refused.exit_code, "the file is missing" in refused.output) == (1, True)
    accepted = CliRunner().invoke(app, [*command, "--accept-loss"])
    assert (accepted.exit_code, owners(tmp_path)) == (0, [])
