"""What a load makes of a log, whatever is in it."""

import struct
from typing import TYPE_CHECKING

import pytest

from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    RecordKey,
    RecordValue,
    encode_key,
    encode_value,
)
from coordinator_server.runtime.loader import Loader
from coordinator_server.storage.base import CorruptLog, LogRecord
from coordinator_server.storage.memory import MemoryStorage
from tests.support.group_harness import GroupHarness
from tests.unit.runtime.conftest import Office, close, settle

if TYPE_CHECKING:
    from coordinator_server.group.group import Group

WALL = 1_700_000_000_000


def record(key: RecordKey, value: RecordValue | None, producer_id: int = -1) -> LogRecord:
    raw = None if value is None else encode_value(value)
    return LogRecord(
        encode_key(key), raw, WALL, producer_id=producer_id, transactional=producer_id >= 0
    )


def committed(number: int, producer_id: int = -1, group: str = "group") -> LogRecord:
    key = OffsetCommitKey(group, "orders", 0)
    return record(key, OffsetCommitValue(number, -1, "", WALL), producer_id)


def marker(producer_id: int, *, commit: bool) -> LogRecord:
    return LogRecord(
        struct.pack(">hh", 0, commit),
        b"\0\0\0\0\0\0",
        WALL,
        producer_id=producer_id,
        transactional=True,
        control=True,
    )


async def load(*records: LogRecord) -> Loader:
    """Load a log of these."""
    storage = MemoryStorage(partitions=1)
    storage.store(0, records)
    loader = Loader()
    await loader.load(await storage.claim(0))
    return loader


def offset_of(loader: Loader, group: str = "group") -> int:
    """The committed offset of the only partition; -2 if there is none."""
    found: Group | None = loader.groups.get(group)
    value = None if found is None else found.offsets.get("orders", 0)
    return -2 if value is None else value.offset


async def test_an_empty_log_has_no_groups() -> None:
    loader = await load()
    assert (loader.groups, loader.records) == ({}, 0)


async def test_more_records_than_come_at_once_are_all_read() -> None:
    loader = await load(*(committed(i) for i in range(2_500)))
    assert (loader.records, offset_of(loader)) == (2_500, 2_499)


async def test_records_of_unknown_types_are_skipped_and_counted() -> None:
    loader = await load(
        LogRecord(b"\x7f\xfewhat", b"ever", WALL),
        committed(1),
        LogRecord(None, b"no key", WALL),
        LogRecord(b"\0\3\0\1g", b"\0\0\0\0\0\1", WALL),
    )
    assert (loader.unknown_records, offset_of(loader)) == (3, 1)


async def test_groups_that_were_deleted_are_not_remembered() -> None:
    value = GroupMetadataValue("", 0, None, None, WALL, [])
    loader = await load(
        record(GroupMetadataKey("group"), value),
        committed(1),
        record(OffsetCommitKey("group", "orders", 0), None),
        record(GroupMetadataKey("group"), None),
        record(GroupMetadataKey("never there"), None),
    )
    assert loader.groups == {}


@pytest.mark.parametrize(("commit", "offset"), [(True, 2), (False, 1)])
async def test_a_transaction_counts_with_its_marker(commit: bool, offset: int) -> None:
    loader = await load(committed(1), committed(2, 7), marker(7, commit=commit))
    assert offset_of(loader) == offset


async def test_an_open_transaction_stays_pending() -> None:
    loader = await load(committed(1), committed(2, 7))
    assert offset_of(loader) == 1
    assert loader.groups["group"].offsets.is_pending("orders", 0)


async def test_a_marker_ends_a_producers_transaction_in_all_its_groups() -> None:
    loader = await load(
        committed(1, 7, "a"), committed(2, 7, "b"), committed(3, 8, "b"), marker(7, commit=True)
    )
    assert (offset_of(loader, "a"), offset_of(loader, "b")) == (1, 2)
    assert list(loader.groups["b"].offsets.pending) == [8]


async def test_a_plain_commit_after_a_transactions_wins_over_it() -> None:
    loader = await load(committed(2, 7), committed(9), marker(7, commit=True))
    assert offset_of(loader) == 9


async def test_a_second_transaction_of_a_producer_is_its_own() -> None:
    loader = await load(
        committed(2, 7), marker(7, commit=False), committed(3, 7), marker(7, commit=True)
    )
    assert offset_of(loader) == 3


async def test_a_marker_of_nobody_is_nothing() -> None:
    loader = await load(marker(7, commit=True))
    assert loader.groups == {}


@pytest.mark.parametrize(
    "bad",
    [
        LogRecord(b"\0\1\0\5gr", b"", WALL),
        LogRecord(encode_key(GroupMetadataKey("g")), b"\0\x63", WALL),
        LogRecord(encode_key(OffsetCommitKey("g", "t", 0)), b"\0\4\0", WALL),
        LogRecord(b"\0\0\0\5", b"", WALL, producer_id=7, transactional=True, control=True),
        LogRecord(None, b"", WALL, producer_id=7, transactional=True, control=True),
    ],
)
async def test_a_record_that_makes_no_sense_is_named_by_its_offset(bad: LogRecord) -> None:
    with pytest.raises(CorruptLog, match="partition 0: the record at offset 1: "):
        await load(committed(1), bad)


async def test_a_load_is_reported() -> None:
    office = Office()
    office.storage.store(0, [committed(1), LogRecord(b"\x7f\xfe", b"", WALL)])
    await office.open()
    ((event, fields),) = office.reports
    assert event == "partition_loaded"
    assert {name: fields[name] for name in ("records", "groups", "unknown_records")} == {
        "records": 2,
        "groups": 1,
        "unknown_records": 1,
    }
    await close(office)


async def test_loaded_members_have_a_full_session() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    office = Office()
    office.storage.store(0, [LogRecord(key, value, WALL) for key, value in story.log])
    await office.open()
    await settle()
    assert office.timers.armed == [office.clock.monotonic_ms() + a.session]
    await close(office)
