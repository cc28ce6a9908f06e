"""The embedded log on a real directory: what it writes, what it finds, and what it refuses."""

import json
import struct
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from coordinator_protocol.batch import batches, build_batch, read_header
from coordinator_protocol.batch_records import read_records
from coordinator_server.storage.base import CorruptLog, LogRecord
from coordinator_server.storage.segments.log import SegmentLog
from tests.support.records import numbers, record

GOLDEN = Path(__file__).parents[1] / "golden" / "records.json"
FIRST = "00000000000000000000.log"


def golden_batches() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))["batches"]
    return found


def found_in(log: SegmentLog) -> list[LogRecord]:
    return [each for header, chunk, at in log.batches() for each in read_records(header, chunk, at)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "__consumer_offsets-0"


def filled(directory: Path, count: int, size: int = 0, segment_bytes: int = 1 << 30) -> SegmentLog:
    """A log of `count` batches of a record each."""
    log = SegmentLog(directory, segment_bytes=segment_bytes)
    for number in range(count):
        log.append(build_batch([record(number, size)]))
    log.sync()
    return log


def flip(path: Path, at: int, mask: int = 0x10) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= mask
    path.write_bytes(raw)


def start_of(path: Path, number: int) -> int:
    """Where the batch of that number begins."""
    return [at for at, _ in batches(path.read_bytes())][number]


# --- what is written ---


def test_segments_have_kafkas_names_and_are_never_longer_than_allowed(directory: Path) -> None:
    filled(directory, 30, size=100, segment_bytes=1_000).close()
    segments = sorted(directory.glob("*.log"))
    assert len(segments) > 3
    expected = 0
    for segment in segments:
        raw = segment.read_bytes()
        assert segment.name == f"{expected:020d}.log"
        assert len(raw) <= 1_000
        for _, header in batches(raw):
            assert header.base_offset == expected
            expected += 1
    assert expected == 30


def test_a_batch_larger_than_a_segment_has_one_of_its_own(directory: Path) -> None:
    log = SegmentLog(directory, segment_bytes=1_000)
    for number, size in enumerate((10, 5_000, 10)):
        log.append(build_batch([record(number, size)]))
    log.write_out()
    assert len(list(directory.glob("*.log"))) == 3
    assert numbers(found_in(log)) == [0, 1, 2]


def test_a_batch_of_a_client_gets_the_offsets_that_come_next(directory: Path) -> None:
    log = filled(directory, 2)
    assert log.append(build_batch([record(2), record(3), record(4)], base_offset=77)) == 2
    assert log.end_offset == 5
    assert [each.offset for each in found_in(log)] == [0, 1, 2, 3, 4]


def test_a_batch_built_where_the_log_ends_is_written_as_one_that_is_stamped(tmp_path: Path) -> None:
    stamped, built = (SegmentLog(tmp_path / name, segment_bytes=1_000) for name in ("a-0", "b-0"))
    for number in range(30):
        records = [record(number, size=100)] * (1 + number % 3)
        stamped.append(build_batch(records))
        batch = build_batch(records, base_offset=built.end_offset)
        built.append_built(batch, len(records) - 1, records[-1].timestamp)
        assert (built.end_offset, built.size) == (stamped.end_offset, stamped.size)
    for log in (stamped, built):
        log.write_out()
    files = [
        {path.name: path.read_bytes() for path in log.directory.iterdir()}
        for log in (stamped, built)
    ]
    assert files[0] == files[1]
    assert len(files[0]) > 3


def test_only_a_sync_makes_an_append_durable(directory: Path) -> None:
    log = filled(directory, 2)
    log.append(build_batch([record(2)]))
    assert (log.durable_offset, log.end_offset) == (2, 3)
    log.sync()
    assert log.durable_offset == 3


def test_closing_syncs_what_is_left(directory: Path) -> None:
    log = filled(directory, 1)
    log.append(build_batch([record(1)]))
    log.close()
    assert log.durable_offset == 2
    with pytest.raises(OSError, match="closed"):
        log.append(build_batch([record(2)]))


# --- what is read ---


def test_a_read_begins_with_the_batch_that_has_the_offset(directory: Path) -> None:
    log = SegmentLog(directory)
    for first in range(0, 30, 3):
        log.append(build_batch([record(first), record(first + 1), record(first + 2)]))
    for offset in range(30):
        header = read_header(log.read(offset, 1, 30))
        assert header.base_offset == offset - offset % 3
    assert log.read(30, 1_000, 30) == b""


def test_a_read_gives_whole_batches_within_its_limit_and_one_at_least(directory: Path) -> None:
    log = filled(directory, 10, size=100)
    size = read_header(log.read(0, 1, 10)).size
    assert len(log.read(0, 0, 10)) == size
    assert len(log.read(0, 3 * size + 5, 10)) == 3 * size
    assert len(log.read(4, 100 * size, 10)) == 6 * size


def test_a_read_never_reaches_beyond_what_may_be_seen(directory: Path) -> None:
    log = filled(directory, 10)
    visible = [header.base_offset for _, header in batches(log.read(0, 1 << 20, 7))]
    assert visible == list(range(7))
    assert log.read(7, 1 << 20, 7) == b""


def test_every_offset_is_found_in_logs_of_many_segments(directory: Path) -> None:
    filled(directory, 200, size=150, segment_bytes=9_000).close()
    log = SegmentLog(directory, segment_bytes=9_000)
    for offset in range(0, 200, 7):
        assert read_header(log.read(offset, 1, 200)).base_offset == offset


# --- what others have written ---


def test_what_kafka_has_compressed_and_compacted_is_read(directory: Path) -> None:
    directory.mkdir()
    rows = [row for row in golden_batches() if row["base_offset"] in (7, 9, 100)]
    assert {row["compression"] for row in rows} == {0, 1, 2, 3, 4}
    for row in rows:
        for file in directory.iterdir():
            file.unlink()
        (directory / f"{row['base_offset']:020d}.log").write_bytes(b64decode(row["bytes"]))
        log = SegmentLog(directory)
        assert log.start_offset == row["base_offset"]
        assert log.end_offset == row["last_offset"] + 1
        assert [each.offset for each in found_in(log)] == [r["offset"] for r in row["records"]]
        log.close()


def test_indexes_of_kafka_do_not_outlive_what_they_index(directory: Path) -> None:
    filled(directory, 3).close()
    for suffix in ("index", "timeindex", "txnindex", "snapshot"):
        (directory / f"00000000000000000000.{suffix}").write_bytes(b"stale")
    SegmentLog(directory).close()
    names = {path.name for path in directory.iterdir()}
    assert names == {FIRST, "00000000000000000000.snapshot"}


def test_a_compaction_that_kafka_did_not_end_is_ended(directory: Path) -> None:
    filled(directory, 3).close()
    (directory / FIRST).rename(directory / f"{FIRST}.swap")
    (directory / f"{FIRST}.deleted").write_bytes(b"old")
    assert numbers(found_in(SegmentLog(directory))) == [0, 1, 2]
    assert [path.name for path in directory.iterdir()] == [FIRST]


def test_a_swap_file_that_is_not_whole_is_not_put_in_place(directory: Path) -> None:
    filled(directory, 3).close()
    (directory / f"{FIRST}.swap").write_bytes((directory / FIRST).read_bytes()[:-1])
    with pytest.raises(CorruptLog, match=r"\.log\.swap, position"):
        SegmentLog(directory)


def test_a_swap_file_of_a_split_that_was_not_ended_is_undone(directory: Path) -> None:
    filled(directory, 3).close()
    (directory / f"{FIRST}.cleaned").write_bytes(b"unfinished")
    (directory / "00000000000000000002.log.swap").write_bytes(b"not looked at")
    assert numbers(found_in(SegmentLog(directory))) == [0, 1, 2]
    assert [path.name for path in directory.iterdir()] == [FIRST]


def test_an_empty_segment_is_where_the_log_goes_on(directory: Path) -> None:
    filled(directory, 3).close()
    (directory / "00000000000000000003.log").touch()
    log = SegmentLog(directory)
    assert log.append(build_batch([record(3)])) == 3
    assert numbers(found_in(log)) == [0, 1, 2, 3]


def test_a_file_that_is_no_segment_is_named(directory: Path) -> None:
    filled(directory, 1).close()
    (directory / "notes.log").touch()
    with pytest.raises(CorruptLog, match=r"notes\.log"):
        SegmentLog(directory)


# --- damage ---


@pytest.mark.parametrize("cut", [1, 60, 61, 100])
def test_a_torn_tail_is_cut_and_the_rest_survives(directory: Path, cut: int) -> None:
    filled(directory, 3, size=100).close()
    path = directory / FIRST
    last = start_of(path, 2)
    path.write_bytes(path.read_bytes()[: last + cut])
    log = SegmentLog(directory)
    assert log.cut_bytes == cut
    assert path.stat().st_size == last
    assert log.append(build_batch([record(7)])) == 2
    assert numbers(found_in(log)) == [0, 1, 7]


def test_garbage_behind_the_last_batch_is_cut(directory: Path) -> None:
    filled(directory, 3).close()
    with (directory / FIRST).open("ab") as file:
        file.write(b"\xff" * 5_000)
    log = SegmentLog(directory)
    assert log.cut_bytes == 5_000
    assert numbers(found_in(log)) == [0, 1, 2]


@pytest.mark.parametrize("field", [8, 9, 11, 16, 17, 23, 60, 70, 100])
def test_a_changed_bit_in_the_middle_is_reported_and_nothing_is_cut(
    directory: Path, field: int
) -> None:
    filled(directory, 4, size=100).close()
    path = directory / FIRST
    damaged = start_of(path, 1)
    flip(path, damaged + field)
    before = path.read_bytes()
    with pytest.raises(CorruptLog, match=rf"{FIRST}, position {damaged}: "):
        SegmentLog(directory)
    assert path.read_bytes() == before


def test_damage_is_told_from_a_torn_tail_however_large_the_batch(directory: Path) -> None:
    log = filled(directory, 1)
    log.append(build_batch([LogRecord(b"k", bytes(range(1, 256)) * 12_000, 1)]))
    log.append(build_batch([record(2)]))
    log.close()
    flip(directory / FIRST, 1_000_000)
    with pytest.raises(CorruptLog, match="can be read"):
        SegmentLog(directory)


def test_a_batch_of_lower_offset_than_those_before_it_is_no_batch(directory: Path) -> None:
    filled(directory, 3).close()
    path = directory / FIRST
    raw = bytearray(path.read_bytes())
    struct.pack_into(">q", raw, start_of(path, 1), 0)
    path.write_bytes(raw)
    with pytest.raises(CorruptLog, match="offset 0, expected 1"):
        SegmentLog(directory)


def test_damage_in_a_full_segment_is_found_when_it_is_loaded(directory: Path) -> None:
    filled(directory, 30, size=100, segment_bytes=1_000).close()
    flip(directory / FIRST, 80)
    log = SegmentLog(directory)
    with pytest.raises(CorruptLog, match=f"{FIRST}, position 0"):
        found_in(log)


def test_sectors_that_never_reached_the_disk_are_a_torn_tail(directory: Path) -> None:
    filled(directory, 6, size=900).close()
    path = directory / FIRST
    raw = bytearray(path.read_bytes())
    fourth = start_of(path, 3)
    sector = fourth // 512 * 512 + 512
    raw[sector : sector + 512] = bytes(512)
    path.write_bytes(raw)
    log = SegmentLog(directory)
    assert log.cut_bytes == len(raw) - fourth
    assert numbers(found_in(log)) == [0, 1, 2]


# --- cutting ---


@pytest.mark.parametrize("offset", [0, 1, 13, 29, 30])
def test_a_cut_log_goes_on_where_it_was_cut(directory: Path, offset: int) -> None:
    log = filled(directory, 30, size=100, segment_bytes=1_000)
    log.truncate(offset)
    assert (log.end_offset, log.durable_offset) == (offset, offset)
    assert log.append(build_batch([record(99)])) == offset
    log.close()
    found = found_in(SegmentLog(directory, segment_bytes=1_000))
    assert numbers(found) == [*range(offset), 99]


def test_a_batch_that_straddles_the_cut_goes_as_a_whole(directory: Path) -> None:
    log = filled(directory, 2)
    log.append(build_batch([record(2), record(3), record(4)]))
    log.truncate(3)
    assert log.end_offset == 2


def test_a_probe_leaves_no_trace(directory: Path) -> None:
    log = filled(directory, 2)
    size = (directory / FIRST).stat().st_size
    log.probe(100_000)
    assert (directory / FIRST).stat().st_size == size
    assert log.append(build_batch([record(2)])) == 2
    assert numbers(found_in(log)) == [0, 1, 2]
