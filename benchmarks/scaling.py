"""Whether a request costs the same however much there is: `python -m benchmarks.scaling`.

In process, as `benchmarks.turn` measures: the whole server but the network. What is in memory comes
from a log made for it, so that a hundred thousand members need not join first.
"""

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import uvloop

from benchmarks import stored
from benchmarks.tables import table
from benchmarks.turn import SETTINGS, Client, costs, frame, gathered, rebalance
from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.batch import LogRecord
from coordinator_protocol.messages.heartbeat import HeartbeatRequest
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_server.app import App
from coordinator_server.config import load
from coordinator_server.observe import log

MEMBERS: Final = (10, 1_000, 100_000)
MEMBERS_OF_A_GROUP: Final = 10
MEMBERS_OF_ONE: Final = (10, 1_000, 10_000)
OFFSETS: Final = (100, 10_000, 1_000_000)
OFFSETS_OF_A_GROUP: Final = 100
OFFSETS_OF_ONE: Final = (100, 100_000)
JOINING: Final = (100, 500, 1_000, 2_500, 5_000)
IN_A_CHUNK: Final = 16
SAMPLE: Final = 2_048
"""How many different requests are sent round and round."""

Stored = Iterable[tuple[str, Iterable[LogRecord]]]
"""Groups and their records."""


@asynccontextmanager
async def running(groups: Stored) -> AsyncIterator[App]:
    """A server that has loaded groups."""
    with tempfile.TemporaryDirectory(prefix="scaling-", dir="/var/tmp") as directory:
        for partition, records in stored.spread(groups).items():
            stored.write(Path(directory), partition, records)
        app = App(load(environ={}, flags={**SETTINGS, "log.dirs": directory}).config)
        await app.start()
        try:
            while not app.coordinator.is_ready:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
            yield app
        finally:
            await app.stop()


def names(number: int) -> list[str]:
    """Ids of groups."""
    return [f"group-{each}" for each in range(number)]


def sample(population: int) -> list[int]:
    """Which of so many send requests, in no order a cache would like."""
    chosen = list(range(population))
    random.Random(population).shuffle(chosen)  # noqa: S311 - spreads requests, guards nothing
    return chosen[:SAMPLE]


# --- heartbeats ---


def heartbeats(group_ids: list[str], members: int) -> Iterator[bytes]:
    """Of members of all groups, which have `members` each."""
    for each in sample(len(group_ids) * members):
        request = HeartbeatRequest(
            group_ids[each // members], 1, stored.member_id(each % members), None
        )
        yield frame(ApiKey.HEARTBEAT, 4, request)


async def heartbeat_cost(groups: int, members: int, seconds: float) -> float:
    """Microseconds of CPU for each, 16 in a chunk; every one comes from another member."""
    ids, wall = names(groups), time.time_ns() // 1_000_000
    async with running((each, [stored.group(each, members, wall)]) for each in ids) as app:
        frames = list(heartbeats(ids, members))
        chunks = [
            b"".join(frames[at : at + IN_A_CHUNK]) for at in range(0, len(frames), IN_A_CHUNK)
        ]
        client = Client(app, 0)
        size = len(client.give(frames[0]))
        with costs() as spent:
            while time.process_time() - spent.begin < seconds:
                answers = [client.give(chunk) for chunk in chunks]
                spent.count += len(frames)
                if any(any(answer[12:14]) for answer in answers) or size != 15 + 1:
                    raise RuntimeError(f"a heartbeat was refused: {answers[0].hex()}")
    return spent.microseconds


# --- commits ---


def commit(group_id: str, partition: int) -> bytes:
    """Of one partition, by somebody who is no member."""
    offsets = [OffsetCommitRequestPartition(partition, 1_000_000)]
    topics = [OffsetCommitRequestTopic(name="orders", partitions=offsets)]
    return frame(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=group_id, topics=topics))


async def commit_cost(groups: int, offsets: int, seconds: float) -> float:
    """Microseconds of CPU for each, one after the other; groups have so many offsets each."""
    ids, wall = names(groups), time.time_ns() // 1_000_000
    async with running((each, stored.commits(each, offsets, wall)) for each in ids) as app:
        places = [(ids[each // offsets], each % offsets % 100) for each in sample(groups * offsets)]
        frames = [commit(*place) for place in places]
        client = Client(app, 0)
        expected = len(await client.ask(frames[0]))
        with costs() as spent:
            while time.process_time() - spent.begin < seconds:
                for each in frames[:256]:
                    if len(await client.ask(each)) != expected:
                        raise RuntimeError("a commit was answered otherwise than the first one")
                frames = frames[256:] + frames[:256]
                spent.count += min(len(frames), 256)
    return spent.microseconds


# --- joins ---


async def join_cost(members: int, seconds: float) -> float:
    """Microseconds of CPU for each member's JoinGroup and SyncGroup in one rebalance of all."""
    async with running(()) as app:
        clients = await gathered(app, members)
        with costs() as spent:
            while time.process_time() - spent.begin < seconds:
                await rebalance(clients, spent)
                spent.count += members
    return spent.microseconds


# --- the table ---


def measurements(seconds: float) -> Iterator[tuple[str, str, Callable[[], float]]]:
    """What is measured, with how much, and how."""

    def heartbeat(groups: int, members: int) -> Callable[[], float]:
        return lambda: uvloop.run(heartbeat_cost(groups, members, seconds))

    def commit(groups: int, offsets: int) -> Callable[[], float]:
        return lambda: uvloop.run(commit_cost(groups, offsets, seconds))

    def join(members: int) -> Callable[[], float]:
        return lambda: uvloop.run(join_cost(members, seconds))

    each = MEMBERS_OF_A_GROUP
    for n in MEMBERS:
        yield f"Heartbeat, groups of {each}", f"{n:,} members", heartbeat(n // each, each)
    for n in MEMBERS_OF_ONE:
        yield "Heartbeat, one group", f"{n:,} members", heartbeat(1, n)
    each = OFFSETS_OF_A_GROUP
    for n in OFFSETS:
        yield f"OffsetCommit, groups of {each}", f"{n:,} offsets", commit(n // each, each)
    for n in OFFSETS_OF_ONE:
        yield "OffsetCommit, one group", f"{n:,} offsets", commit(1, n)
    for n in JOINING:
        yield "JoinGroup and SyncGroup", f"{n:,} members", join(n)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of CPU for each")
    parser.add_argument("--only", default="", help="part of what is measured")
    arguments = parser.parse_args()
    log.configure(line_format="json", fd=os.open(os.devnull, os.O_WRONLY))
    first: dict[str, float] = {}
    rows = []
    for what, much, measure in measurements(arguments.seconds):
        if arguments.only in what:
            cost = min(measure() for _ in range(3))
            rows.append((what, much, f"{cost:.2f}", f"{cost / first.setdefault(what, cost):.2f}"))
    print(table(("request", "with", "CPU us", "of the first"), rows))


if __name__ == "__main__":
    main()
