"""One round of everything that clients do, to pass as many points as possible."""

import asyncio
import json
import socket
import struct
import time
from contextlib import suppress
from typing import Any

from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatchBuilder,
)

from tests.chaos.requests import ANSWER_SECONDS, Client, Problem, Stuck, codes, expect, http
from tests.oracle.oracle.wire import encode_request, frame

TOKEN = "chaos"
RANGE = [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}]
BIG_COMMIT = 600
"""Partitions of a large commit."""
MANY = 8_000
"""Partitions of a request that is decoded in slices."""
_SOFTWARE = {"client_software_name": "chaos", "client_software_version": "1"}
UNREAD = 60
"""Requests whose answers a client leaves unread for a while."""


def batch(*values: bytes) -> bytes:
    """A record batch."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for offset, value in enumerate(values):
        builder.append(offset, int(time.time() * 1000), None, value, [])
    return bytes(builder.build())


class Load:
    """The clients of a server."""

    def __init__(self, bootstrap: str, http_port: int) -> None:
        self._bootstrap = bootstrap
        self._http_port = http_port
        self._round = 0
        self._clients: dict[str, Client] = {}
        self._stream: asyncio.Task[None] | None = None
        self.events = 0
        """Events received from the stream."""

    def _client(self, name: str) -> Client:
        if name not in self._clients:
            self._clients[name] = Client(self._bootstrap, name)
        return self._clients[name]

    async def close(self) -> None:
        """Close all connections."""
        if self._stream is not None:
            self._stream.cancel()
            await asyncio.gather(self._stream, return_exceptions=True)
            self._stream = None
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def round(self) -> list[str]:
        """Everything once; what did not work, in words. Requests without an answer are "stuck"."""
        self._round += 1
        scenes = [
            self._group,
            self._expiring,
            self._topics,
            self._admin,
            self._http,
            self._pipelined,
            self._leaving,
            self._unread,
            self._large,
            self._events,
            self._simple,
        ]
        results = await asyncio.gather(*[scene() for scene in scenes], return_exceptions=True)
        problems = []
        for scene, result in zip(scenes, results, strict=True):
            if isinstance(result, Stuck):
                problems.append(f"stuck: {scene.__name__}: {result}")
            elif isinstance(result, Problem | OSError):
                problems.append(f"{scene.__name__}: {result}")
            elif isinstance(result, BaseException):
                problems.append(f"{scene.__name__}: {result!r}")
        return problems

    # --- groups ---

    async def _join(self, client: Client, group: str, member: str, **how: Any) -> Any:
        values = {"session_timeout": 20_000, "rebalance_timeout": 5_000, **how}
        return await client.call(
            "JoinGroup",
            5 if "group_instance_id" in how else 3,
            group_id=group,
            member_id=member,
            protocol_type="consumer",
            protocols=RANGE,
            **values,
        )

    async def _sync(self, client: Client, group: str, joined: Any) -> Any:
        shares = [
            {"member_id": each["member_id"], "assignment": b"x"} for each in joined["members"]
        ]
        return await client.call(
            "SyncGroup",
            1,
            group_id=group,
            generation_id=joined["generation_id"],
            member_id=joined["member_id"],
            assignments=shares,
        )

    async def _group(self) -> None:
        """Two members: a rebalance, heartbeats, commits, one leaves, the group is deleted."""
        group = f"pair-{self._round}"
        one, two = self._client("one"), self._client("two")
        first = expect("join", await self._join(one, group, ""))
        expect("sync", await self._sync(one, group, first))
        joining = asyncio.create_task(self._join(two, group, "", group_instance_id="static"))
        try:
            await self._await_rebalance(one, group, first)
            again = expect("rejoin", await self._join(one, group, first["member_id"]))
            second = expect("join of another", await joining)
        finally:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
        synced = await asyncio.gather(
            self._sync(one, group, again), self._sync(two, group, second), return_exceptions=True
        )
        for result in synced:
            if isinstance(result, BaseException):
                raise result
            expect("sync", result, "REBALANCE_IN_PROGRESS")
        await self._members_work(one, group, again)
        leaving = [{"member_id": again["member_id"]}, {"group_instance_id": "static"}]
        leaving = [{"member_id": "", "group_instance_id": None, **each} for each in leaving]
        expect("leave", await two.call("LeaveGroup", 3, group_id=group, members=leaving))
        expect(
            "delete", await one.call("DeleteGroups", 1, groups_names=[group]), "GROUP_ID_NOT_FOUND"
        )

    async def _await_rebalance(self, client: Client, group: str, joined: Any) -> None:
        member = {"generation_id": joined["generation_id"], "member_id": joined["member_id"]}
        for _ in range(200):
            reply = await client.call("Heartbeat", 1, group_id=group, **member)
            if reply["error_code"] == "REBALANCE_IN_PROGRESS":
                return
            expect("heartbeat", reply)
            await asyncio.sleep(0.005)
        raise Problem("a second member does not bring about a rebalance")

    async def _members_work(self, client: Client, group: str, joined: Any) -> None:
        member = {"generation_id": joined["generation_id"], "member_id": joined["member_id"]}
        for number in range(3):
            reply = await client.call("Heartbeat", 1, group_id=group, **member)
            expect("heartbeat", reply, "REBALANCE_IN_PROGRESS")
            expect("commit", await self._commit(client, group, number), "UNKNOWN_MEMBER_ID")
            reply = await client.call(
                "OffsetFetch", 5, group_id=group, topics=[{"name": "t", "partition_indexes": [0]}]
            )
            expect("fetch of offsets", reply)

    async def _commit(
        self, client: Client, group: str, offset: int, partitions: int = 1, text: str = ""
    ) -> Any:
        places = [
            {"partition_index": index, "committed_offset": offset, "committed_metadata": text}
            for index in range(partitions)
        ]
        return await client.call(
            "OffsetCommit",
            7,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[{"name": "t", "partitions": places}],
        )

    async def _expiring(self) -> None:
        """A member that is not heard of again."""
        client = self._client("expiring")
        joined = await self._join(client, f"expiring-{self._round % 5}", "", session_timeout=150)
        expect("join", joined)

    async def _simple(self) -> None:
        """Commits without members, which are deleted again."""
        client, group = self._client("simple"), f"simple-{self._round % 7}"
        for number in range(3):
            expect("commit", await self._commit(client, group, number, 20, "m" * 300))
        places = [{"partition_index": 1}]
        deleted = await client.call(
            "OffsetDelete", 0, group_id=group, topics=[{"name": "t", "partitions": places}]
        )
        expect("OffsetDelete", deleted)

    # --- topics ---

    async def _topics(self) -> None:
        client, name = self._client("topics"), f"topic-{self._round}"
        wanted = {"name": name, "num_partitions": 2, "replication_factor": 1}
        expect("create", await client.call("CreateTopics", 5, topics=[wanted], timeout=5_000))
        named = [{"name": name}, {"name": "t"}]
        expect("metadata", await client.call("Metadata", 5, topics=named))
        waiting = self._client("waiting")
        long_poll = asyncio.create_task(self._fetch(waiting, name, 0, max_wait=3_000))
        try:
            await asyncio.sleep(0.01)
            data = [{"index": 0, "records": batch(b"v" * 20_000)}]
            produced = await client.call(
                "Produce", 7, acks=-1, timeout=5_000, topic_data=_data(name, data)
            )
            expect("produce", produced)
            expect("fetch", await long_poll)
        finally:
            long_poll.cancel()
            await asyncio.gather(long_poll, return_exceptions=True)
        places = [{"partition_index": 0, "timestamp": each} for each in (-1, -2, 1)]
        for place in places:
            asked = [{"name": name, "partitions": [place]}]
            expect("list offsets", await client.call("ListOffsets", 5, replica_id=-1, topics=asked))
        expect("fetch", await self._fetch(client, "__consumer_offsets", 0, max_wait=0))
        deleted = await client.call("DeleteTopics", 4, topic_names=[name], timeout=5_000)
        expect("delete", deleted)

    async def _fetch(self, client: Client, name: str, offset: int, *, max_wait: int) -> Any:
        place = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        return await client.call(
            "Fetch",
            11,
            replica_id=-1,
            max_wait=max_wait,
            min_bytes=1,
            max_bytes=1 << 22,
            session_epoch=-1,
            topics=[{"topic": name, "partitions": [place]}],
        )

    # --- questions ---

    async def _admin(self) -> None:
        client = self._client("admin")
        expect("ApiVersions", await client.call("ApiVersions", 3, **_SOFTWARE))
        expect("DescribeCluster", await client.call("DescribeCluster", 0))
        expect("coordinator", await client.call("FindCoordinator", 1, key="pair", key_type=0))
        expect("all topics", await client.call("Metadata", 5, topics=None))
        expect("ListGroups", await client.call("ListGroups", 3))
        groups = ["background-0", "expiring-1", "simple-1", "nothing"]
        expect("DescribeGroups", await client.call("DescribeGroups", 3, groups=groups))

    async def _http(self) -> None:
        port = self._http_port
        for path in ("/metrics", "/healthz", "/api/groups", "/", "/api/groups/background-0"):
            status, _ = await http(port, path)
            if status != 200:
                raise Problem(f"GET {path}: {status}")
        for path in ("timeline", "why", "waiting"):
            await http(port, f"/api/groups/background-0/{path}")
        for path in ("rebalance", "members/nobody/kick"):
            url = f"/api/groups/expiring-1/{path}"
            await http(port, url, method="POST", body=b"{}", token=TOKEN)
        body = {"topic": "t", "to": "earliest"}
        url = "/api/groups/simple-1/offsets/reset"
        await http(port, url, method="POST", body=json.dumps(body).encode(), token=TOKEN)
        await http(port, "/api/groups/simple-2", method="DELETE", token=TOKEN)

    async def _events(self) -> None:
        """Read the event stream, which must yield an event in every round."""
        if self._stream is None or self._stream.done():
            self._stream = asyncio.create_task(self._read_events())
            await asyncio.sleep(0)

    async def _read_events(self) -> None:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._http_port)
            try:
                writer.write(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                while line := await reader.readline():
                    self.events += line.startswith(b"data:")
            finally:
                writer.close()

    # --- rough clients ---

    async def _pipelined(self) -> None:
        """Many heartbeats and commits at once, twice the same."""
        client = self._client("pipelined")
        connection = await client.connection()
        sent = []
        for number in range(20):
            heartbeat = {"group_id": "background-0", "generation_id": 1, "member_id": "nobody"}
            sent.append(connection.send("Heartbeat", 1, **heartbeat))
            asked = {"name": "t", "partition_indexes": [0, 1]}
            sent.append(connection.send("OffsetFetch", 5, group_id="simple-1", topics=[asked]))
            place = {"partition_index": 0, "committed_offset": number, "committed_metadata": ""}
            commit = {
                "group_id": "simple-3",
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": [{"name": "t", "partitions": [place]}],
            }
            sent.append(connection.send("OffsetCommit", 7, **commit))
        for each in sent:
            reply = await client.answer("a pipelined request", each)
            expect("pipelined", reply, "UNKNOWN_MEMBER_ID")

    async def _leaving(self) -> None:
        """A client that sends and is gone, one that sends nonsense, and one that sends half."""
        client = Client(self._bootstrap, "gone")
        joined = await self._join(client, "gone", "", session_timeout=150)
        connection = await client.connection()
        member = [{"member_id": joined["member_id"], "group_instance_id": None}]
        connection.send("JoinGroup", 3, **_join_of("gone"))
        connection.send("LeaveGroup", 3, group_id="gone", members=member)
        await client.close()
        for nonsense in (b"\0\0\0\x08nonsense", b"\xff\xff\xff\xff", b"\0\0\1\0half"):
            _, writer = await asyncio.open_connection(*_address(self._bootstrap))
            writer.write(nonsense)
            with suppress(OSError):
                await writer.drain()
            writer.close()

    async def _unread(self) -> None:
        """A client that reads late: the server has to stop writing and to go on."""
        loop = asyncio.get_running_loop()
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.setblocking(False)
        try:
            async with asyncio.timeout(2 * ANSWER_SECONDS):
                await loop.sock_connect(raw, _address(self._bootstrap))
                await self._read_late(loop, raw)
        except TimeoutError:
            raise Stuck("a client that reads late does not get all answers") from None
        except OSError as error:
            raise Problem(f"unread: {error}") from error
        finally:
            raw.close()

    async def _read_late(self, loop: asyncio.AbstractEventLoop, raw: socket.socket) -> None:
        place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        values = {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 22,
            "session_epoch": -1,
            "topics": [{"topic": "t", "partitions": [place]}],
        }
        sent = b"".join(
            frame(encode_request("Fetch", 11, number, "unread", values)) for number in range(UNREAD)
        )
        sending = asyncio.create_task(loop.sock_sendall(raw, sent))
        try:
            await asyncio.sleep(0.03)
            for _ in range(UNREAD):
                (size,) = struct.unpack(">i", await _exactly(loop, raw, 4))
                await _exactly(loop, raw, size)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _large(self) -> None:
        """A request that is decoded in slices; every few rounds one that fills segments."""
        places = [{"partition_index": index} for index in range(MANY)]
        many = [{"name": "t", "partitions": places}]
        asked = {"group_id": "nobody", "topics": many}
        reply = await self._client("many").call("OffsetDelete", 0, **asked)
        expect("large OffsetDelete", reply, "GROUP_ID_NOT_FOUND")
        if self._round % 4 == 0:
            client = self._client("large")
            expect(
                "large commit",
                await self._commit(client, "large", self._round, BIG_COMMIT, "l" * 260),
            )

    async def prepare(self) -> None:
        """Make the topic that all use, with something in it."""
        client = self._client("topics")
        wanted = {"name": "t", "num_partitions": BIG_COMMIT, "replication_factor": 1}
        with suppress(Problem):
            # The first connection may be the one that an exception of the start has closed.
            await client.call("ApiVersions", 0)
        reply = await client.call("CreateTopics", 5, topics=[wanted], timeout=5_000)
        expect("create", reply, "TOPIC_ALREADY_EXISTS")
        if "TOPIC_ALREADY_EXISTS" not in codes(reply):
            data = [{"index": 0, "records": batch(b"v" * 10_000)}]
            produced = await client.call(
                "Produce", 7, acks=-1, timeout=5_000, topic_data=_data("t", data)
            )
            expect("produce", produced)


def _data(name: str, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, "partition_data": data}]


def _join_of(group: str) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": 150,
        "rebalance_timeout": 1_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": RANGE,
    }


def _address(bootstrap: str) -> tuple[str, int]:
    host, port = bootstrap.rsplit(":", 1)
    return host, int(port)


async def _exactly(loop: asyncio.AbstractEventLoop, raw: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = await loop.sock_recv(raw, size - len(data))
        if not chunk:
            raise Problem("the connection was closed before all answers were read")
        data += chunk
    return data
