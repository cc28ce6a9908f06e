"""Data directories of real servers, and what those had acknowledged when they ended."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from coordinator_protocol.batch import LogRecord, build_batch
from tests.support.server import ServerProcess
from tests.support.wire import RawConnection

OFFSETS_PARTITIONS: Final = 4
TOPICS: Final = {"orders": 3, "payments": 2}
GROUPS: Final = tuple(f"group-{number}" for number in range(12))
BASE_SETTINGS: Final = {
    "topics": ",".join(f"{name}:{count}" for name, count in TOPICS.items()),
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.segment.bytes": "4000",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.3",
}
CLEANING: Final = {"log.journal.bytes": "24576"}
"""Small enough for several files, checkpoints and rolls."""


@dataclass(frozen=True)
class Template:
    """How a data directory came to be."""

    name: str
    is_killed: bool
    rounds: int
    """Rounds of commits in the last life."""
    lives: int = 2
    settings: dict[str, str] = field(default_factory=dict)


TEMPLATES: Final = (
    Template("stopped", is_killed=False, rounds=60),
    Template("stopped-os", is_killed=False, rounds=40, settings={"log.flush": "os"}),
    Template("killed", is_killed=True, rounds=60, settings=CLEANING),
    Template("killed-first", is_killed=True, rounds=25, lives=1),
    Template("killed-briefly", is_killed=True, rounds=2, lives=3),
    Template("killed-os", is_killed=True, rounds=30, settings={"log.flush": "os"}),
    Template(
        "killed-interval",
        is_killed=True,
        rounds=30,
        settings={"log.flush": "interval", **CLEANING},
    ),
)

Place = tuple[str, str, int]
"""Group, topic and partition."""


@dataclass
class Acknowledged:
    """What a server has told its clients to be done."""

    offsets: dict[Place, tuple[int, str]] = field(default_factory=dict)
    deleted: set[Place] = field(default_factory=set)
    records: dict[tuple[str, int], int] = field(default_factory=dict)
    """How many records each topic partition has."""


@dataclass(frozen=True)
class Made:
    """A data directory that is copied for each round."""

    template: Template
    path: Path
    acknowledged: Acknowledged

    def settings(self) -> dict[str, str]:
        """Those a server is started with on it."""
        return {**BASE_SETTINGS, **self.template.settings}


def make(template: Template, directory: Path, seed: int) -> Made:
    """Run a server, use it and end it, as often as the template says."""
    random = Random(f"{template.name} {seed}")
    acknowledged = Acknowledged()
    made = Made(template, directory / "data", acknowledged)
    server = ServerProcess(directory, {**made.settings(), "http.listener": ""})
    try:
        for life in range(template.lives):
            is_last = life == template.lives - 1
            server.start()
            with RawConnection(server.bootstrap) as connection:
                _await_loaded(connection)
                for number in range(template.rounds if is_last else 30):
                    _work(connection, acknowledged, random, 1_000 * life + number)
                if is_last and template.is_killed:
                    server.kill()
                    break
            if server.terminate() != 0:
                raise RuntimeError(f"the server did not stop in order\n{server.log_tail()}")
    finally:
        server.close()
    return made


def _await_loaded(connection: RawConnection) -> None:
    for group in GROUPS:
        wanted = [{"name": "orders", "partition_indexes": [0]}]
        for _ in range(1_000):
            reply = connection.call("OffsetFetch", 5, group_id=group, topics=wanted)
            if reply["error_code"] == "NONE":
                break
            time.sleep(0.01)


def _work(
    connection: RawConnection, acknowledged: Acknowledged, random: Random, number: int
) -> None:
    for group in random.sample(GROUPS, 4):
        _commit(connection, acknowledged, random, group, number)
    if random.random() < 0.3:
        _produce(connection, acknowledged, random)
    if random.random() < 0.1 and acknowledged.offsets:
        _delete(connection, acknowledged, random.choice(sorted(acknowledged.offsets)))


def _commit(
    connection: RawConnection, acknowledged: Acknowledged, random: Random, group: str, number: int
) -> None:
    topic = random.choice(list(TOPICS))
    changes = {
        partition: (number * 10 + partition, "m" * random.randint(0, 80))
        for partition in random.sample(range(TOPICS[topic]), random.randint(1, TOPICS[topic]))
    }
    places = [
        {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
        for partition, (offset, metadata) in changes.items()
    ]
    reply = connection.call(
        "OffsetCommit",
        7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": places}],
    )
    _check({answer["error_code"] for each in reply["topics"] for answer in each["partitions"]})
    for partition, commit in changes.items():
        acknowledged.offsets[group, topic, partition] = commit
        acknowledged.deleted.discard((group, topic, partition))


def _delete(connection: RawConnection, acknowledged: Acknowledged, place: Place) -> None:
    group, topic, partition = place
    wanted = [{"name": topic, "partitions": [{"partition_index": partition}]}]
    reply = connection.call("OffsetDelete", 0, group_id=group, topics=wanted)
    _check({reply["error_code"]})
    del acknowledged.offsets[place]
    acknowledged.deleted.add(place)


def _produce(connection: RawConnection, acknowledged: Acknowledged, random: Random) -> None:
    topic = random.choice(list(TOPICS))
    partition = random.randrange(TOPICS[topic])
    batch = build_batch([LogRecord(b"key", random.randbytes(40), 1)])
    data = [{"index": partition, "records": batch}]
    reply = connection.call(
        "Produce", 7, acks=-1, timeout=5_000, topic_data=[{"name": topic, "partition_data": data}]
    )
    answers = [each for answer in reply["responses"] for each in answer["partition_responses"]]
    _check({answer["error_code"] for answer in answers})
    place = topic, partition
    acknowledged.records[place] = acknowledged.records.get(place, 0) + 1


def _check(codes: set[str]) -> None:
    if codes - {"NONE"}:
        raise RuntimeError(f"the server answered {codes}")


@contextmanager
def copied(made: Made, to: Path) -> Iterator[Path]:
    """A copy of a data directory, for as long as it lasts."""
    to.parent.mkdir(exist_ok=True)
    shutil.copytree(made.path, to)
    try:
        yield to
    finally:
        shutil.rmtree(to)
