"""Watch a group rebalance, and why: `make demo`.

Starts a server with temporary data, a producer and aiokafka consumers as processes of their own,
lets consumers join, leave and die, and prints every rebalance as the server logs it. Takes about
ten seconds and leaves nothing behind.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tools.ports import free_port

TOPIC = "orders"
PARTITIONS = 4
GROUP = "billing"
SESSION_MS = 3_000
PAUSE = 0.5
"""Seconds in which a group just works, between two acts."""
PATIENCE = 15.0
"""Seconds; a step that takes longer ends the demo."""

CAUSES = {
    "member_joined": "{who} joined",
    "member_left": "{who} left",
    "session_expired": "{who} was not heard of for its whole session of 3 s",
    "rebalance_timeout": "{who} did not rejoin in time",
    "sync_timeout": "{who} did not ask for its assignment in time",
    "leader_rejoined": "{who}, the leader, joined again",
    "follower_rejoined": "{who} joined again, with other partitions than before",
    "metadata_changed": "{who} changed its subscription",
}


class DemoFailed(Exception):
    """A step did not happen; says which."""


class Screen:
    """Lines for people, with the seconds since the start."""

    def __init__(self) -> None:
        """The clock starts now."""
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        """What the demo does."""
        print(f"{time.monotonic() - self._start:5.1f} s  {text}", flush=True)

    def rebalance(self, event: Mapping[str, Any]) -> None:
        """What the server says."""
        who = event["culprit"]["client_id"]
        cause = CAUSES.get(event["reason"], event["reason"] + " by {who}").format(who=who)
        took = event["join_phase_ms"] + event["sync_phase_ms"]
        self.say(
            f"    rebalance ({event['reason']}): {cause}; "
            f"generation {event['generation_before']} -> {event['generation_after']}, "
            f"members {event['members_before']} -> {event['members_after']}, "
            f"{event['outcome']} in {took} ms"
        )
        waited = [late["client_id"] for late in event["waited_for"]]
        if waited and took >= 100:
            self.say(f"        last to come: {', '.join(waited)}")


class Story:
    """What the server has logged so far, and a way to wait for more."""

    def __init__(self, screen: Screen) -> None:
        """Rebalances appear on `screen` as they are heard of."""
        self._screen = screen
        self._rebalances: list[Mapping[str, Any]] = []
        self._news = asyncio.Event()

    async def listen(self, log: asyncio.StreamReader, kept: list[str]) -> None:
        """Follow the server's log to its end; the last lines are kept for the case of trouble."""
        while line := await log.readline():
            text = line.decode(errors="replace").rstrip()
            kept.append(text)
            del kept[:-20]
            with suppress(ValueError):
                self._hear(json.loads(text))

    def _hear(self, event: Any) -> None:
        if isinstance(event, dict) and event.get("event") == "rebalance":
            self._rebalances.append(event)
            self._screen.rebalance(event)
            self._news.set()

    async def wait_for(self, what: str, seen: Callable[[Mapping[str, Any]], bool]) -> None:
        """Wait for the next rebalance of which `seen` is true; DemoFailed if there is none."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    while self._rebalances:
                        if seen(self._rebalances.pop(0)):
                            return
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise DemoFailed(f"no rebalance within {PATIENCE:g} s: {what}") from None

    async def members(self, number: int) -> None:
        """Wait until the group is stable with that many members."""
        await self.wait_for(f"{number} members", lambda event: event["members_after"] == number)


class Server:
    """The server's process and where it listens."""

    def __init__(self, data: str) -> None:
        """It will keep its data in that directory."""
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self.http = f"127.0.0.1:{free_port()}"
        self._settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "http.listener": self.http,
            "log.dirs": data,
            "log.format": "json",
            "topics": f"{TOPIC}:{PARTITIONS}",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
        }

    @asynccontextmanager
    async def running(self, story: Story) -> AsyncIterator[None]:
        """Run it, with `story` listening to its log; DemoFailed with that log if it cannot run."""
        settings = [f"--set={name}={value}" for name, value in self._settings.items()]
        last_lines: list[str] = []
        async with process("-m", "coordinator_server", "run", *settings, log=True) as server:
            assert server.stdout is not None
            listening = asyncio.create_task(story.listen(server.stdout, last_lines))
            try:
                await self._answers(server)
                yield
            except DemoFailed as error:
                raise DemoFailed("\n".join([str(error), *last_lines])) from error
            finally:
                listening.cancel()

    async def _answers(self, server: asyncio.subprocess.Process) -> None:
        host, port = self.bootstrap.split(":")
        for _ in range(200):
            if server.returncode is not None:
                raise DemoFailed(f"the server ended with {server.returncode}")
            with suppress(OSError):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.close()
                return
            await asyncio.sleep(0.05)
        raise DemoFailed("the server does not listen")


@asynccontextmanager
async def process(*arguments: str, log: bool = False) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python process that is gone at the end."""
    pipe = asyncio.subprocess.PIPE if log else asyncio.subprocess.DEVNULL
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=asyncio.subprocess.STDOUT if log else asyncio.subprocess.DEVNULL,
        limit=1 << 20,
    )
    try:
        yield started
    finally:
        await end(started)


async def end(started: asyncio.subprocess.Process) -> None:
    """SIGTERM, and kill -9 if that does not help."""
    with suppress(ProcessLookupError):
        started.terminate()
    try:
        async with asyncio.timeout(6):
            await started.wait()
    except TimeoutError:
        started.kill()
        await started.wait()


class Cast:
    """Clients of a server, each a process of its own."""

    def __init__(self, server: Server, screen: Screen, story: Story, stack: AsyncExitStack) -> None:
        """Clients started here end with `stack`."""
        self._server = server
        self._screen = screen
        self._story = story
        self._stack = stack

    async def start(self, module: str, role: str, *options: str) -> asyncio.subprocess.Process:
        """Start a module as a client in that role."""
        arguments = (role, "--bootstrap", self._server.bootstrap, *options)
        return await self._stack.enter_async_context(process("-m", module, *arguments))

    async def client(self, role: str, name: str) -> asyncio.subprocess.Process:
        """Start this program as a consumer or the producer."""
        return await self.start("tools.demo", role, "--name", name)


class Demo(Cast):
    """The acts."""

    async def play(self) -> None:
        """Members come, leave and die."""
        self._screen.say(
            f"the server listens on {self._server.bootstrap}; {TOPIC}: {PARTITIONS} partitions"
        )
        await self.client("producer", "shop")
        consumers = []
        for number in (1, 2, 3):
            await self._act(f"consumer-{number} starts")
            consumers.append(await self.client("consumer", f"consumer-{number}"))
            await self._story.members(number)
        await self._act("consumer-2 is asked to leave")
        await end(consumers[1])
        await self._story.members(2)
        await self._act("consumer-3 is killed: nobody says goodbye")
        consumers[2].kill()
        await self._story.members(1)
        await self._act("consumer-4 starts")
        await self.client("consumer", "consumer-4")
        await self._story.members(2)
        await self._ask_why()

    async def _act(self, title: str) -> None:
        await asyncio.sleep(PAUSE)
        self._screen.say(title)

    async def _ask_why(self) -> None:
        """The same from the server's memory, as an operator would ask for it."""
        self._screen.say(f"coordinator-server groups why {GROUP}")
        http = f"http://{self._server.http}"
        async with process(
            *("-m", "coordinator_server", "groups", "why", GROUP, "--http", http), log=True
        ) as asked:
            answer, _ = await asked.communicate()
        shown = answer.decode(errors="replace").splitlines()[:11]
        print("\n".join(f"         {line}" for line in shown), flush=True)


async def play() -> None:
    """The whole demo; raises DemoFailed."""
    screen = Screen()
    story = Story(screen)
    with tempfile.TemporaryDirectory(prefix="coordinator-demo-") as data:
        server = Server(data)
        async with server.running(story), AsyncExitStack() as clients:
            await Demo(server, screen, story, clients).play()
            screen.say("that was it: everybody leaves, the server stops")


async def consume(
    bootstrap: str, name: str, asked: asyncio.Event, group: str, instance: str
) -> None:
    """A consumer that commits what it reads, until `asked` to leave."""
    from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]

    async with AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=name,
        group_instance_id=instance or None,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=300,
        auto_commit_interval_ms=300,
    ) as consumer:
        while not asked.is_set():
            await consumer.getmany(timeout_ms=200)


async def produce(bootstrap: str, name: str, asked: asyncio.Event) -> None:
    """A producer that writes a record to each partition ten times a second."""
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=bootstrap, client_id=name) as producer:
        number = 0
        while not asked.is_set():
            for partition in range(PARTITIONS):
                await producer.send_and_wait(TOPIC, b"order %d" % number, partition=partition)
                number += 1
            await asyncio.sleep(0.1)


async def client(role: str, bootstrap: str, name: str, group: str, instance: str) -> None:
    """Be a client until SIGTERM."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    if role == "consumer":
        await consume(bootstrap, name, asked, group, instance)
    else:
        await produce(bootstrap, name, asked)


def exit_code_of(story: Coroutine[Any, Any, None]) -> int:
    """Play a story; the exit code, and what went wrong in one line."""
    os.chdir(Path(__file__).resolve().parent.parent)
    try:
        asyncio.run(story)
    except (DemoFailed, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def main() -> int:
    """The demo, or one of its clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", nargs="?", choices=("consumer", "producer"))
    for name in ("bootstrap", "name", "instance"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--group", default=GROUP)
    given = parser.parse_args()
    if given.role:
        return exit_code_of(client(**vars(given)))
    return exit_code_of(play())


if __name__ == "__main__":
    sys.exit(main())
