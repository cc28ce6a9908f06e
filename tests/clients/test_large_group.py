"""A group whose answers do not fit into one turn of the event loop, over real connections."""

import asyncio
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coordinator_server.runtime.sender import REPLIES_PER_TURN
from tests.oracle.oracle.wire import Reply, decode_response, encode_request, frame
from tests.support.server import ServerProcess
from tests.support.wire import LOADING, address

MEMBERS = 2 * REPLIES_PER_TURN + 90
SECONDS = 60
JOINING = {
    "session_timeout": 30_000,
    "rebalance_timeout": 1_000 * SECONDS,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"topics"}],
}


class Member:
    """One member with a connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._who: dict[str, Any] = {"group_id": "large", "member_id": ""}

    async def call(self, api: str, version: int, values: Mapping[str, Any]) -> Reply:
        """Send a request of this member and wait for its answer."""
        request = encode_request(api, version, 1, "large", {**self._who, **values})
        self._writer.write(frame(request))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return decode_response(api, version, await self._reader.readexactly(size))

    async def join_and_sync(self) -> bytes:
        """The assignment that the leader has made for it."""
        joined = await self.call("JoinGroup", 3, JOINING)
        while joined["error_code"] in LOADING:
            await asyncio.sleep(0.1)  # the partition is being loaded
            joined = await self.call("JoinGroup", 3, JOINING)
        assert joined["error_code"] == "NONE", joined
        assert joined["generation_id"] == 1
        self._who["member_id"] = joined["member_id"]
        self._who["generation_id"] = joined["generation_id"]
        assignments = [
            {"member_id": member["member_id"], "assignment": member["member_id"].encode()}
            for member in joined["members"]
        ]
        synced = await self.call("SyncGroup", 2, {"assignments": assignments})
        assert synced["error_code"] == "NONE", synced
        return bytes(synced["assignment"])

    async def heartbeat(self) -> str:
        """The error, if any."""
        beaten = await self.call("Heartbeat", 2, {})
        return str(beaten["error_code"])

    @property
    def member_id(self) -> str:
        """As the coordinator has named it."""
        return str(self._who["member_id"])

    def close(self) -> None:
        """End its connection."""
        self._writer.close()


async def test_all_members_of_a_group_larger_than_a_turn_are_answered(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": "3000"}
    with ServerProcess(tmp_path / "server", settings) as server:
        host, port = address(server.bootstrap)
        members = [Member(*await asyncio.open_connection(host, port)) for _ in range(MEMBERS)]
        async with asyncio.timeout(SECONDS):
            assigned = await asyncio.gather(*(member.join_and_sync() for member in members))
            errors = await asyncio.gather(*(member.heartbeat() for member in members))
        assert assigned == [member.member_id.encode() for member in members]
        assert set(errors) == {"NONE"}
        assert not server.bugs()
        for member in members:
            member.close()
