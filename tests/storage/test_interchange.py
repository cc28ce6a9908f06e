"""What import and export refuse, and that they leave nothing half done; the rest needs a broker."""

import fcntl
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coordinator_protocol.batch import LogRecord, build_batch, read_header
from coordinator_protocol.batch_records import iter_records
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import OffsetCommitKey, encode_key, encode_value
from coordinator_server.cli.main import app
from coordinator_server.log_tools.kafka_migration import CannotCopy, export_log, import_log
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.directory import DataDirectory
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.topics.catalog import TopicCatalog, to_base64
from tests.support.client_processes import ROOT
from tests.support.fake_services import CountedIds

WALL = 1_700_000_000_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABw"
FIRST = "00000000000000000000.log"
KIP_848_KEY = b"\0\x03\0\5group"


def commit(number: int, producer_id: int = -1) -> LogRecord:
    key, value = OffsetCommitKey("group", "orders", number), OffsetCommitValue(number, 2, "", WALL)
    return LogRecord(
        encode_key(key),
        encode_value(value),
        WALL,
        producer_id=producer_id,
        producer_epoch=5 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """A broker's log directory with two partitions, the second with records of leader epoch 9."""
    data = tmp_path / "broker"
    for partition in range(2):
        directory = data / f"__consumer_offsets-{partition}"
        directory.mkdir(parents=True)
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
        (directory / FIRST).touch()
    (data / "orders-0").mkdir()
    (data / "meta.properties").write_text("version=1\ncluster.id=theirs\nnode.id=8\n")
    (data / ".lock").touch()
    batches = [[commit(1)], [LogRecord(KIP_848_KEY, b"\0\0", WALL)], [commit(2, 70)]]
    raw = b"".join(build_batch(each, at, 9) for at, each in enumerate(batches))
    (data / "__consumer_offsets-1" / FIRST).write_bytes(raw)
    return data


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A data directory of a server that was stopped, with one record in two partitions."""
    data = tmp_path / "ours"
    DataDirectory(data, node_id=1, cluster_id=None).close()
    catalog = TopicCatalog(data, CountedIds(), offsets_partitions=2)
    topic_id = to_base64(catalog.topics()["__consumer_offsets"].topic_id)
    for partition in range(2):
        log = SegmentLog(data / f"__consumer_offsets-{partition}")
        (log.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
        (log.directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        if partition:
            log.append(build_batch([commit(1)]))
        log.close()
    return data


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["log", *map(str, arguments)])


def bring(broker: Path, into: Path, *options: object) -> Result:
    return run("import", broker, "--into", into, "--partitions", 2, *options)


def test_an_import_keeps_ids_and_records_and_says_what_it_found(
    broker: Path, tmp_path: Path
) -> None:
    into = tmp_path / "new" / "data"
    result = bring(broker, into)
    assert result.exit_code == 0, result.output
    assert "3 records in 2 partitions" in result.stdout
    assert "1 records of type 3 are kept; this server skips them" in result.stdout
    assert "1 transactions were open" in result.stdout
    assert "offsets.topic.num.partitions=2" in result.stdout
    directory = DataDirectory(into, node_id=1, cluster_id=None)
    assert directory.cluster_id == "theirs"
    directory.close()
    topic = TopicCatalog(into, CountedIds(), offsets_partitions=2).get("__consumer_offsets")
    assert topic is not None
    assert (topic.topic_id.int, topic.partitions) == (7, 2)
    assert sorted(each.name for each in into.parent.iterdir()) == ["data"]
    assert not (into / "orders-0").exists()


def test_an_import_leaves_one_leader_epoch(broker: Path, tmp_path: Path) -> None:
    bring(broker, tmp_path / "data")
    directory = tmp_path / "data" / "__consumer_offsets-1"
    assert read_header((directory / FIRST).read_bytes()).partition_leader_epoch == 0
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_an_open_transaction_is_ended_by_an_abort_marker_when_asked(
    broker: Path, tmp_path: Path
) -> None:
    result = bring(broker, tmp_path / "data", "--abort-open-transactions")
    assert "1 transactions were ended as aborted" in result.stdout
    log = SegmentLog(tmp_path / "data" / "__consumer_offsets-1")
    header, chunk, at = list(log.batches())[-1]
    (marker,) = iter_records(header, chunk, at)
    assert (marker.offset, marker.producer_id, marker.producer_epoch) == (3, 70, 5)
    assert (marker.control, marker.key) == (True, b"\0\0\0\0")
    log.close()


def test_a_directory_in_use_is_neither_read_nor_written(
    broker: Path, ours: Path, tmp_path: Path
) -> None:
    with (broker / ".lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = bring(broker, tmp_path / "data")
        assert (result.exit_code, result.stderr) == (
            1,
            f"error: {broker} is in use by a server; stop it first\n",
        )
        assert "in use" in run("export", ours, "--into", broker).stderr
    held = DataDirectory(ours, node_id=1, cluster_id=None)
    assert "in use" in run("export", ours, "--into", tmp_path / "data").stderr
    held.close()
    assert not (tmp_path / "data").exists()


def test_a_target_with_something_in_it_is_refused(broker: Path, ours: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").touch()
    for command in (["import", broker, "--partitions", 2], ["export", ours]):
        result = run(*command, "--into", tmp_path / "data")
        assert result.exit_code == 2
        assert "expected a directory that is new or empty" in result.stderr


def test_another_number_of_partitions_is_refused(broker: Path, ours: Path, tmp_path: Path) -> None:
    result = run("import", broker, "--into", tmp_path / "data")
    assert result.exit_code == 2
    assert "2 partitions of __consumer_offsets (0 to 1), expected 50" in result.stderr
    (broker / "__consumer_offsets-2").mkdir()
    result = run("export", ours, "--into", broker)
    assert result.exit_code == 2
    assert "3 partitions of __consumer_offsets (0 to 2), expected 2 (0 to 1)" in result.stderr


def test_a_partition_that_is_not_empty_is_never_overwritten(broker: Path, ours: Path) -> None:
    before = (broker / "__consumer_offsets-1" / FIRST).read_bytes()
    with pytest.raises(CannotCopy, match="expected an empty partition"):
        export_log(ours, broker)
    assert (broker / "__consumer_offsets-1" / FIRST).read_bytes() == before


def test_damage_stops_an_import_and_nothing_is_made(broker: Path, tmp_path: Path) -> None:
    segment = broker / "__consumer_offsets-1" / FIRST
    raw = bytearray(segment.read_bytes())
    raw[-1] ^= 0xFF
    segment.write_bytes(raw)
    result = bring(broker, tmp_path / "data")
    assert result.exit_code == 1
    assert f"{segment}, position" in result.stderr
    assert "nothing was changed" in result.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["broker"]


def test_damage_stops_an_export_and_the_broker_keeps_what_it_had(broker: Path, ours: Path) -> None:
    empty = broker / "__consumer_offsets-1" / FIRST
    empty.write_bytes(b"")
    segment = ours / "__consumer_offsets-1" / FIRST
    segment.write_bytes(segment.read_bytes()[:-1])
    before = sorted(each.relative_to(broker) for each in broker.rglob("*"))
    with pytest.raises(CorruptLog):
        export_log(ours, broker)
    assert sorted(each.relative_to(broker) for each in broker.rglob("*")) == before
    assert empty.read_bytes() == b""


def test_an_export_replaces_what_an_empty_partition_had(broker: Path, ours: Path) -> None:
    target = broker / "__consumer_offsets-1"
    (target / FIRST).write_bytes(b"")
    (target / "00000000000000000000.index").write_bytes(bytes(8))
    (target / "00000000000000000009.log.exporting").write_bytes(b"of an earlier try")
    (broker / ".kafka_cleanshutdown").touch()
    export_log(ours, broker)
    raw = (ours / "__consumer_offsets-1" / FIRST).read_bytes()
    assert (target / FIRST).read_bytes() == raw
    assert sorted(each.name for each in target.iterdir()) == [
        FIRST,
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert TOPIC_ID in (target / "partition.metadata").read_text()
    assert not (broker / ".kafka_cleanshutdown").exists()


def test_what_a_crash_has_left_must_be_cleared_up_first(
    broker: Path, ours: Path, tmp_path: Path
) -> None:
    (ours / ".coordinator-journal-0").touch()
    result = run("export", ours, "--into", tmp_path / "data")
    assert f"coordinator-server log checkpoint --data {ours}" in result.stderr
    (broker / "__consumer_offsets-0" / (FIRST + ".swap")).touch()
    result = bring(broker, tmp_path / "data")
    assert "left of a compaction that did not end" in result.stderr


def test_partitions_of_two_topics_are_refused(broker: Path, tmp_path: Path) -> None:
    (broker / "__consumer_offsets-0" / "partition.metadata").write_text("topic_id: other")
    with pytest.raises(CannotCopy, match="expected one topic"):
        import_log([broker], tmp_path / "data", partitions=2, node_id=1)


def test_the_partitions_of_several_log_directories_come_together(
    broker: Path, tmp_path: Path
) -> None:
    second = tmp_path / "disk2"
    second.mkdir()
    (broker / "__consumer_offsets-1").rename(second / "__consumer_offsets-1")
    copied = import_log([broker, second], tmp_path / "data", partitions=2, node_id=1)
    assert (copied.partitions, copied.records) == (2, 3)


def test_a_bar_shows_on_a_terminal_how_far_a_check_is(ours: Path) -> None:
    ours_end, theirs = pty.openpty()
    command = [sys.executable, "-m", "coordinator_server", "log", "verify", "--data", str(ours)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=theirs, cwd=ROOT, check=True, timeout=60
    )
    os.close(theirs)
    shown = os.read(ours_end, 65_536)
    os.close(ours_end)
    assert b"1 records in 2 segments are sound" in done.stdout
    assert b"verifying" in shown
    assert b"%" in shown


def test_an_export_to_nowhere_makes_a_directory_of_the_same_form(
    ours: Path, tmp_path: Path
) -> None:
    result = run("export", ours, "--into", tmp_path / "data")
    assert result.exit_code == 0, result.output
    assert "1 records in 2 partitions" in result.stdout
    assert run("verify", "--data", tmp_path / "data").exit_code == 0
    assert (tmp_path / "data" / "meta.properties").exists()
