"""Attacks with large requests, and with large responses that are never read."""

import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.abuse.attack import MEBIBYTE, Attack
from tests.abuse.client import Target, frame, raw_frame, receive, reset, text
from tests.abuse.observers import JOIN_GROUP, OFFSET_COMMIT, join_body

FRAME_BYTES: Final = 94_000_000
CHUNK: Final = bytes(64 * 1024)


def together(actions: Sequence[Callable[[], object]]) -> None:
    """Run actions in threads; one that meets OSError ends alone."""

    def run(action: Callable[[], object]) -> None:
        with suppress(OSError):
            action()

    threads = [threading.Thread(target=run, args=[action], daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _commit_head(group: str) -> bytes:
    return text(group) + struct.pack(">i", -1) + text("") + struct.pack(">q", -1)


def _of_topics() -> bytes:
    topic = text("a") + struct.pack(">i", 0)
    count = FRAME_BYTES // len(topic)
    return raw_frame(
        OFFSET_COMMIT, 2, _commit_head("topics") + struct.pack(">i", count) + topic * count
    )


def _of_partitions() -> bytes:
    partition = struct.pack(">iq", 0, 1) + text("")
    count = FRAME_BYTES // len(partition)
    head = struct.pack(">i", 1) + text("observed") + struct.pack(">i", count)
    return raw_frame(OFFSET_COMMIT, 2, _commit_head("partitions") + head + partition * count)


def large_commits(target: Target) -> None:
    """Send six OffsetCommit requests of 94 MB that consist of tiny elements."""
    frames = [_of_topics(), _of_partitions()]

    def send(number: int) -> None:
        with target.connect() as connection:
            target.ask(connection, frames[number % 2])

    together([partial(send, number) for number in range(6)])


def announced_frames(target: Target) -> None:
    """Announce frames of 100 MB on 200 connections and send them slowly, 3 GiB in all."""
    budget = 3 << 30
    with target.connections(200) as opened, selectors.DefaultSelector() as ready:
        for connection in opened:
            connection.setblocking(False)
            connection.send(struct.pack(">i", 100_000_000) + struct.pack(">hhih", 8, 2, 1, -1))
            ready.register(connection, selectors.EVENT_WRITE)
        while target.left and budget > 0 and ready.get_map():
            for key, _ in ready.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                try:
                    sent = key.fileobj.send(CHUNK)
                except BlockingIOError:
                    continue
                except OSError:
                    target.count("connections closed by the server")
                    ready.unregister(key.fileobj)
                    continue
                budget -= sent
                target.count("bytes sent", sent)
            time.sleep(0.02)
        time.sleep(min(target.left, 2.0))


def _join_with(target: Target, protocols_count: int, times: int) -> None:
    protocols = struct.pack(">i", protocols_count) + b"".join(
        text(f"protocol-{number}") + struct.pack(">i", 0) for number in range(protocols_count)
    )

    def join(number: int) -> None:
        request = raw_frame(JOIN_GROUP, 2, join_body(f"protocols-{number % 4}", "", protocols, 500))
        for _ in range(times):
            if target.left:
                with suppress(OSError), target.connect() as connection:
                    target.ask(connection, request)

    together([partial(join, number) for number in range(8)])


def many_protocols(target: Target) -> None:
    """Join groups with 60,000 protocols, again and again on 8 connections."""
    _join_with(target, 60_000, 10)


def protocols_at_limit(target: Target) -> None:
    """Join groups with 900 protocols, again and again on 8 connections."""
    _join_with(target, 900, 400)


def large_metadata(target: Target) -> None:
    """Join one group with 150 members of 20 MB of metadata each (3 GB)."""
    metadata = bytes(20_000_000)
    protocols = struct.pack(">i", 1) + text("range") + struct.pack(">i", len(metadata)) + metadata
    request = raw_frame(JOIN_GROUP, 2, join_body("metadata", "", protocols, 3_000))
    with target.connections(150) as opened:
        for connection in opened:
            connection.settimeout(max(0.1, target.left))
            try:
                connection.sendall(request)
            except OSError:
                target.count("members that were stopped")
                break
            target.count("bytes sent", len(request))
        time.sleep(min(target.left, 4.0))


def unread_responses(target: Target) -> None:
    """Have 100 connections ask for 40 MB of offsets each without reading them."""
    target.create_topics({"unread": 10_000})
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=1, committed_metadata="m" * 4_000
        )
        for number in range(10_000)
    ]
    with target.connect() as connection:
        for first in range(0, len(partitions), 1_000):
            topic = OffsetCommitRequestTopic(
                name="unread", partitions=partitions[first : first + 1_000]
            )
            request = OffsetCommitRequest(group_id="unread", member_id="", topics=[topic])
            target.ask(connection, frame(8, 8, request))
    everything = frame(
        9, 8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="unread", topics=None)])
    )
    with target.connections(100) as opened:
        for connection in opened:
            with suppress(OSError):
                connection.sendall(everything)
            target.count("requests")
        time.sleep(target.left)


def flood_and_reset(target: Target) -> None:
    """Pipeline small requests on 200 connections without reading, then reset them."""
    request = raw_frame(12, 1, text("nobody") + struct.pack(">i", 1) + text("member"))
    metadata = raw_frame(3, 1, struct.pack(">i", -1))
    _flood(target, (request * 30 + metadata) * 40)


def commits_and_reset(target: Target) -> None:
    """Pipeline commits on 200 connections without reading, then reset them."""
    partition = struct.pack(">iq", 0, 1) + text("")
    topics = struct.pack(">i", 1) + text("observed") + struct.pack(">i", 1) + partition
    commits = [
        raw_frame(OFFSET_COMMIT, 2, _commit_head(f"flood-{number}") + topics)
        for number in range(1_000)
    ]
    _flood(target, b"".join(commits))


def _flood(target: Target, burst: bytes) -> None:
    with target.connections(200) as opened, selectors.DefaultSelector() as ready:
        for connection in opened:
            connection.setblocking(False)
            ready.register(connection, selectors.EVENT_WRITE)
        until = time.monotonic() + target.left / 2
        while time.monotonic() < until and ready.get_map():
            for key, _ in ready.select(0.1):
                assert isinstance(key.fileobj, socket.socket)
                try:
                    target.count("bytes sent", key.fileobj.send(burst))
                except BlockingIOError:
                    continue
                except OSError:
                    ready.unregister(key.fileobj)
    time.sleep(target.left)


def pipelining(target: Target) -> None:
    """Pipeline heartbeats that never repeat on 4 connections, and read every response."""
    frames = [
        raw_frame(12, 1, text("nobody") + struct.pack(">i", 1) + text(f"member-{number:06}"))
        for number in range(4_000)
    ]
    burst = b"".join(frames)

    def pump() -> None:
        connection = target.connect()

        def read() -> None:
            while received := connection.recv(1 << 20):
                target.count("bytes received", len(received))

        def write() -> None:
            while target.left:
                connection.sendall(burst)
                target.count("bytes sent", len(burst))
            reset(connection)

        together([read, write])

    together([pump] * 4)


def joined_and_gone(target: Target) -> None:
    """Have 300 members with 10 KB of metadata wait for their groups, and disconnect."""
    protocols = struct.pack(">i", 1) + text("range") + struct.pack(">i", 10_000) + bytes(10_000)
    with target.connections(300) as opened:
        for number, connection in enumerate(opened):
            body = join_body(f"gone-{number % 10}", "", protocols)
            connection.sendall(raw_frame(JOIN_GROUP, 2, body))
            target.count("requests")
        connection = opened[0]
        connection.settimeout(1.0)
        with suppress(OSError):
            receive(connection)
        time.sleep(target.left)


def unique_names(target: Target) -> None:
    """Join one group after the other with client ids and protocols of names that never repeat."""

    def join(worker: int) -> None:
        number = 0
        while target.left:
            number += 1
            name = f"{worker}-{number}-".ljust(20_000, "n")
            protocols = struct.pack(">i", 4) + b"".join(
                text(f"{each}{name}") + struct.pack(">i", 0) for each in range(4)
            )
            with target.connect() as connection:
                body = join_body(f"unique-{worker}", "", protocols)
                target.ask(connection, raw_frame(JOIN_GROUP, 2, body))

    together([partial(join, worker) for worker in range(4)])


ATTACKS = (
    Attack(
        "large-commits",
        "6 OffsetCommit requests of 94 MB, 6 to 13 million elements each",
        large_commits,
        seconds=25,
    ),
    Attack(
        "announced-frames",
        "200 connections announce 100 MB each and send 3 GiB of it in pieces",
        announced_frames,
        seconds=20,
    ),
    Attack("many-protocols", "80 JoinGroup requests of 60,000 protocols", many_protocols, 10),
    Attack(
        "limits-protocols",
        "8 connections repeat JoinGroup of 900 protocols",
        protocols_at_limit,
        keeps_bytes=128 * MEBIBYTE,
    ),
    Attack(
        "large-metadata", "150 JoinGroup requests of 20 MB of metadata", large_metadata, seconds=15
    ),
    Attack(
        "unread-responses",
        "100 connections ask for 40 MB of offsets and read nothing",
        unread_responses,
        seconds=12,
        keeps_bytes=256 * MEBIBYTE,
    ),
    Attack(
        "flood-and-reset",
        "200 connections pipeline small requests, read nothing and are reset",
        flood_and_reset,
        seconds=12,
    ),
    Attack(
        "commits-and-reset",
        "200 connections pipeline commits, read nothing and are reset",
        commits_and_reset,
        seconds=12,
        keeps_bytes=128 * MEBIBYTE,
    ),
    Attack("pipelining", "4 connections pipeline small requests and read", pipelining),
    Attack(
        "pipelining-asyncio",
        "the same at a server with asyncio's own event loop",
        pipelining,
        loop="asyncio",
    ),
    Attack("unique-names", "JoinGroup with 80 KB of names that never repeat", unique_names),
    Attack("abandoned-joins", "300 members of 10 KB that disconnect", joined_and_gone, seconds=6),
)
