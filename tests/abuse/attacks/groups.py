"""Attacks with many groups, members and rebalances."""

import struct
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.abuse.attack import MEBIBYTE, Attack
from tests.abuse.attacks.memory import together
from tests.abuse.client import Target, raw_frame, receive, text
from tests.abuse.observers import (
    JOIN_GROUP,
    OFFSET_COMMIT,
    ONE_PROTOCOL,
    SYNC_GROUP,
    join_body,
    read_join,
)

if TYPE_CHECKING:
    import socket

GROUPS: Final = 500
MEMBERS: Final = 4


def simple_commits(target: Target) -> None:
    """Create groups by commits of clients that are no members, at most 60,000."""
    partition = struct.pack(">iq", 0, 1) + text("")
    topics = struct.pack(">i", 1) + text("observed") + struct.pack(">i", 1) + partition

    def commit(worker: int) -> None:
        with target.connect() as connection:
            for first in range(0, 15_000, 50):
                if not target.left:
                    return
                frames = [_simple(f"simple-{worker}-{first + n}", topics) for n in range(50)]
                connection.sendall(b"".join(frames))
                for _ in frames:
                    receive(connection)
                target.count("groups", len(frames))

    together([partial(commit, worker) for worker in range(4)])


def _simple(group: str, topics: bytes) -> bytes:
    head = text(group) + struct.pack(">i", -1) + text("") + struct.pack(">q", -1)
    return raw_frame(OFFSET_COMMIT, 2, head + topics)


class Rebalancing:
    """One group whose members all join again at once."""

    def __init__(self, target: Target, number: int) -> None:
        self._group = f"rebalancing-{number}"
        self._target = target
        self._members: list[socket.socket] = []
        self._ids: list[str] = []

    def connect(self) -> None:
        """Open the connections of the members."""
        self._members = [self._target.connect() for _ in range(MEMBERS)]
        self._ids = [""] * MEMBERS

    def join(self) -> None:
        """Send every member's JoinGroup without waiting."""
        for connection, member in zip(self._members, self._ids, strict=True):
            body = join_body(self._group, member, ONE_PROTOCOL, 2_000)
            connection.sendall(raw_frame(JOIN_GROUP, 2, body))

    def finish(self) -> None:
        """Read the responses of a round and send every member's SyncGroup."""
        for index, connection in enumerate(self._members):
            _, generation, self._ids[index], _ = read_join(receive(connection))
            head = text(self._group) + struct.pack(">i", generation) + text(self._ids[index])
            connection.sendall(raw_frame(SYNC_GROUP, 1, head + struct.pack(">i", 0)))
        self._target.count("rounds")
        for connection in self._members:
            receive(connection)

    def close(self) -> None:
        """Close the connections."""
        for connection in self._members:
            connection.close()


def rebalances(target: Target) -> None:
    """Have 500 groups of 4 members rebalance at once, again and again."""
    groups = [Rebalancing(target, number) for number in range(GROUPS)]
    try:
        _each(groups, Rebalancing.connect)
        while target.left:
            _each(groups, Rebalancing.join)
            _each(groups, Rebalancing.finish)
    finally:
        _each(groups, Rebalancing.close)


def _each(groups: list[Rebalancing], do: Callable[[Rebalancing], None]) -> None:
    for group in groups:
        with suppress(OSError, struct.error):
            do(group)


def dying_members(target: Target) -> None:
    """Have one group's members come, vanish and come again, so that it never completes joining."""
    with target.connect() as first:
        first.sendall(raw_frame(JOIN_GROUP, 2, join_body("dying", "", ONE_PROTOCOL)))
        receive(first)
        while target.left:
            with target.connections(20) as opened:
                for connection in opened:
                    for _ in range(50):
                        body = join_body("dying", "", ONE_PROTOCOL)
                        connection.sendall(raw_frame(JOIN_GROUP, 2, body))
                        target.count("requests")
            time.sleep(0.05)


ATTACKS = (
    Attack(
        "simple-groups",
        "up to 60,000 groups by commits of clients that are no members",
        simple_commits,
        seconds=12,
        keeps_bytes=256 * MEBIBYTE,
    ),
    Attack(
        "rebalances",
        "500 groups of 4 members rebalance at once, again and again",
        rebalances,
        seconds=12,
        log_bytes=16 * MEBIBYTE,  # every rebalance has its line
        keeps_bytes=128 * MEBIBYTE,
    ),
    Attack(
        "dying-members",
        "one group whose joining members disconnect, 20,000 a second",
        dying_members,
        keeps_bytes=256 * MEBIBYTE,
    ),
)
