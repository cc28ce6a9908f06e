"""Data directories as servers leave them: groups and offsets in the partitions they belong to."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Final

from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.java import partition_for
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    encode_key,
    encode_value,
)
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.storage import TOPIC

PARTITIONS: Final = 50
RECORDS_PER_BATCH: Final = 100
SUBSCRIPTION: Final = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
SESSION_MS: Final = 1_800_000


def names_in(partition: int) -> Iterator[str]:
    """Ids of groups that belong to a partition of the log."""
    return (
        name
        for name in (f"stored-{number}" for number in count())
        if partition_for(name, PARTITIONS) == partition
    )


def commits(group: str, number: int, wall: int, topic: str = "orders") -> Iterator[LogRecord]:
    """Commits of as many partitions of a topic, each of its own number."""
    for each in range(number):
        key = OffsetCommitKey(group, topic, each)
        yield LogRecord(encode_key(key), encode_value(OffsetCommitValue(each, 5, "", wall)), wall)


def group(group_id: str, members: int, wall: int) -> LogRecord:
    """A Stable group in generation 1."""
    ids = [member_id(number) for number in range(members)]
    value = GroupMetadataValue(
        "consumer",
        1,
        "range",
        ids[0],
        wall,
        [
            MemberMetadata(
                each, None, "stored", "/127.0.0.1", 300_000, SESSION_MS, SUBSCRIPTION, b"assigned"
            )
            for each in ids
        ],
    )
    return LogRecord(encode_key(GroupMetadataKey(group_id)), encode_value(value), wall)


def member_id(number: int) -> str:
    """As long as they are."""
    return f"consumer-1-7d9b5b1c-3a64-4a4e-9c0e-{number:012}"


def spread(groups: Iterable[tuple[str, Iterable[LogRecord]]]) -> dict[int, list[LogRecord]]:
    """Groups' records by the partition of the log they belong to."""
    by_partition: dict[int, list[LogRecord]] = defaultdict(list)
    for group_id, records in groups:
        by_partition[partition_for(group_id, PARTITIONS)] += records
    return by_partition


def write(data: Path, partition: int, records: Iterable[LogRecord]) -> Path:
    """Make the log of a partition; where its one file is."""
    log = SegmentLog(data / f"{TOPIC}-{partition}")
    coming = iter(records)
    while batch := list(islice(coming, RECORDS_PER_BATCH)):
        log.append(build_batch(batch))
    log.close()
    return log.directory / f"{0:020}.log"
