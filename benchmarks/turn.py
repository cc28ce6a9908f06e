"""What a request costs inside the server: bytes in, bytes out, no socket and no disk to sync.

`python -m benchmarks.turn [WORK ...] [--profile]`. The whole server is there, with its log in files
that are not synced; what is missing is the network, which `benchmarks.side_by_side` has.
"""

import argparse
import asyncio
import cProfile
import os
import pstats
import struct
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvloop

from benchmarks.choice import chosen
from benchmarks.tables import table
from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import request_encoder, response_decoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.headers import is_flexible, response_header_version
from coordinator_protocol.messages.heartbeat import HeartbeatRequest
from coordinator_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from coordinator_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coordinator_server.app import App
from coordinator_server.config import load
from coordinator_server.net.session import Session
from coordinator_server.observe import log
from coordinator_server.ports import ANONYMOUS
from coordinator_server.server.run import freeze_heap

TOPIC = "orders"
PARTITIONS = 100
CLIENT = b"benchmark"
TYPE, PROTOCOL, ASSIGNMENT = "consumer", "range", b"assigned"
JOIN_VERSION, SYNC_VERSION = 9, 5
CLIENTS = 16
SETTINGS = {
    # Under valgrind a turn takes fifty times as long: no partition is taken for one that stalls.
    "offsets.commit.timeout.ms": "600000",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "http.listener": "",
    "log.flush": "os",
    "group.initial.rebalance.delay.ms": "0",
    "topics": f"{TOPIC}:{PARTITIONS}",
}


class Client:
    """A session, and the shell round it, that keeps what is sent."""

    def __init__(self, app: App, number: int) -> None:
        self.group = f"group-{number}"
        self.member = ""
        self.generation = -1
        self.late = asyncio.Event()
        self._app = app
        self._session = Session(
            app.session_context, self, listener="PLAINTEXT", host="127.0.0.1", principal=ANONYMOUS
        )

    # --- net.context.SessionTransport ---

    def wake(self) -> None:
        """An answer came late."""
        self.late.set()

    def run(self, handling: Coroutine[Any, Any, None]) -> None:
        """Run the handling of a request."""
        self._task = asyncio.get_running_loop().create_task(handling)

    async def in_slices(self, step: Callable[[], bool]) -> None:
        """Do all steps at once: nobody else waits."""
        while not step():
            pass

    def may_build(self, _size: int, _go_on: Callable[[], None]) -> bool:
        """There is always memory."""
        return True

    async def aside(self, work: Callable[[], Any]) -> Any:
        """Do the work here: nobody else waits."""
        return work()

    # --- requests ---

    def give(self, chunk: bytes) -> bytes:
        """Hand over bytes; what is answered at once."""
        now_ms = time.monotonic_ns() // 1_000_000
        responses, rest = self._session.express(chunk, now_ms)
        if rest < len(chunk):
            self._session.receive(chunk[rest:], now_ms)
            responses += b"".join(self._session.take())
        return responses

    async def ask(self, chunk: bytes) -> bytes:
        """Hand over one request and wait for its answer."""
        self.late.clear()
        answer = self.give(chunk)
        while not answer:
            await self.late.wait()
            self.late.clear()
            answer = b"".join(self._session.take())
        return answer

    def take(self) -> bytes:
        """What has been answered late."""
        return b"".join(self._session.take())

    async def join(self) -> None:
        """Become the one member of the client's group."""
        self.learn(await self.ask(_join(self)))
        self.learn(await self.ask(_join(self)))
        _check_synced(await self.ask(_sync(self, [self])))

    def learn(self, answer: bytes) -> None:
        """Take over the member id and the generation in the answer to a JoinGroup."""
        joined = _decoded(ApiKey.JOIN_GROUP, JOIN_VERSION, answer)
        if joined.error_code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            raise RuntimeError(f"a JoinGroup was refused: {joined}")
        self.member, self.generation = joined.member_id, joined.generation_id


def frame(key: ApiKey, version: int, request: Any) -> bytes:
    """A request as a client sends it."""
    head = struct.pack(">hhih", key, version, 1, len(CLIENT)) + CLIENT
    body = (b"\0" if is_flexible(key, version) else b"") + request_encoder(key, version)(request)
    return struct.pack(">i", len(head) + len(body)) + head + body


def _decoded(key: ApiKey, version: int, answer: bytes) -> Any:
    start = 8 + response_header_version(key, version)
    return response_decoder(key, version)(answer, start, len(answer))


def _join(client: Client) -> bytes:
    request = JoinGroupRequest(
        group_id=client.group,
        member_id=client.member,
        session_timeout_ms=1_800_000,  # nobody leaves, however slow the machine is
        rebalance_timeout_ms=60_000,
        protocol_type=TYPE,
        protocols=[JoinGroupRequestProtocol(PROTOCOL, b"metadata")],
    )
    return frame(ApiKey.JOIN_GROUP, JOIN_VERSION, request)


def _sync(client: Client, assigned: Sequence[Client] = ()) -> bytes:
    """The leader assigns something to everybody."""
    request = SyncGroupRequest(
        group_id=client.group,
        generation_id=client.generation,
        member_id=client.member,
        protocol_type=TYPE,
        protocol_name=PROTOCOL,
        assignments=[SyncGroupRequestAssignment(each.member, ASSIGNMENT) for each in assigned],
    )
    return frame(ApiKey.SYNC_GROUP, SYNC_VERSION, request)


def _check_synced(answer: bytes) -> None:
    synced = _decoded(ApiKey.SYNC_GROUP, SYNC_VERSION, answer)
    if synced.error_code or synced.assignment != ASSIGNMENT:
        raise RuntimeError(f"a member was not assigned what the leader said: {synced}")


def _heartbeat(client: Client) -> bytes:
    request = HeartbeatRequest(client.group, client.generation, client.member, None)
    return frame(ApiKey.HEARTBEAT, 4, request)


def _commit(client: Client, partitions: int) -> bytes:
    offsets = [OffsetCommitRequestPartition(i, 1_000_000 + i) for i in range(partitions)]
    request = OffsetCommitRequest(
        group_id=client.group,
        generation_id_or_member_epoch=client.generation,
        member_id=client.member,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)],
    )
    return frame(ApiKey.OFFSET_COMMIT, 8, request)


def _fetch(client: Client) -> bytes:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(50)))]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=client.group, topics=topics)]
    )
    return frame(ApiKey.OFFSET_FETCH, 8, request)


SHARED = "heartbeat, 16 members over 1 connection"
WORKS: dict[str, tuple[Callable[[Client], bytes], int]] = {
    "heartbeat, 1 in flight": (_heartbeat, 1),
    "heartbeat, 16 in flight": (lambda client: _heartbeat(client) * 16, 16),
    SHARED: (_heartbeat, 1),
    "commit of 1 partition": (lambda client: _commit(client, 1), 1),
    "commit of 50 partitions": (lambda client: _commit(client, 50), 1),
    "fetch of 50 partitions": (_fetch, 1),
}
"""A chunk of each work, and how many requests are in it."""

CREATE = "create a one-member group, up to Stable"
REBALANCE = "rebalance of 1,000 members, per request"
MEMBERS = 1_000


@asynccontextmanager
async def serving() -> AsyncIterator[App]:
    """A server that is ready, with its log in a folder of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        app = App(load(environ={}, flags={**SETTINGS, "log.dirs": directory}).config)
        await app.start()
        try:
            while not app.coordinator.is_ready:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
            yield app
        finally:
            await app.stop()


async def measure(name: str, seconds: float, profile: cProfile.Profile | None) -> float:
    """Microseconds of CPU per request."""
    async with serving() as app:
        if name == CREATE:
            return await _creations(app, seconds, profile)
        if name == REBALANCE:
            return await _rebalances(app, seconds, profile)
        return await _requests(app, name, seconds, profile)


async def _requests(app: App, name: str, seconds: float, profile: cProfile.Profile | None) -> float:
    make, requests = WORKS[name]
    clients = [Client(app, number) for number in range(CLIENTS)]
    for client in clients:
        await client.join()
    chunks = [make(client) for client in clients]
    if name == SHARED:
        clients = clients[:1] * CLIENTS
    await serve_all(clients, chunks)
    with costs(profile) as spent:
        while time.process_time() - spent.begin < seconds:
            await serve_all(clients, chunks)
            spent.count += CLIENTS * requests
    return spent.microseconds


async def _creations(app: App, seconds: float, profile: cProfile.Profile | None) -> float:
    """New groups, again and again by the same connections."""
    clients = [Client(app, number) for number in range(CLIENTS)]
    with costs(profile) as spent:
        while time.process_time() - spent.begin < seconds:
            await create(clients, spent.count, spent)
            spent.count += CLIENTS
    return spent.microseconds


async def create(clients: list[Client], first: int, spent: "Costs") -> None:
    """A group of one for each client, numbered from `first` on."""
    for number, client in enumerate(clients, first):
        client.group, client.member = f"group-{number}", ""
    await _all_join(clients, spent)
    await _all_join(clients, spent)
    await _all_sync(clients, [[client] for client in clients], spent)


async def _rebalances(app: App, seconds: float, profile: cProfile.Profile | None) -> float:
    """JoinGroup and SyncGroup of every member, as often as time allows."""
    members = await gathered(app, MEMBERS)
    with costs(profile) as spent:
        while time.process_time() - spent.begin < seconds:
            await rebalance(members, spent)
            spent.count += 2 * MEMBERS
    return spent.microseconds


async def gathered(app: App, size: int) -> list[Client]:
    """A group of so many members, assigned."""
    members = [Client(app, 0) for _ in range(size)]
    spent = Costs()
    await _all_join(members, spent)
    await rebalance(members, spent)
    return members


async def rebalance(members: list[Client], spent: "Costs") -> None:
    """All join and sync; the group's first member leads."""
    await _all_join(members, spent)
    await _all_sync(members, [members, *([] for _ in members[1:])], spent)


async def _all_join(clients: list[Client], spent: "Costs") -> None:
    with spent.left_out():
        joins = [_join(client) for client in clients]
    answers = await serve_all(clients, joins)
    with spent.left_out():
        for client, answer in zip(clients, answers, strict=True):
            client.learn(answer)


async def _all_sync(
    clients: list[Client], assigned: Sequence[Sequence[Client]], spent: "Costs"
) -> None:
    with spent.left_out():
        syncs = [_sync(client, each) for client, each in zip(clients, assigned, strict=True)]
    answers = await serve_all(clients, syncs)
    with spent.left_out():
        for answer in answers:
            _check_synced(answer)


async def serve_all(clients: Sequence[Client], chunks: Sequence[bytes]) -> list[bytes]:
    """Every client hands over its chunk, and then all wait for all."""
    answers = []
    for client, chunk in zip(clients, chunks, strict=True):
        client.late.clear()
        answers.append(client.give(chunk))
    for number, client in enumerate(clients):
        while not answers[number]:
            await client.late.wait()
            client.late.clear()
            answers[number] = client.take()
    return answers


class Costs:
    """CPU time of this process while something was done `count` times."""

    def __init__(self, profile: cProfile.Profile | None = None) -> None:
        self.count = 0
        self.begin = time.process_time()
        self.end = 0.0
        self._profile = profile

    @property
    def microseconds(self) -> float:
        """Of each."""
        return (self.end - self.begin) / self.count * 1e6

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """What is done meanwhile is the client's work, not the server's."""
        if self._profile is not None:
            self._profile.disable()
        began = time.process_time()
        yield
        self.begin += time.process_time() - began
        if self._profile is not None:
            self._profile.enable()


@contextmanager
def costs(profile: cProfile.Profile | None = None) -> Iterator[Costs]:
    """Count what is done meanwhile, with the collector set as the server sets it."""
    freeze_heap()
    if profile is not None:
        profile.enable()
    spent = Costs(profile)
    yield spent
    spent.end = time.process_time()
    if profile is not None:
        profile.disable()


def main() -> None:
    """Measure what is asked for, by default everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("works", nargs="*", metavar="WORK", help="part of a name; default: all")
    parser.add_argument("--seconds", type=float, default=1.0, help="of CPU for each")
    parser.add_argument("--repeat", type=int, default=3, help="the least of so many counts")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    arguments = parser.parse_args()
    names = chosen(parser, (*WORKS, CREATE, REBALANCE), arguments.works)
    log.configure(line_format="json", fd=os.open(os.devnull, os.O_WRONLY))
    rows = []
    for name in names:
        costs = [
            uvloop.run(measure(name, arguments.seconds, None)) for _ in range(arguments.repeat)
        ]
        rows.append((name, f"{min(costs):.2f}"))
        if arguments.profile:
            profile = cProfile.Profile()
            uvloop.run(measure(name, arguments.seconds, profile))
            pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    print(table(("work", "CPU us"), rows, texts=1))


if __name__ == "__main__":
    main()
