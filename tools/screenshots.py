"""Take the pictures of the page and the dashboard in `docs/screenshots`: `make screenshots`.

A server with temporary data, real consumers that come, leave and die, a member that comes and goes,
requests that are refused and a member that does not come back: then the page is photographed while
the group waits for it, and Grafana's dashboard, which `tools/dashboard.py` draws. Needs Chromium
and Prometheus, takes about half a minute and leaves nothing behind but the pictures.
"""

import argparse
import asyncio
import os
import shutil
import struct
import sys
import tempfile
import time
import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.async_api import Browser, Error, async_playwright

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.messages.heartbeat import HeartbeatRequest
from coordinator_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coordinator_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from coordinator_protocol.messages.sync_group import SyncGroupRequest
from coordinator_protocol.subscription import Subscription, encode_subscription
from coordinator_server.cli.groups.kafka import KafkaConnection
from tools.dashboard import page as dashboard_page
from tools.dashboard import prometheus
from tools.demo import GROUP, TOPIC, Cast, DemoFailed, Screen, Server, Story, end

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "screenshots"
TIMES = 6
"""That a member comes and goes: six rebalances by the same are flapping."""
ABSENT_MS = 60_000
"""For so long the group waits for the member that does not rejoin."""
PATIENCE_MS = 15_000


class Shot(NamedTuple):
    """One picture."""

    name: str
    path: str
    width: int
    height: int
    scheme: Literal["light", "dark"]
    shows: str
    """A selector that is there once the page is."""


SHOTS = (
    Shot("groups", "/", 1280, 420, "light", "main table"),
    Shot("group", f"/#/groups/{GROUP}", 1280, 1100, "light", "#waiting table"),
    Shot("group-dark", f"/#/groups/{GROUP}", 1280, 800, "dark", "#waiting table"),
    Shot("group-phone", f"/#/groups/{GROUP}", 360, 900, "light", "#waiting table"),
    Shot("groups-phone-dark", "/", 360, 520, "dark", "main table"),
)


class Sitting(Cast):
    """The acts up to the pictures."""

    async def play(self) -> None:
        """Everything up to the moment of the pictures."""
        await self.client("producer", "shop")
        consumers = []
        for number in (1, 2, 3):
            consumers.append(await self.client("consumer", f"consumer-{number}"))
            await self._story.members(number)
            await asyncio.sleep(1)
        await end(consumers[1])
        await self._story.members(2)
        await asyncio.sleep(1)
        consumers[2].kill()
        await self._story.members(1)
        await self.client("consumer", "consumer-4")
        await self._story.members(2)
        await asyncio.to_thread(self._come_and_go)
        await asyncio.to_thread(self._ask_what_is_refused)
        await asyncio.to_thread(self._join_and_stay_away)
        await self.client("consumer", "consumer-5")

    def _connection(self, client_id: str) -> KafkaConnection:
        host, port = self._server.bootstrap.split(":")
        return KafkaConnection(host, int(port), client_id)

    def _ask_what_is_refused(self) -> None:
        connection = self._connection("consumer-3")
        request = HeartbeatRequest(group_id=GROUP, generation_id=4, member_id="consumer-3-returned")
        for _ in range(3):
            connection.call(ApiKey.HEARTBEAT, request)
        connection.close()

    def _come_and_go(self) -> None:
        """Often enough to be found."""
        for _ in range(TIMES):
            connection = self._connection("batch-7")
            members = [MemberIdentity(self._join(connection), reason="its work is done")]
            leave = LeaveGroupRequest(group_id=GROUP, members=members)
            connection.call(ApiKey.LEAVE_GROUP, leave)
            connection.close()

    def _join_and_stay_away(self) -> None:
        connection = self._connection("consumer-6")
        self._join(connection)
        connection.close()

    def _join(self, connection: KafkaConnection) -> str:
        """Join and sync; the member id."""
        metadata = encode_subscription(Subscription([TOPIC]))
        join = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=ABSENT_MS,
            rebalance_timeout_ms=ABSENT_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="roundrobin", metadata=metadata)],
        )
        join.member_id = connection.call(ApiKey.JOIN_GROUP, join).member_id
        joined = connection.call(ApiKey.JOIN_GROUP, join)
        sync = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="roundrobin",
        )
        connection.call(ApiKey.SYNC_GROUP, sync)
        return str(join.member_id)


async def photograph(browser: Browser, http: str, shot: Shot) -> bytes:
    """Take one picture."""
    page = await browser.new_page(
        viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.scheme
    )
    page.set_default_timeout(PATIENCE_MS)
    await page.goto(f"http://{http}{shot.path}")
    await page.wait_for_selector(shot.shows)
    await page.wait_for_selector('#live[data-state="up"]')
    picture = smaller(await page.screenshot())
    print(f"{shot.name}.png: {len(picture) / 1024:.0f} KiB")
    await page.close()
    return picture


async def photograph_dashboard(browser: Browser, drawn: str) -> bytes:
    """Take the picture of the drawn dashboard."""
    page = await browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="dark")
    await page.set_content(drawn)
    picture = smaller(await page.screenshot(full_page=True))
    print(f"dashboard.png: {len(picture) / 1024:.0f} KiB")
    await page.close()
    return picture


def smaller(png: bytes) -> bytes:
    """The same picture, compressed as far as zlib goes: browsers prefer to be fast."""
    chunks, at = [], 8
    data = bytearray()
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        if kind == b"IDAT":
            data += body
        elif kind in (b"IHDR", b"IEND"):
            chunks.append((kind, body))
        at += size + 12
    chunks.insert(1, (b"IDAT", zlib.compress(zlib.decompress(bytes(data)), 9)))
    return png[:8] + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


async def take(chromium: str) -> dict[str, bytes]:
    """The story, and the pictures of it; raises DemoFailed, Error."""
    pictures = {}
    scraper = shutil.which("prometheus")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="coordinator-screenshots-") as data:
        screen = Screen()
        server, story = Server(data), Story(screen)
        async with (
            server.running(story),
            AsyncExitStack() as stack,
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(executable_path=chromium, args=arguments)
            begun, url = time.time(), ""
            if scraper is not None:
                url = await stack.enter_async_context(prometheus(scraper, Path(data), server.http))
            await Sitting(server, screen, story, stack).play()
            for shot in SHOTS:
                pictures[shot.name] = await photograph(browser, server.http, shot)
            if url:
                drawn = await asyncio.to_thread(dashboard_page, url, begun, time.time())
                pictures["dashboard"] = await photograph_dashboard(browser, drawn)
            else:
                print("dashboard.png is left as it is: no prometheus on this machine")
            await browser.close()
    return pictures


def main() -> int:
    """Take them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to put them")
    folder: Path = parser.parse_args().folder
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("error: no chromium on this machine (Debian: apt install chromium)", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, picture in asyncio.run(take(chromium)).items():
            (folder / f"{name}.png").write_bytes(picture)
    except (DemoFailed, Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
