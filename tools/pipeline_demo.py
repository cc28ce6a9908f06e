"""Runs real clients and then the pipeline over the coordinator's log: `make pipeline`.

It starts a server with temporary data, and aiokafka consumers in separate processes; members join,
leave, are killed, freeze, and restart with the same instance id. Then the pipeline runs over the
log while the server still appends to it. All takes about 90 seconds, most of it in Spark.
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
class ExpectedRebalance:
    """A rebalance that an action of a client must cause."""

    group: str
    reason: str
    client: str
    took_ms: tuple[float, float]
    """The shortest and longest possible duration, measured at the clients."""
    at: float
    """The wall-clock time of the action, in seconds."""


class Scenario(Cast):
    """The actions of the clients; each waits for the rebalance that it causes."""

    def __init__(self, server: Server, screen: Screen, story: Story, stack: AsyncExitStack) -> None:
        """The exit of `stack` stops the clients."""
        super().__init__(server, screen, story, stack)
        self.expected: list[ExpectedRebalance] = []

    async def consumer(
        self, name: str, group: str = GROUP, instance: str = ""
    ) -> asyncio.subprocess.Process:
        """Start a consumer."""
        options = ["--name", name, "--group", group]
        if instance:
            options += ["--instance", instance]
        return await self.start("tools.demo", "consumer", *options)

    async def _announce(self, text: str) -> float:
        """Wait for commits, print the action, and return its time."""
        await asyncio.sleep(1.2)
        self._screen.say(text)
        return time.time()

    async def _expect(self, group: str, reason: str, client: str, at: float) -> None:
        def is_it(event: object) -> bool:
            return (
                isinstance(event, dict)
                and event["group"] == group
                and event["reason"] == reason
                and event["culprit"]["client_id"] == client
            )

        await self._story.wait_for(f"{reason} by {client} in {group}", is_it)
        took = (time.time() - at) * 1000
        self.expected.append(ExpectedRebalance(group, reason, client, (0, took), at))

    async def join(self, name: str) -> asyncio.subprocess.Process:
        """Start a consumer that joins the group."""
        at = await self._announce(f"{name} starts")
        member = await self.consumer(name)
        await self._expect(GROUP, "member_joined", name, at)
        return member

    async def run(self) -> None:
        """Run all actions."""
        await self.client("producer", "shop")
        first = await self.join("billing-1")
        second = await self.join("billing-2")
        third = await self.join("billing-3")
        at = await self._announce("billing-2 is asked to leave")
        await end(second)
        await self._expect(GROUP, "member_left", "billing-2", at)
        at = await self._announce("billing-3 is killed: its session must expire after 3 s")
        third.kill()
        await self._expect(GROUP, "session_expired", "billing-3", at)
        fourth = await self.join("billing-4")
        at = await self._announce("billing-4 freezes: its session must expire after 3 s")
        fourth.send_signal(signal.SIGSTOP)
        await self._expect(GROUP, "session_expired", "billing-4", at)
        fourth.kill()
        await self._static()
        assert first.returncode is None
        await asyncio.sleep(1.5)

    async def _static(self) -> None:
        at = await self._announce("ledger-1 starts as the static member node-1")
        old = await self.consumer("ledger-1", STATIC_GROUP, "node-1")
        await self._expect(STATIC_GROUP, "member_joined", "ledger-1", at)
        await self._announce(
            "ledger-1 is killed and restarts as node-1: it keeps its place without rebalance"
        )
        old.kill()
        await self.consumer("ledger-1b", STATIC_GROUP, "node-1")
        at = await self._announce("ledger-2 starts as node-2")
        await self.consumer("ledger-2", STATIC_GROUP, "node-2")
        await self._expect(STATIC_GROUP, "member_joined", "ledger-2", at)


async def run_demo(given: Path | None) -> None:
    """Run the clients, then the pipeline over the log of the running server."""
    directory = (given or Path(tempfile.mkdtemp(prefix="coordinator-pipeline-"))).resolve()
    data, out = directory / "data", directory / "tables"
    data.mkdir(parents=True)
    screen = Screen()
    story = Story(screen)
    server = Server(str(data))
    async with server.running(story), AsyncExitStack() as clients:
        scenario = Scenario(server, screen, story, clients)
        await scenario.run()
        expected = [asdict(one) for one in scenario.expected]
        (directory / "expected.json").write_text(json.dumps(expected))
        screen.say("the pipeline runs over the log while the clients continue")
        await _pipeline("run", "--log", str(data), "--out", str(out))
    screen.say(f"the report is {out / 'report.html'}")


async def _pipeline(*arguments: str) -> None:
    command = [sys.executable, "-m", "coordinator_pipeline", *arguments]
    ran = await asyncio.create_subprocess_exec(*command)
    if await ran.wait():
        raise DemoFailed(f"the pipeline exited with code {ran.returncode}")


def main() -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, help="a new directory for data, tables, report")
    return exit_code_of(run_demo(parser.parse_args().directory))


if __name__ == "__main__":
    sys.exit(main())
