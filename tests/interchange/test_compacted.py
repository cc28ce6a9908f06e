"""A real Kafka goes on with directories that our compaction has been through."""

import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.crash.rounds import SETTINGS
from tests.crash.workers import Committer, Member, Worker
from tests.support.kafka import Kafka, kafka_libs
from tests.support.server import ServerProcess
from tests.support.wire import RawConnection

REQUESTS = 300
COMPLAINTS = re.compile(r"ERROR|Corrupt|corrupt|Invalid")


def busy_server(directory: Path) -> ServerProcess:
    """Ours, with small segments, compacting whatever is dirty."""
    settings = {**SETTINGS, "offsets.topic.num.partitions": "50"}
    return ServerProcess(
        directory, settings, ["tests.crash.launcher", str(directory / "no-orders")]
    )


def described(connection: RawConnection, workers: list[Worker]) -> list[Any]:
    """DescribeGroups, without what a restart makes anew."""
    reply = connection.call("DescribeGroups", 0, groups=[worker.group for worker in workers])
    assert all(group["error_code"] == "NONE" for group in reply["groups"]), reply
    return sorted(
        (
            group["group_id"],
            group["group_state"],
            group["protocol_type"],
            group["protocol_data"],
            [(each["member_id"], each["member_assignment"]) for each in group["members"]],
        )
        for group in reply["groups"]
    )


def put_under(broker: Kafka, data: Path) -> None:
    """Give a stopped broker our segments, and nothing of what it knew about its own."""
    for mark in (".kafka_cleanshutdown", *(path.name for path in broker.data.glob("*-checkpoint"))):
        (broker.data / mark).unlink(missing_ok=True)
    shutil.copy(data / "cleaner-offset-checkpoint", broker.data)
    for ours in data.glob("__consumer_offsets-*"):
        theirs = broker.data / ours.name
        for old in theirs.iterdir():
            if old.name != "partition.metadata":
                old.unlink()
        for path in (*ours.glob("*.log"), ours / "leader-epoch-checkpoint"):
            shutil.copy(path, theirs)


@pytest.mark.slow
def test_a_broker_answers_the_same_from_a_directory_we_have_compacted(tmp_path: Path) -> None:
    kafka_libs()
    workers: list[Worker] = [
        *(Committer(f"committer-{number}", Random(number)) for number in range(4)),
        *(Member(f"member-{number}", Random(number)) for number in range(2)),
    ]
    with busy_server(tmp_path / "ours") as server:
        with RawConnection(server.bootstrap) as connection:
            for worker in workers:
                assert worker.problems(connection) == []
                for _ in range(REQUESTS):
                    worker.work(connection)
            members = described(connection, workers[4:])
        assert server.terminate() == 0
        compactions = server.log_text().count('"log_compacted"')
    assert compactions >= 6

    broker = Kafka(tmp_path / "kafka")
    try:
        broker.start()
        broker.stop()
        put_under(broker, tmp_path / "ours" / "data")
        before = len(broker.log)
        broker.start()
        with RawConnection(broker.bootstrap) as connection:
            problems = [found for worker in workers for found in worker.problems(connection)]
            assert problems == []
            assert described(connection, workers[4:]) == members
        wrong = [line for line in broker.log[before:].splitlines() if COMPLAINTS.search(line)]
        assert wrong == []
    finally:
        broker.stop()
