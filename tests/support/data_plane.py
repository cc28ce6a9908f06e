"""Topics on a real directory, and batches made and read by aiokafka rather than by our own code."""

import struct
from pathlib import Path

import crc32c
from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatchBuilder,
)
from aiokafka.record.memory_records import MemoryRecords  # type: ignore[import-untyped]

from coordinator_server.clock import ManualClock
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.flusher import Flusher
from coordinator_server.storage.segments.shares import WHOLE, Share
from coordinator_server.topics.catalog import TopicCatalog
from coordinator_server.topics.directories import PartitionDirectories
from coordinator_server.topics.service import FETCH_MAX_BYTES, FetchWant, Topics
from coordinator_server.topics.validation import BatchRules
from tests.support.fake_services import NOW, CountedIds

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
OFFSETS_PARTITIONS = 3
CRC_AT, ATTRIBUTES_AT, COUNT_AT = 17, 21, 57


def make_topics(
    data: Path,
    *,
    max_message_bytes: int = 1_048_588,
    fetch_max_bytes: int = FETCH_MAX_BYTES,
    auto_create_max: int = 1_000,
    files: Files = SYSTEM_FILES,
    flusher: Flusher | None = None,
    share: Share = WHOLE,
) -> Topics:
    """Topics over a data directory; make them again for what a restart sees."""
    return Topics(
        TopicCatalog(data, CountedIds(), offsets_partitions=OFFSETS_PARTITIONS),
        PartitionDirectories(data, files=files, share=share),
        flusher or Flusher(),
        ManualClock(NOW),
        BatchRules(max_message_bytes=max_message_bytes),
        fetch_max_bytes=fetch_max_bytes,
        auto_create_max=auto_create_max,
    )


def batch_of(
    *records: tuple[int, bytes],
    codec: str = "none",
    count: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """A batch of `(timestamp, value)` as a producer sends it; `count` is what it claims to hold."""
    builder = DefaultRecordBatchBuilder(
        2, CODECS[codec], transactional, producer_id, producer_epoch, base_sequence, 1 << 30
    )
    for offset, (timestamp, value) in enumerate(records):
        builder.append(offset, timestamp, None, value, [])
    batch = bytes(builder.build())
    return batch if count is None else patched(batch, COUNT_AT, struct.pack(">i", count))


def patched(batch: bytes, position: int, change: bytes) -> bytes:
    """The batch with other bytes at a position behind the checksum, which is made right again."""
    body = batch[:position] + change + batch[position + len(change) :]
    checksum = struct.pack(">I", crc32c.crc32c(body[ATTRIBUTES_AT:]))
    return body[:CRC_AT] + checksum + body[ATTRIBUTES_AT:]


def with_attributes(batch: bytes, attributes: int) -> bytes:
    """The batch with other attribute bits."""
    return patched(batch, ATTRIBUTES_AT, struct.pack(">h", attributes))


def values_of(records: bytes | None) -> list[tuple[int, bytes]]:
    """Offset and value of every record."""
    found: list[tuple[int, bytes]] = []
    batches = MemoryRecords(records or b"")
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        found += [(record.offset, record.value or b"") for record in batch]
    return found


async def produced(topics: Topics, name: str, index: int, *records: tuple[int, bytes]) -> int:
    """Append one batch and wait until it is durable; its base offset."""
    topic = topics.catalog.topics()[name]
    appended = await topics.produce(topic, index, batch_of(*records))
    await appended.durable
    return appended.base_offset


async def records_in(topics: Topics, name: str, index: int) -> list[tuple[int, bytes]]:
    """Offset and value of every readable record of a partition."""
    want = FetchWant(topics.catalog.topics()[name], index, 0, 1 << 30)
    (part,) = await topics.fetch([want], max_wait_ms=0, min_bytes=0, max_bytes=1 << 30)
    return values_of(part.records)
