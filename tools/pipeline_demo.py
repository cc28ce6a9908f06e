"""A story of real clients, and what the pipeline makes of it: `make pipeline`.

Starts a server with temporary data and aiokafka consumers as processes of their own; members join,
leave, are killed, freeze, and restart with the same instance id. Then the pipeline runs over the
log, which the server goes on writing. Takes about a minute and a half, most of it Spark.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.demo import Cast, DemoFailed, Screen, Server, Story, end, exit_code_of

GROUP = "billing"
STATIC_GROUP = "ledger"


@dataclass
class Done:
    """Something the clients were made to do, and the rebalance that must come of it."""

    group: str
    reason: str
    client: str
    took_ms: tuple[float, float]
    """At least and at most, as far as the clients' side can tell."""
    at: float
    """Wall-clock seconds when it was done."""


class Play(Cast):
    """The acts; each waits for what it causes."""

    def __init__(self, server: Server, screen: Screen, story: Story, stack: AsyncExitStack) -> None:
        """Clients started here end with `stack`."""
        super().__init__(server, screen, story, stack)
        self.done: list[Done] = []

    async def consumer(
        self, name: str, group: str = GROUP, instance: str = ""
    ) -> asyncio.subprocess.Process:
        """Start a consumer."""
        options = ["--name", name, "--group", group]
        if instance:
            options += ["--instance", instance]
        return await self.start("tools.demo", "consumer", *options)

    async def _act(self, text: str) -> float:
        """Commits happen before and after."""
        await asyncio.sleep(1.2)
        self._screen.say(text)
        return time.time()

    async def _caused(self, group: str, reason: str, client: str, at: float) -> None:
        def is_it(event: object) -> bool:
            return (
                isinstance(event, dict)
                and event["group"] == group
                and event["reason"] == reason
                and event["culprit"]["client_id"] == client
            )

        await self._story.wait_for(f"{reason} by {client} in {group}", is_it)
        took = (time.time() - at) * 1000
        self.done.append(Done(group, reason, client, (0, took), at))

    async def join(self, name: str) -> asyncio.subprocess.Process:
        """A member comes."""
        at = await self._act(f"{name} starts")
        member = await self.consumer(name)
        await self._caused(GROUP, "member_joined", name, at)
        return member

    async def play(self) -> None:
        """All acts."""
        await self.client("producer", "shop")
        first = await self.join("billing-1")
        second = await self.join("billing-2")
        third = await self.join("billing-3")
        at = await self._act("billing-2 is asked to leave")
        await end(second)
        await self._caused(GROUP, "member_left", "billing-2", at)
        at = await self._act("billing-3 is killed: its session of 3 s must expire")
        third.kill()
        await self._caused(GROUP, "session_expired", "billing-3", at)
        fourth = await self.join("billing-4")
        at = await self._act("billing-4 freezes: its session expires too")
        fourth.send_signal(signal.SIGSTOP)
        await self._caused(GROUP, "session_expired", "billing-4", at)
        fourth.kill()
        await self._static()
        assert first.returncode is None
        await asyncio.sleep(1.5)

    async def _static(self) -> None:
        at = await self._act("ledger-1 starts as the static member node-1")
        old = await self.consumer("ledger-1", STATIC_GROUP, "node-1")
        await self._caused(STATIC_GROUP, "member_joined", "ledger-1", at)
        await self._act("ledger-1 is killed and started again: no rebalance, it keeps its place")
        old.kill()
        await self.consumer("ledger-1b", STATIC_GROUP, "node-1")
        at = await self._act("ledger-2 starts as node-2")
        await self.consumer("ledger-2", STATIC_GROUP, "node-2")
        await self._caused(STATIC_GROUP, "member_joined", "ledger-2", at)


async def play(given: Path | None) -> None:
    """The story in a directory, and the pipeline over its live log."""
    directory = (given or Path(tempfile.mkdtemp(prefix="coordinator-pipeline-"))).resolve()
    data, out = directory / "data", directory / "tables"
    data.mkdir(parents=True)
    screen = Screen()
    story = Story(screen)
    server = Server(str(data))
    async with server.running(story), AsyncExitStack() as clients:
        acts = Play(server, screen, story, clients)
        await acts.play()
        (directory / "done.json").write_text(json.dumps([asdict(done) for done in acts.done]))
        screen.say("the pipeline runs over the log, while clients go on")
        await _pipeline("run", "--log", str(data), "--out", str(out))
    screen.say(f"the report: {out / 'report.html'}")


async def _pipeline(*arguments: str) -> None:
    command = [sys.executable, "-m", "coordinator_pipeline", *arguments]
    ran = await asyncio.create_subprocess_exec(*command)
    if await ran.wait():
        raise DemoFailed(f"the pipeline ended with {ran.returncode}")


def main() -> int:
    """The story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, help="a new directory for data, tables, report")
    return exit_code_of(play(parser.parse_args().directory))


if __name__ == "__main__":
    sys.exit(main())
