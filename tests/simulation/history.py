"""The first records of a log imported from Kafka: offsets of ended and open transactions."""

from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import OffsetCommitKey, encode_key, encode_value
from coordinator_server.storage.base import LogRecord
from tests.simulation.clients import ABANDONED_TOPIC

COMMITTED, ABORTED, OPEN = 7, 8, 9
"""Producer ids by the outcome of their transactions."""

_COMMIT, _ABORT = b"\0\0\0\1", b"\0\0\0\0"
_FIRST_OFFSET = 1_000_000
"""Larger than all offsets that the clients commit."""


def transactions_of(group: str, wall: int) -> list[LogRecord]:
    """Records of a pending transactional offset over a committed one, and of an aborted one."""
    return [
        _offset(group, 0, wall, COMMITTED),
        _offset(group, 0, wall, ABORTED),
        _marker(_ABORT, wall, ABORTED),
        _marker(_COMMIT, wall, COMMITTED),
        _offset(group, 0, wall, OPEN),
    ]


def _offset(group: str, partition: int, wall: int, producer: int) -> LogRecord:
    key = OffsetCommitKey(group, ABANDONED_TOPIC, partition)
    value = OffsetCommitValue(_FIRST_OFFSET + producer, -1, "", wall)
    return LogRecord(
        encode_key(key), encode_value(value), wall, producer_id=producer, transactional=True
    )


def _marker(key: bytes, wall: int, producer: int) -> LogRecord:
    return LogRecord(key, b"", wall, producer_id=producer, transactional=True, control=True)
