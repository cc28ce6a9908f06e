"""Records for storages, and what a storage holds."""

from coordinator_protocol.offset_commit_scanner import OffsetRun
from coordinator_server.storage.base import LogRecord, PartitionLog


def record(number: int, size: int = 0) -> LogRecord:
    """A record that can be told from others; its value has at least `size` bytes."""
    return LogRecord(b"key-%d" % number, b"%d:" % number + b"x" * size, 1_760_000_000_000 + number)


async def loaded(log: PartitionLog) -> list[LogRecord]:
    """Everything a tenure finds in its log, which has no commits."""
    found: list[LogRecord] = []
    async for records in log.load():
        assert not isinstance(records, OffsetRun)
        found += records
    return found


def numbers(records: list[LogRecord]) -> list[int]:
    """Which records of `record` these are."""
    return [int((found.value or b"").split(b":")[0]) for found in records]
