"""What transactions of a broker mean is the same after our compaction."""

from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinator_protocol.batch import build_batch
from coordinator_server.cli.main import app
from coordinator_server.storage.base import LogRecord
from coordinator_server.storage.segments.compact import compact
from coordinator_server.storage.segments.log import SegmentLog
from tests.interchange.conftest import CLASSIC, TRANSACTIONAL, Written
from tests.support.compacted_logs import NoPace
from tests.support.kafka_exchange import answers
from tests.support.server import ServerProcess

UNKNOWN = b"\0\x63 a type nobody knows"


def compacted_in_small_segments(directory: Path) -> int:
    """Spread a broker's only segment over many, and compact those; how many bytes that saved."""
    whole = SegmentLog(directory)
    batches = [chunk[at : at + header.size] for header, chunk, at in whole.batches()]
    before = whole.size
    whole.close()
    for path in directory.glob("*.log"):
        path.unlink()
    log = SegmentLog(directory, segment_bytes=1)
    for batch in batches:
        log.append(batch)
    log.append(build_batch([LogRecord(UNKNOWN, b"", 0)]))  # the active segment is not compacted
    log.segment_bytes = 1_000_000
    log.sync()  # what could still be cut is not compacted
    clock = count()
    for _ in range(2):
        compact(log, throttle=NoPace(), wall_ms=lambda: next(clock), delete_retention_ms=0)
    saved = before - log.closed_bytes
    log.close()
    return saved


@pytest.mark.slow
def test_a_brokers_log_gives_the_same_answers_after_our_compaction(
    kafkas: Written, tmp_path: Path
) -> None:
    data = tmp_path / "server" / "data"
    done = CliRunner().invoke(app, ["log", "import", str(kafkas.data), "--into", str(data)])
    assert done.exit_code == 0, done.output
    saved = [compacted_in_small_segments(each) for each in data.glob("__consumer_offsets-*")]
    assert len(saved) == 50
    assert sum(saved) > 0
    with ServerProcess(tmp_path / "server") as server:
        assert answers(server.bootstrap, [*CLASSIC, *TRANSACTIONAL]) == kafkas.answers
        assert not server.bugs(), server.bugs()[:5]
