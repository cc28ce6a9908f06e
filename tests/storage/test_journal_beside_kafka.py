"""A broker that takes over a directory in which a journal lies passes it over."""

from pathlib import Path

import pytest

from coordinator_protocol.batch import build_batch
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_names import FILE_PREFIX
from coordinator_server.storage.segments.log import SegmentLog
from tests.support.kafka import Kafka
from tests.support.records import record


@pytest.mark.slow
def test_a_real_kafka_starts_on_a_directory_with_a_journal(tmp_path: Path) -> None:
    broker = Kafka(tmp_path / "broker")
    broker.start()
    broker.stop()
    other = tmp_path / "other"
    other.mkdir()
    journal = Journal(other)
    log = SegmentLog(other / "orders-0", journal=journal)
    log.append(build_batch([record(0)]))
    journal.write(log.take_entries(), [log])
    (file,) = other.glob(f"{FILE_PREFIX}*")
    content = file.read_bytes()
    (broker.data / file.name).write_bytes(content)
    broker.start()
    try:
        assert (broker.data / file.name).read_bytes() == content
        assert file.name not in broker.log
    finally:
        broker.stop()
