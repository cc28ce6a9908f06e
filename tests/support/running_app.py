"""A server on the event loop of a test, on any files, and a client beside it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from coordinator_server.app import App
from coordinator_server.config import load_exactly
from coordinator_server.server.substitutes import Substitutes
from coordinator_server.storage.segments.files import Files
from tests.oracle.oracle.wire import Reply
from tests.support.wire import RawConnection

SMALL = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.segment.bytes": "4000",
    "log.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "20",
    "group.initial.rebalance.delay.ms": "0",
    "http.listener": "",
}
"""Settings with which a few requests go through all that a server does with its files."""


@asynccontextmanager
async def running_app(
    data: Path,
    files: Files,
    settings: Mapping[str, str] | None = None,
    built: Callable[[], None] = lambda: None,
) -> AsyncIterator[App]:
    """A server that is ready and has a topic "orders"; `built` is called before it starts."""
    config = load_exactly(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            **SMALL,
            **(settings or {}),
            "log.dirs": str(data),
        },
        "a test",
    )
    app = App(config, Substitutes(files=files))
    built()
    await app.start()
    try:
        while not app.coordinator.is_ready:  # noqa: ASYNC110 - nobody tells, it is soon
            await asyncio.sleep(0.001)
        if app.topics.catalog.get("orders") is None:
            await app.create_topic("orders", 20)
        yield app
    finally:
        await app.stop()


class Caller:
    """A client whose blocking calls are made in a thread."""

    def __init__(self, app: App) -> None:
        self._connection = RawConnection(f"127.0.0.1:{app.port()}", timeout=30)

    async def call(self, api: str, version: int, /, **values: Any) -> Reply:
        """Send a request and wait for its answer."""
        return await asyncio.to_thread(self._connection.call, api, version, **values)

    async def commit(self, offset: int, group: str = "g", partitions: int = 1) -> str:
        """Commit an offset of some partitions; the error."""
        topic = {
            "name": "orders",
            "partitions": [
                {"partition_index": index, "committed_offset": offset, "committed_metadata": ""}
                for index in range(partitions)
            ],
        }
        reply = await self.call(
            "OffsetCommit",
            5,
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[topic],
        )
        code: str = reply["topics"][0]["partitions"][0]["error_code"]
        return code

    async def fetched(self, group: str = "g") -> int:
        """The offset that a group has committed."""
        asked = [{"name": "orders", "partition_indexes": [0]}]
        reply = await self.call("OffsetFetch", 5, group_id=group, topics=asked)
        offset: int = reply["topics"][0]["partitions"][0]["committed_offset"]
        return offset

    async def join(self, group: str = "g") -> dict[str, Any]:
        """Become the one member of a group; what names it in a request."""
        asked = {
            "group_id": group,
            "session_timeout": 30_000,
            "rebalance_timeout": 30_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        joined = await self.call("JoinGroup", 4, **asked)
        if joined["error_code"] == "MEMBER_ID_REQUIRED":
            joined = await self.call("JoinGroup", 4, **{**asked, "member_id": joined["member_id"]})
        assert joined["error_code"] == "NONE", joined
        member = {
            "group_id": group,
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
        }
        assignments = [{"member_id": joined["member_id"], "assignment": b"x"}]
        synced = await self.call("SyncGroup", 1, **member, assignments=assignments)
        assert synced["error_code"] == "NONE", synced
        return member

    async def heartbeat(self, member: dict[str, Any]) -> str:
        """The error of a heartbeat."""
        reply = await self.call("Heartbeat", 1, **member)
        code: str = reply["error_code"]
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
