"""`coordinator-server groups` over the Kafka protocol, against a server with real members."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml
from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from click.testing import CliRunner

from coordinator_server.cli.main import app
from coordinator_server.testing.server import TestCoordinator

pytestmark = pytest.mark.clients

TOPIC = "orders"
RECORDS = 10


def invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["groups", *arguments])
    return result.exit_code, result.stdout, result.stderr


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(coordinator: TestCoordinator) -> Run:
    """Runs a command on groups against the test's server."""
    return lambda *arguments: invoke(*arguments, "--bootstrap-server", coordinator.bootstrap)


async def write(bootstrap: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for partition in (0, 1):
            for _ in range(RECORDS):
                await producer.send_and_wait(TOPIC, b"x", partition=partition)


@asynccontextmanager
async def consuming(bootstrap: str, group: str) -> AsyncIterator[AIOKafkaConsumer]:
    async with AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id="reader",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
    ) as consumer:
        await consumer.commit({TopicPartition(TOPIC, 0): 4, TopicPartition(TOPIC, 1): 7})
        yield consumer


@pytest.fixture
def left_group(coordinator: TestCoordinator) -> str:
    """A group without members that has read a part of two partitions of ten records each."""

    async def read() -> None:
        await write(coordinator.bootstrap)
        async with consuming(coordinator.bootstrap, "billing"):
            pass

    coordinator.create_topic(TOPIC, partitions=2)
    asyncio.run(read())
    return "billing"


def offsets(run: Run, group: str) -> list[tuple[int, int, int]]:
    _, out, _ = run("describe", group, "--format", "json")
    entries = json.loads(out)["offsets"]
    return [(entry["partition"], entry["offset"], entry["lag"]) for entry in entries]


def test_groups_are_listed_with_state_and_type(run: Run, left_group: str) -> None:
    code, out, _ = run("list")
    header, line = out.splitlines()
    assert code == 0
    assert header.split() == ["BROKER", "GROUP", "TYPE", "STATE"]
    assert line.split()[1:] == [left_group, "consumer", "Empty"]
    assert len(run("list", "--state", "stable")[1].splitlines()) == 1


def test_a_description_has_the_lag_of_every_partition(run: Run, left_group: str) -> None:
    code, out, _ = run("describe", left_group)
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert ["TOTAL-LAG", "9"] in lines
    assert [TOPIC, "0", "4", "10", "6", "-", "-", "-"] in lines
    assert [TOPIC, "1", "7", "10", "3", "-", "-", "-"] in lines


async def test_members_are_described_with_their_partitions(
    coordinator: TestCoordinator, run: Run
) -> None:
    coordinator.create_topic(TOPIC, partitions=2)
    async with consuming(coordinator.bootstrap, "billing"):
        code, out, _ = await asyncio.to_thread(run, "describe", "billing", "--members")
        _, as_yaml, _ = await asyncio.to_thread(run, "describe", "billing", "--format", "yaml")
        refused = await asyncio.to_thread(run, "delete", "billing")
        subscribed = await asyncio.to_thread(
            run, "delete-offsets", "billing", "--topic", "orders:0", "--execute"
        )
        reset = await asyncio.to_thread(
            run, "reset", "billing", "--all-topics", "--to-earliest", "--execute"
        )
    assert code == 0
    assert subscribed[0] == 1
    assert subscribed[1].split()[-2:] == ["4", "GROUP_SUBSCRIBED_TO_TOPIC"]
    member = out.splitlines()[-1].split()
    assert member[0].startswith("reader-")
    assert member[-2:] == ["2", "orders(0,1)"]
    (described,) = yaml.safe_load(as_yaml)["members"]
    assert described["assigned"] == {TOPIC: [0, 1]}
    assert refused[0] == 1
    assert "NON_EMPTY_GROUP" in refused[1]
    assert reset[0] == 1
    assert "can only be reset while it has no members" in reset[2]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["--to-earliest"], [(0, 0, 10), (1, 0, 10)]),
        (["--to-latest"], [(0, 10, 0), (1, 10, 0)]),
        (["--to-offset", "5"], [(0, 5, 5), (1, 5, 5)]),
        (["--to-offset", "500"], [(0, 10, 0), (1, 10, 0)]),
        (["--shift-by", "-2"], [(0, 2, 8), (1, 5, 5)]),
        (["--shift-by", "100"], [(0, 10, 0), (1, 10, 0)]),
    ],
)
def test_a_reset_commits_what_a_dry_run_shows(
    run: Run, left_group: str, target: list[str], expected: list[tuple[int, int, int]]
) -> None:
    before = offsets(run, left_group)
    code, shown, note = run("reset", left_group, "--all-topics", *target)
    assert code == 0
    assert "use --execute to apply this" in note
    assert offsets(run, left_group) == before
    code, done, _ = run("reset", left_group, "--all-topics", *target, "--execute")
    assert (code, done) == (0, shown)
    assert offsets(run, left_group) == expected


def test_a_reset_of_one_partition_leaves_the_others(run: Run, left_group: str) -> None:
    code, out, _ = run("reset", left_group, "--topic", "orders:1", "--to-earliest", "--execute")
    assert code == 0
    assert out.splitlines()[1].split() == [left_group, TOPIC, "1", "7", "0"]
    assert offsets(run, left_group) == [(0, 4, 6), (1, 0, 10)]


def test_deleted_offsets_are_those_a_dry_run_shows(run: Run, left_group: str) -> None:
    command = ("delete-offsets", left_group, "--topic", "orders:1", "--topic", "orders:9")
    code, out, note = run(*command)
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        [left_group, TOPIC, "1", "7", "-"],
        [left_group, TOPIC, "9", "-", "-"],
    ]
    assert "use --execute to apply this" in note
    assert offsets(run, left_group) == [(0, 4, 6), (1, 7, 3)]
    code, out, note = run(*command, "--execute")
    assert (code, note) == (1, "")
    assert [line.split() for line in out.splitlines()[-2:]] == [
        [left_group, TOPIC, "1", "7", "OK"],
        [left_group, TOPIC, "9", "-", "UNKNOWN_TOPIC_OR_PARTITION"],
    ]
    assert offsets(run, left_group) == [(0, 4, 6)]


@pytest.mark.coordinator({"log.level": "error"})
def test_all_offsets_of_a_topic_are_deleted_in_the_form_asked_for(
    run: Run, left_group: str
) -> None:
    code, out, _ = run(
        "delete-offsets", left_group, "--topic", TOPIC, "--execute", "--format", "json"
    )
    assert code == 0
    assert json.loads(out) == [
        {"group": left_group, "topic": TOPIC, "partition": number, "offset": at, "error": "NONE"}
        for number, at in ((0, 4), (1, 7))
    ]
    assert offsets(run, left_group) == []


def test_a_deleted_group_is_gone(run: Run, left_group: str) -> None:
    code, out, _ = run("delete", left_group)
    assert (code, out.splitlines()[-1].split()) == (0, [left_group, "OK"])
    code, out, _ = run("delete", left_group)
    assert (code, out.splitlines()[-1].split()) == (1, [left_group, "GROUP_ID_NOT_FOUND"])
    code, _, error = run("describe", left_group)
    assert (code, error.startswith("error: no group 'billing' at 127.0.0.1:")) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["reset", "g", "--all-topics"], 2, "expected exactly one of --to-earliest"),
        (["reset", "g", "--to-latest"], 2, "expected either --topic or --all-topics"),
        (["reset", "g", "--topic", "t", "--to-offset", "-1"], 2, "--to-offset -1: expected 0"),
        (["reset", "g", "--topic", "t:x", "--to-latest"], 2, "--topic 't:x': expected NAME or"),
        (["reset", "g", "--topic", "nope", "--to-latest"], 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (
            ["reset", "g", "--topic", "orders:9", "--to-latest"],
            1,
            "orders-9 does not exist or has no leader",
        ),
        (["reset", "g", "--topic", "orders", "--shift-by", "1"], 1, "orders-0 has no committed"),
        (["reset", "g", "--all-topics", "--to-latest"], 1, "has no committed offsets there"),
        (["delete-offsets", "g", "--topic", "t:x"], 2, "--topic 't:x': expected NAME or"),
        (["delete-offsets", "g", "--topic", "orders"], 1, "has no committed offsets there"),
        (["delete-offsets", "g", "--topic", "orders:0", "--execute"], 1, "GROUP_ID_NOT_FOUND"),
        (["list", "--url", "http://127.0.0.1:1"], 2, "expected either --url or --bootstrap"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    coordinator: TestCoordinator, run: Run, arguments: list[str], code: int, message: str
) -> None:
    coordinator.create_topic(TOPIC, partitions=2)
    ended, _, error = run(*arguments)
    assert ended == code
    assert message in error
    assert error.count("\n") == 1


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], str]]:
    """Starts a server that gives one answer; its address."""
    threads: list[threading.Thread] = []

    def serve(answer: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))

        def answer_one() -> None:
            with listener, listener.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        threads.append(threading.Thread(target=answer_one))
        threads[-1].start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield serve
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "so it is not a Kafka listener"),
        (b"\0\0\0\1x", "not a Kafka response"),
        (b"\0\0\0\6\0\0\0\1\0\0", "not a Kafka response"),
        (b"\0\0\0\4\0\0\0\x63", "sent the response of another request"),
        (b"", "closed the connection"),
    ],
)
def test_what_is_no_kafka_server_is_said_to_be_none(
    answering: Any, answer: bytes, message: str
) -> None:
    code, _, error = invoke("list", "--bootstrap-server", answering(answer))
    assert code == 1
    assert message in error
    assert error.count("\n") == 1


def test_offsets_are_deleted_over_the_kafka_protocol_alone() -> None:
    assert invoke("delete-offsets", "g", "--topic", "t") == (
        2,
        "",
        "error: delete-offsets uses the Kafka protocol: expected --bootstrap-server\n",
    )


def test_nobody_there_and_no_address_are_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    code, _, error = invoke("list", "--bootstrap-server", f"127.0.0.1:{port}")
    assert (code, error) == (1, f"error: 127.0.0.1:{port}: Connection refused\n")
    code, _, error = invoke("list", "--bootstrap-server", "here")
    assert (code, error.startswith("error: --bootstrap-server: 'here' is not")) == (2, True)
