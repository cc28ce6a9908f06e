"""Records to append, as tests have them."""

import asyncio  # noqa: TC003 - named in an annotation
from collections.abc import Sequence

from coordinator_protocol.batch_builder import NewBatch
from coordinator_protocol.record_headers import packed_headers
from coordinator_server.storage.base import LogRecord, PartitionLog, append


def batch_of(records: Sequence[LogRecord]) -> NewBatch:
    """A batch of records, which have the time of the first."""
    batch = NewBatch(records[0].timestamp if records else 0)
    for record in records:
        assert record.key is not None
        batch.add(record.key, record.value, packed_headers(record.headers))
    return batch


def appended(log: PartitionLog, records: Sequence[LogRecord]) -> "asyncio.Future[int]":
    """The offset of the last record, when all are durable."""
    return append(log, batch_of(records))
