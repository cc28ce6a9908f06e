"""What we write of rebalances is there after a restart, and Kafka's tools read past it."""

import json
import time
from pathlib import Path
from random import Random
from typing import Any

from coordinator_protocol.java import partition_for
from tests.crash.workers import PARTITIONS, TOPIC, Member
from tests.support.kafka import kafka_tool
from tests.support.server import ServerProcess
from tests.support.wire import RawConnection, create_topic

GROUP = "member-0"


def rebalances(server: ServerProcess) -> Any:
    """The timeline of the group, by the HTTP API, which opens just after the Kafka listener."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return json.loads(server.get(f"/api/groups/{GROUP}/timeline"))["rebalances"]
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def test_kafka_dump_log_reads_past_our_history_and_shows_our_headers(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as server:
        create_topic(server.bootstrap, TOPIC, PARTITIONS)
        with RawConnection(server.bootstrap) as connection:
            worker = Member(GROUP, Random(1))
            assert worker.problems(connection) == []
            for _ in range(20):
                worker.work(connection)
        told = rebalances(server)
        assert {"sequence", "ended_ms", "culprit", "waited_for"} <= told[-1].keys()
        assert server.terminate() == 0
        server.start()
        assert [each["sequence"] for each in rebalances(server)] == [
            each["sequence"] for each in told
        ]
        assert server.terminate() == 0
    partition = partition_for(worker.group, 50)
    log = tmp_path / "data" / f"__consumer_offsets-{partition}" / "00000000000000000000.log"
    said = kafka_tool(
        "kafka.tools.DumpLogSegments",
        *("--files", log, "--offsets-decoder", "--print-data-log"),
    ).stdout
    assert "rb.reason" in said
    assert '"type":"2"' in said.replace(" ", "")
    assert "Found invalid" not in said
