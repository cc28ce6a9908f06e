"""Whether a client's record batch may be appended: the checks of Kafka's `LogValidator`.

One batch of magic 2 per partition, as Produce v3 and later demand; it is appended as it came.
Compressed records are not unpacked: a small request could then cost seconds and gigabytes.
"""

from dataclasses import dataclass

from coordinator_protocol.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    check_crc,
    read_header,
)
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.compression import CODECS, ZSTD
from coordinator_protocol.errors import ErrorCode, Malformed
from coordinator_server.topics.errors import TopicError

MAGIC_AT = 16


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Limits of a batch, by the names and defaults of Kafka's topic configs."""

    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000


def validated(
    records: bytes | None, rules: BatchRules, now_ms: int, *, zstd_allowed: bool = True
) -> bytes:
    """The one batch in `records`, if it may be appended; `now_ms` is wall-clock time.

    Raises TopicError with the code Kafka answers.
    """
    batch = records or b""
    header = _only_batch(batch)
    _check_codec(header, zstd_allowed=zstd_allowed)
    if header.base_offset != 0:
        raise _invalid(f"The base offset of the record batch is {header.base_offset}, expected 0.")
    if header.size > rules.max_message_bytes:
        raise TopicError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {header.size} bytes, which exceeds the maximum configured "
            f"value of {rules.max_message_bytes}.",
        )
    try:
        check_crc(header, batch)
    except Malformed as fault:
        raise TopicError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt: {fault}.") from fault
    _check_attributes(header)
    _check_producer(header)
    latest = now_ms + rules.message_timestamp_after_max_ms
    _check_timestamp(header.max_timestamp, latest)
    if not header.compression:
        _check_records(header, batch, latest)
    return batch


def _only_batch(records: bytes) -> BatchHeader:
    if len(records) < HEADER_BYTES:
        raise _invalid("There is no record batch for the partition.")
    if records[MAGIC_AT] != MAGIC:
        raise _invalid(f"The magic of the record batch is {records[MAGIC_AT]}, expected {MAGIC}.")
    try:
        header = read_header(records)
    except Malformed as fault:
        raise _invalid(f"The header of the record batch makes no sense: {fault}.") from fault
    if header.size > len(records):
        raise _invalid("The record batch for the partition is incomplete.")
    if header.size < len(records):
        raise _invalid("There must be exactly one record batch per partition.")
    return header


def _check_codec(header: BatchHeader, *, zstd_allowed: bool) -> None:
    codec = header.compression
    if codec and codec not in CODECS:
        raise TopicError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {codec}"
        )
    if codec == ZSTD and not zstd_allowed:
        raise TopicError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "Produce requests before version 7 are not allowed to use ZStandard compression.",
        )


def _check_attributes(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("Clients are not allowed to write control records.")
    if header.attributes & LOG_APPEND_TIME:
        raise TopicError(
            ErrorCode.INVALID_TIMESTAMP,
            "Producer should not set timestamp type to LogAppendTime.",
        )
    if header.records <= 0 or header.last_offset_delta + 1 != header.records:
        raise _invalid(
            f"Inconsistent batch offset range [0, {header.last_offset_delta}] and count of "
            f"records {header.records}."
        )


def _check_producer(header: BatchHeader) -> None:
    """Refuse what needs a producer state that is not kept here."""
    if header.is_transactional:
        raise TopicError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactions are not supported yet."
        )
    if header.producer_id > NO_PRODUCER_ID:
        raise TopicError(
            ErrorCode.UNKNOWN_PRODUCER_ID,
            f"Producer id {header.producer_id} was not given out here: idempotent producers are "
            "not supported yet, set enable.idempotence=false.",
        )


def _check_records(header: BatchHeader, batch: bytes, latest: int) -> None:
    try:
        records = read_records(header, batch)
    except Malformed as fault:
        raise _invalid(f"The records of the batch make no sense: {fault}.") from fault
    for expected, record in enumerate(records):
        if record.offset != expected:
            raise _invalid(f"Record {expected} of the batch has the offset {record.offset}.")
        _check_timestamp(record.timestamp, latest)


def _check_timestamp(timestamp: int, latest: int) -> None:
    if timestamp > latest:
        raise TopicError(
            ErrorCode.INVALID_TIMESTAMP,
            f"Timestamp {timestamp} is out of range: it should be at most {latest}.",
        )


def _invalid(message: str) -> TopicError:
    return TopicError(ErrorCode.INVALID_RECORD, message)
