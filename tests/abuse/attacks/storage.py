"""Attacks on topics, files and the disk, and pauses of the whole server."""

import os
import signal
import struct
import time
from functools import partial
from typing import Final

from coordinator_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coordinator_protocol.messages.metadata import MetadataRequest
from coordinator_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.abuse.attack import MEBIBYTE, Attack
from tests.abuse.attacks.memory import together
from tests.abuse.client import Target, decoded, frame, raw_frame, receive, text
from tests.abuse.observers import OFFSET_COMMIT, SESSION_MS, TOPIC
from tests.support.mutated_requests import RECORDS

TOPICS: Final = 400
PARTITIONS: Final = 10_000
JOURNAL_SECONDS: Final = 8.0
AT_ONCE: Final = 60
OPEN_LOGS: Final = 4_200
"""More than the server may have open files."""


def many_partitions(target: Target) -> None:
    """Create 400 topics of 10,000 partitions, and ask for the metadata of all."""
    with target.connect() as connection:
        for number in range(TOPICS):
            if not target.left:
                break
            topic = CreatableTopic(
                name=f"many-{number}", num_partitions=PARTITIONS, replication_factor=1
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            target.ask(connection, frame(19, 5, request))
        everything = frame(3, 9, MetadataRequest(topics=None, allow_auto_topic_creation=False))
        for _ in range(3):
            target.ask(connection, everything)
            target.count("metadata of all")


def open_logs(target: Target) -> None:
    """Produce one record to each of 4,200 partitions with few descriptors, and go on."""
    target.create_topics({"files": OPEN_LOGS})
    with target.connect() as connection:
        for first in range(0, OPEN_LOGS, AT_ONCE):
            if target.left < JOURNAL_SECONDS:
                break
            data = [
                PartitionProduceData(index=number, records=RECORDS)
                for number in range(first, first + AT_ONCE)
            ]
            topic = TopicProduceData(name="files", partition_data=data)
            request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic])
            answer = decoded(0, 7, target.ask(connection, frame(0, 7, request)))
            for each in answer.responses[0].partition_responses:
                code = each.error_code
                target.count(f"records answered {code}" if code else "records")
    # The journal changes its file while descriptors are short.
    target.seconds = min(target.seconds, target.seconds - target.left + JOURNAL_SECONDS)
    _commit_until_over(target, "files", 4_000)


def _large_commit(group: str, offset: int, partitions: int, metadata: int) -> bytes:
    one = struct.pack(">q", offset) + text("m" * metadata)
    elements = b"".join(struct.pack(">i", number) + one for number in range(partitions))
    topics = struct.pack(">i", 1) + text("files") + struct.pack(">i", partitions) + elements
    head = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">q", -1)
    return raw_frame(OFFSET_COMMIT, 2, head + topics)


def _commit_until_over(target: Target, group: str, metadata: int, connections: int = 4) -> None:
    def commit(worker: int) -> None:
        with target.connect() as connection:
            connection.settimeout(target.left + 30.0)
            offset = 0
            while target.left:
                offset += 1
                request = _large_commit(f"{group}-{worker}", offset, 20, metadata)
                connection.sendall(request)
                target.count("bytes sent", len(request))
                (code,) = struct.unpack(">h", receive(connection)[-2:])
                target.count(f"commits answered {code}" if code else "commits")

    together([partial(commit, worker) for worker in range(connections)])


def slow_disk(target: Target) -> None:
    """Commit 80 KB at a time on 20 connections while every disk operation takes a second."""
    _commit_until_over(target, "slow", 4_000, connections=20)


def paused(target: Target) -> None:
    """Stop the server for twice the session timeout and continue it."""
    os.kill(target.pid, signal.SIGSTOP)
    try:
        time.sleep(SESSION_MS / 1000 * 2)
    finally:
        os.kill(target.pid, signal.SIGCONT)
    time.sleep(2.0)


ATTACKS = (
    Attack(
        "many-partitions",
        "400 CreateTopics requests of 10,000 partitions, then Metadata of all",
        many_partitions,
        seconds=60,
        keeps_bytes=512 * MEBIBYTE,
    ),
    Attack(
        "open-logs",
        "a record to each of 4,200 partitions, `ulimit -n 4096`, new journal files",
        open_logs,
        seconds=120,
        settings={"log.journal.bytes": "1048576"},
        nofile=4096,
        keeps_bytes=256 * MEBIBYTE,
    ),
    Attack(
        "slow-disk",
        "20 connections commit 80 KB at a time, every disk operation takes 1 s",
        slow_disk,
        seconds=15,
        settings={
            "topics": f"{TOPIC}:1,files:100",
            "log.journal.bytes": "4194304",
            "offsets.topic.segment.bytes": "1048576",
        },
        has_slow_disk=True,
        commits_may_fail=True,
        keeps_bytes=128 * MEBIBYTE,
    ),
    Attack(
        "paused",
        "SIGSTOP for 12 s (twice the session timeout), then SIGCONT",
        paused,
        seconds=15,
        is_paused=True,
    ),
)
