"""One broker's directory and one of ours, each written once and read by all tests here."""

import fcntl
import os
import pickle
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.kafka import Kafka, kafka, kafka_libs
from tests.support.kafka_exchange import (
    answers,
    commit,
    join_alone,
    join_by_the_new_protocol,
    refusals,
    transaction,
)
from tests.support.server import ServerProcess
from tests.support.wire import create_topic

PLAIN = [f"plain-{number}" for number in range(8)]
LZ4 = "3"
"""Of `offsets.topic.compression.codec`."""
CLASSIC = [*PLAIN, "packed", "members"]
TRANSACTIONAL = ["committed", "aborted", "pending"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here: a broker takes seconds to start, on a busy machine many."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(400))


@dataclass
class Written:
    """A log directory whose server has stopped, and what that has answered."""

    data: Path
    answers: dict[str, Any]
    refusals: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="session")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """What a broker wrote: plain, compressed and transactional commits, a group with a member.

    All processes of a test run share it: starting brokers is what takes the time here.
    """
    kafka_libs()
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    done = root / "theirs.pickle"
    with (root / "theirs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            done.write_bytes(pickle.dumps(written_by_kafka(root / "theirs")))
        written: Written = pickle.loads(done.read_bytes())
    return written


def written_by_kafka(directory: Path) -> Written:
    with kafka(directory, {"offsets.topic.compression.codec": LZ4}) as broker:
        create_topic(broker.bootstrap, "orders", 2)
        commit(broker.bootstrap, "packed", 7)
        broker.stop()
        broker.start({"offsets.topic.compression.codec": "0"})
        for number, group in enumerate(PLAIN):
            commit(broker.bootstrap, group, number)
            commit(broker.bootstrap, group, 100 + number, metadata="")
        join_alone(broker.bootstrap, "members")
        commit_in_transactions(broker.bootstrap)
        join_by_the_new_protocol(broker.bootstrap, "modern")
        return Written(broker.data, answers(broker.bootstrap, [*CLASSIC, *TRANSACTIONAL]))


def commit_in_transactions(bootstrap: str) -> None:
    """One that is committed, one that is aborted, one that is left open."""
    commit(bootstrap, "aborted", 40)
    with transaction(bootstrap, "first", "committed", 41) as producer:
        producer.commit_transaction()
    with transaction(bootstrap, "second", "aborted", 42) as producer:
        producer.abort_transaction()
    commit(bootstrap, "pending", 43)
    with transaction(bootstrap, "third", "pending", 44):
        pass


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """What our server wrote: commits over and over, a deletion, a group with a member."""
    with ServerProcess(tmp_path_factory.mktemp("ours")) as server:
        create_topic(server.bootstrap, "orders", 2)
        for number, group in enumerate(PLAIN):
            commit(server.bootstrap, group, number)
            commit(server.bootstrap, group, 100 + number, metadata="")
        join_alone(server.bootstrap, "members")
        written = Written(
            server.directory / "data",
            answers(server.bootstrap, [*PLAIN, "members"]),
            refusals(server.bootstrap),
        )
        assert server.terminate() == 0
        assert not server.bugs(), server.bugs()[:5]
    return written


@pytest.fixture
def empty_broker(tmp_path: Path) -> Kafka:
    """A stopped broker whose `__consumer_offsets` has fifty partitions and no records."""
    deadline = time.monotonic() + 60
    with kafka(tmp_path / "broker") as broker:
        create_topic(broker.bootstrap, "orders", 2)
        # It makes the topic when it is first asked for a coordinator.
        while len(list(broker.data.glob("__consumer_offsets-*/partition.metadata"))) < 50:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return broker
