"""The commands that look at a log on disk and mend it."""

import errno
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    encode_key,
    encode_value,
)
from coordinator_protocol.subscription import Subscription, encode_subscription
from coordinator_server.cli.main import app
from coordinator_server.log_tools import segment_repair
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.directory import DataDirectory
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.topics.catalog import TopicCatalog
from coordinator_server.topics.directories import PartitionDirectories
from tests.support.fake_services import CountedIds

WALL = 1_700_000_000_000
FIRST = "00000000000000000000.log"


def commit(number: int, metadata: str = "meta") -> LogRecord:
    value = OffsetCommitValue(number, 2, metadata, WALL)
    return LogRecord(
        encode_key(OffsetCommitKey("group", "orders", number)), encode_value(value), WALL + number
    )


def written(data: Path, *batches: list[LogRecord], segment_bytes: int = 1 << 30) -> Path:
    """The only segment of partition 0, with these batches."""
    log = SegmentLog(data / "__consumer_offsets-0", segment_bytes=segment_bytes)
    for batch in batches:
        log.append(build_batch(batch))
    log.close()
    return data / "__consumer_offsets-0" / FIRST


def damaged(segment: Path, batch: int) -> tuple[int, int]:
    """Spoil the last byte of a batch; returns where it begins and ends."""
    raw = bytearray(segment.read_bytes())
    begin = end = 0
    for _ in range(batch + 1):
        begin, end = end, end + 12 + int.from_bytes(raw[end + 8 : end + 12], "big")
    raw[end - 1] ^= 0xFF
    segment.write_bytes(raw)
    return begin, end


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["log", *map(str, arguments)])


def offsets(log: SegmentLog) -> Iterator[int]:
    for header, chunk, at in log.batches():
        for record in read_records(header, chunk, at):
            yield record.offset


def test_dump_prints_key_value_and_headers_of_every_record(tmp_path: Path) -> None:
    record = commit(7)
    record.headers = (("rb.reason", b"member_left"),)
    segment = written(tmp_path, [record, LogRecord(record.key, None, WALL)])
    result = run("dump", segment)
    assert result.exit_code == 0
    assert "only reads" in result.stderr
    first, second = map(json.loads, result.stdout.splitlines())
    key = {"type": "offset_commit", "group": "group", "topic": "orders", "partition": 7}
    assert first == {
        "offset": 0,
        "timestamp": WALL + 7,
        "key": key,
        "value": {"offset": 7, "leader_epoch": 2, "metadata": "meta", "commit_timestamp": WALL},
        "headers": {"rb.reason": "member_left"},
    }
    assert (second["key"], second["value"]) == (key, None)


def test_dump_decodes_what_members_subscribe_to_and_are_given(tmp_path: Path) -> None:
    subscription = encode_subscription(Subscription(["orders"]))
    assignment = b"\0\0\0\0\0\1\0\6orders\0\0\0\1\0\0\0\4\xff\xff\xff\xff"
    members = [
        MemberMetadata("bob-1", None, "bob", "/h", 1, 2, subscription, assignment),
        MemberMetadata("eve-1", None, "eve", "/h", 1, 2, b"what", b"ever"),
    ]
    value = GroupMetadataValue("consumer", 3, "range", "bob-1", WALL, members)
    key = encode_key(GroupMetadataKey("group"))
    segment = written(tmp_path, [LogRecord(key, encode_value(value), WALL)])
    bob, eve = json.loads(run("dump", segment.parent).stdout)["value"]["members"]
    assert bob["subscription"] == {"topics": ["orders"], "owned_partitions": {}}
    assert bob["assignment"] == {"orders": [4]}
    assert (eve["subscription"], eve["subscription_bytes"]) == (None, b"what".hex())


def test_dump_of_a_data_directory_says_which_partition(tmp_path: Path) -> None:
    written(tmp_path, [commit(1)])
    result = run("dump", "--data", tmp_path, "--partition", 0)
    assert json.loads(result.stdout)["partition"] == "__consumer_offsets-0"


def test_markers_and_unknown_types_are_dumped_too(tmp_path: Path) -> None:
    marker = LogRecord(b"\0\0\0\1", b"\0" * 6, WALL, (), -1, 9, 1, True, True)
    segment = written(tmp_path, [marker], [LogRecord(b"\x7f\xfeid", b"ever", WALL)])
    first, second = map(json.loads, run("dump", segment).stdout.splitlines())
    assert (first["marker"], first["producer_id"]) == ("commit", 9)
    assert second["key"] == {"type": 32766, "bytes": b"\x7f\xfeid".hex()}


def test_verify_counts_what_is_sound(tmp_path: Path) -> None:
    written(tmp_path, *([commit(number)] for number in range(9)), segment_bytes=300)
    result = run("verify", "--data", tmp_path)
    assert result.exit_code == 0
    assert result.stdout.startswith("9 records in ")


def test_verify_names_file_and_position_of_what_is_wrong(tmp_path: Path) -> None:
    segment = written(tmp_path, [commit(0)], [commit(1)], [commit(2)])
    begin, _ = damaged(segment, 1)
    result = run("verify", "--data", tmp_path)
    assert result.exit_code == 1
    assert f"error: {segment}, position {begin}: a batch with checksum" in result.stderr


def test_verify_names_the_command_that_mends_what_it_found(tmp_path: Path) -> None:
    DataDirectory(tmp_path, node_id=1, cluster_id=None).close()
    TopicCatalog(tmp_path, CountedIds(), offsets_partitions=1)
    segment = written(tmp_path, [commit(0)], [commit(1)])
    (tmp_path / "meta.properties").unlink()
    damaged(segment, 0)
    lines = run("verify", "--data", tmp_path).stderr.splitlines()
    repair = f"coordinator-server log repair --dry-run --data {tmp_path}"
    files = f"coordinator-server log repair-files --dry-run --data {tmp_path}"
    assert f"error: {tmp_path}/meta.properties: No such file or directory" in lines
    assert lines[-2:] == [
        f"{repair} shows what can be kept",
        f"{files} shows which files can be made anew",
    ]


def test_a_partition_without_segments_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    written(tmp_path, [commit(0)])
    empty = tmp_path / "__consumer_offsets-1"
    empty.mkdir()
    result = run("dump", "--data", tmp_path)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert f"note: {empty}: no segments (*.log)" in result.stderr
    assert run("dump", "--data", tmp_path, "--partition", 1).exit_code == 2


def test_verify_misses_the_directory_of_a_log_that_the_journal_has(tmp_path: Path) -> None:
    DataDirectory(tmp_path, node_id=1, cluster_id=None).close()
    catalog = TopicCatalog(tmp_path, CountedIds(), offsets_partitions=1)
    (orders,) = catalog.create([("orders", 1)])
    written(tmp_path, [commit(0)])
    journal = Journal(tmp_path)
    log = PartitionDirectories(tmp_path, journal=journal).open_log(orders, 0, create=True)
    assert log is not None
    log.append(build_batch([commit(0)]))
    journal.write(log.take_entries(), [log])
    directory = log.directory
    shutil.rmtree(directory)
    result = run("verify", "--data", tmp_path)
    assert result.exit_code == 1
    assert f"error: {directory} is missing, the journal has records of it" in result.stderr


def test_a_file_that_may_not_be_read_is_not_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DataDirectory(tmp_path, node_id=1, cluster_id=None).close()
    TopicCatalog(tmp_path, CountedIds(), offsets_partitions=1)
    before = (tmp_path / "coordinator-starts").read_bytes()
    read_bytes = Path.read_bytes

    def refusing(path: Path) -> bytes:
        if path.name == "coordinator-starts":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refusing)
    result = run("repair-files", "--yes", "--data", tmp_path)
    monkeypatch.undo()
    assert result.exit_code == 1
    assert f"error: {tmp_path}/coordinator-starts: Permission denied" in result.stderr
    assert (tmp_path / "coordinator-starts").read_bytes() == before


@pytest.mark.parametrize("cluster_id", ["a\nb", "\x1b[31m", "x" * 256])
def test_a_cluster_id_that_no_start_could_read_is_refused(tmp_path: Path, cluster_id: str) -> None:
    written(tmp_path, [commit(0)])
    result = run("repair-files", "--yes", "--cluster-id", cluster_id, "--data", tmp_path)
    assert result.exit_code == 2
    assert "expected a text of at most 255 printable characters" in result.stderr
    assert not (tmp_path / "meta.properties").exists()


def test_a_repair_of_files_says_why_and_what_in_lines(tmp_path: Path) -> None:
    written(tmp_path, [commit(0)])
    (tmp_path / "__consumer_offsets-0" / "leader-epoch-checkpoint").unlink(missing_ok=True)
    result = run("repair-files", "--dry-run", "--cluster-id", "abc", "--data", tmp_path)
    assert result.stdout.splitlines()[:2] == [
        f"{tmp_path}/meta.properties: No such file or directory",
        "  would be made anew; node.id is 1",
    ]


@pytest.mark.parametrize("command", [("checkpoint",), ("repair-files", "--yes")])
def test_a_directory_of_something_else_is_refused_and_left_alone(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "notes.txt").touch()
    result = run(*command, "--data", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no log, journal or meta.properties, expected a data directory" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_verify_finds_a_record_that_cannot_be_decoded(tmp_path: Path) -> None:
    bad = LogRecord(commit(1).key, b"\0\4\0", WALL)
    segment = written(tmp_path, [commit(0), bad])
    result = run("verify", segment)
    assert result.exit_code == 1
    assert f"{segment}, position 0, offset 1: " in result.stderr


def test_a_dry_run_changes_nothing_and_says_what_would_go(tmp_path: Path) -> None:
    segment = written(tmp_path, [commit(0)], [commit(1), commit(2)], [commit(3)])
    begin, end = damaged(segment, 1)
    before = segment.read_bytes()
    result = run("repair", "--data", tmp_path, "--dry-run")
    assert result.exit_code == 0
    assert f"{end - begin} bytes (offsets 1 to 2) would be taken out" in result.stdout
    assert "what follows is sound and stays" in result.stdout
    assert segment.read_bytes() == before
    assert [each.name for each in segment.parent.iterdir()] == [FIRST]


def test_a_repair_keeps_what_follows_and_the_bytes_it_takes_out(tmp_path: Path) -> None:
    segment = written(tmp_path, *([commit(number)] for number in range(5)))
    places = [damaged(segment, 1), damaged(segment, 3)]
    raw = segment.read_bytes()
    with pytest.raises(CorruptLog):
        SegmentLog(segment.parent)
    assert run("repair", "--data", tmp_path, "--yes").exit_code == 0
    for begin, end in places:
        copy = segment.with_name(f"{FIRST}.{begin}.cut")
        assert copy.read_bytes() == raw[begin:end]
    assert run("verify", "--data", tmp_path).exit_code == 0
    log = SegmentLog(segment.parent)
    assert list(offsets(log)) == [0, 2, 4]
    assert log.end_offset == 5
    log.close()


def test_a_second_repair_does_not_overwrite_the_bytes_of_the_first(tmp_path: Path) -> None:
    segment = written(tmp_path, *([commit(number)] for number in range(3)))
    for _ in range(2):
        begin, _ = damaged(segment, 0)
        run("repair", "--data", tmp_path, "--yes")
        assert begin == 0
    assert sorted(segment.parent.glob("*.cut*")) == [
        segment.with_name(f"{FIRST}.0.cut"),
        segment.with_name(f"{FIRST}.0.cut2"),
    ]


def test_a_batch_inside_a_damaged_ones_metadata_is_not_taken_for_one_of_the_log(
    tmp_path: Path,
) -> None:
    forged = build_batch([commit(99)], base_offset=1)
    bait = LogRecord(b"\x7f\xfeid", forged, WALL)
    segment = written(tmp_path, [commit(0)], [bait], [commit(2)])
    damaged(segment, 1)
    run("repair", "--data", tmp_path, "--yes")
    log = SegmentLog(segment.parent)
    assert list(offsets(log)) == [0, 2]
    log.close()


def test_a_torn_tail_goes_as_a_whole(tmp_path: Path) -> None:
    segment = written(tmp_path, [commit(0)], [commit(1)])
    segment.write_bytes(segment.read_bytes()[:-5])
    assert "nothing sound follows" in run("repair", "--data", tmp_path, "--yes").stdout
    assert run("verify", "--data", tmp_path).exit_code == 0


def test_a_sound_log_needs_no_repair(tmp_path: Path) -> None:
    written(tmp_path, [commit(0)])
    assert run("repair", "--data", tmp_path, "--yes").stdout == "nothing is damaged\n"


def test_a_directory_that_a_server_holds_is_read_but_not_repaired(tmp_path: Path) -> None:
    server = DataDirectory(tmp_path, node_id=1, cluster_id=None)
    segment = written(tmp_path, [commit(0)], [commit(1)])
    damaged(segment, 0)
    before = segment.read_bytes()
    try:
        for mode in ("--dry-run", "--yes"):
            result = run("repair", "--data", tmp_path, mode)
            assert result.exit_code == 1
            assert "is in use" in result.stderr
        assert run("verify", "--data", tmp_path).exit_code == 1
    finally:
        server.close()
    assert segment.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dump",), "expected either PATH or --data DIR"),
        (("verify", "x", "--partition", "1"), "--partition goes with --data"),
        (("verify", "--data", "nowhere"), "expected a data directory"),
        (("dump", "nowhere"), "expected a partition's directory"),
        (("repair", "--data", "nowhere"), "expected either --dry-run or --yes"),
    ],
)
def test_arguments_that_make_no_sense_end_with_code_2(
    arguments: tuple[str, ...], message: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_segment_is_mended_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_repair, "PIECE_BYTES", 100)
    segment = written(tmp_path, *([commit(n, "x" * 40 * n)] for n in range(12)))
    whole = segment.read_bytes()
    begin, end = damaged(segment, 4)
    (found,) = segment_repair.damages(segment)
    assert (found.position, found.cut, found.tail) == (begin, end - begin, False)
    copy = segment_repair.repair(found)
    assert segment.read_bytes() == whole[:begin] + whole[end:]
    assert copy.read_bytes()[:-1] == whole[begin : end - 1]


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_what_a_compaction_has_left_is_named_as_not_looked_at(tmp_path: Path, command: str) -> None:
    segment = written(tmp_path, [commit(0)])
    left = [segment.with_name(segment.name + end) for end in (".cleaned", ".deleted", ".swap")]
    for each in left:
        each.write_bytes(b"anything")
    result = run(command, "--data", tmp_path)
    assert result.exit_code == 0
    notes = [line for line in result.stderr.splitlines() if "is not looked at" in line]
    assert [line.split()[1] for line in notes] == [str(each) for each in left]


@pytest.mark.parametrize("command", [("repair", "--yes"), ("checkpoint",)])
def test_a_directory_that_cannot_be_held_is_named_in_words(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    written(tmp_path, [commit(0)])
    (tmp_path / ".lock").mkdir()
    result = run(*command, "--data", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.endswith(f"error: {tmp_path}/.lock: Is a directory\n")


@pytest.mark.parametrize("whole", [True, False])
def test_a_repair_ends_an_interrupted_compaction_first(tmp_path: Path, *, whole: bool) -> None:
    segment = written(tmp_path, [commit(0)], [commit(1)])
    damaged(segment, 0)
    sound = SegmentLog(tmp_path / "aside-0")
    sound.append(build_batch([commit(7), commit(8)]))
    sound.close()
    swap = segment.with_name(segment.name + (".swap" if whole else ".cleaned"))
    (tmp_path / "aside-0" / FIRST).rename(swap)
    dry = run("repair", "--data", tmp_path, "--dry-run")
    assert f"an interrupted compaction is ended first ({swap.name})" in dry.output
    assert swap.exists()
    done = run("repair", "--data", tmp_path, "--yes")
    assert "ended an interrupted compaction" in done.output
    assert ("nothing is damaged" in done.output) == whole
    assert not swap.exists()
    assert run("verify", "--data", tmp_path).exit_code == 0


def test_a_swap_file_that_is_not_whole_is_left_to_people(tmp_path: Path) -> None:
    segment = written(tmp_path, [commit(0)])
    segment.with_name(segment.name + ".swap").write_bytes(segment.read_bytes()[:-3])
    done = run("repair", "--data", tmp_path, "--yes")
    assert done.exit_code == 1
    assert "move it away if" in done.output
