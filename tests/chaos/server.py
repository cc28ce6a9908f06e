"""A server whose points can be armed, as the harness sees it."""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.chaos.load import TOKEN
from tests.chaos.requests import Problem, Stuck, http
from tests.support.client_processes import ROOT
from tools.ports import free_port

STOP_SECONDS = 5.0
"""How long a server may take to end after SIGTERM."""
SLACK_SECONDS = 1.0
"""The extra time for a busy machine."""
READY_SECONDS = 15.0

Arm = tuple[str, str, int, int]
"""A point, an exception, how often, and after how many hits."""

SETTINGS = {
    "log.format": "json",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.segment.bytes": "60000",
    "offsets.commit.timeout.ms": "1500",
    "offsets.retention.check.interval.ms": "300",
    "log.segment.bytes": "1048576",
    "log.journal.bytes": "400000",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.2",
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "connections.max.idle.ms": "60000",
    "rebalance.history.max.records": "20",
    "metrics.groups.allow": "background.*",
    "admin.token": TOKEN,
}

_USUAL = ('"level": "info"', '"session_ended"', '"connection_closed"')
"""Parts of lines that the load brings about."""


class Died(Exception):
    """The server ended unexpectedly."""


class Server:
    """One data directory, and the processes that serve it one after the other."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, plant: str = ""
    ) -> None:
        """`plant` names a bug of the launcher's that the server is to have."""
        self._plant = plant
        self.directory = directory
        self.port = free_port()
        self.http_port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.log = directory / "server.log"
        self.exit_code: int | None = None
        self.final: dict[str, Any] = {}
        """Hits and kinds as the process said at its end."""
        self.struck: list[str] = []
        """The points that raised, in their order."""
        self.pid = 0
        self._settings = {
            **SETTINGS,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "http.listener": f"127.0.0.1:{self.http_port}",
            "log.dirs": str(directory / "data"),
            **(settings or {}),
        }
        self._launcher: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Server | None = None
        self._control: asyncio.StreamWriter | None = None
        self._connected = asyncio.Event()
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._seen = 0

    # --- the launcher ---

    async def __aenter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        # A path of a socket must be short, which that of a test's directory is not.
        self._sockets = tempfile.TemporaryDirectory(prefix="chaos-")
        path = f"{self._sockets.name}/control"
        self._listening = await asyncio.start_unix_server(self._hear, path, limit=1 << 24)
        self._launcher = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.chaos.launcher", path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        await self._launched("ready")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()
        await self.ended(10)
        if self._control is not None:
            self._control.close()
        if self._launcher is not None and self._launcher.stdin is not None:
            self._launcher.stdin.close()
            await self._launcher.wait()
        if self._listening is not None:
            self._listening.close()
            await self._listening.wait_closed()
        # Transports that were closed are gone a little later.
        await asyncio.sleep(0.1)
        self._sockets.cleanup()

    async def _launched(self, word: str) -> Any:
        assert self._launcher is not None
        assert self._launcher.stdout is not None
        line = await self._launcher.stdout.readline()
        if not line:
            raise RuntimeError("the launcher has ended")
        said = json.loads(line)
        if word not in said:
            raise RuntimeError(f"the launcher said {said}, not {word!r}")
        return said[word]

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._control = writer
        self._connected.set()
        while line := await _line(reader):
            said = json.loads(line)
            if "struck" in said:
                self.struck.append(said["struck"])
            elif "hits" in said and "kinds" in said:
                self.final = said
            else:
                self._answers.put_nowait(said)
        writer.close()

    async def order(self, **order: Any) -> dict[str, Any]:
        """Tell the server's injector something, and wait for the answer. Raises Died, Stuck."""
        if self._control is None or not self.running:
            raise Died(self.end_text())
        self._control.write(json.dumps(order).encode() + b"\n")
        answer = asyncio.create_task(self._answers.get())
        ended = asyncio.create_task(self._ended.wait())
        done, _ = await asyncio.wait(
            {answer, ended}, timeout=10, return_when=asyncio.FIRST_COMPLETED
        )
        ended.cancel()
        if answer in done:
            return answer.result()
        answer.cancel()
        if done:
            raise Died(self.end_text())
        raise Stuck("the server's process does not run Python any more")

    # --- the process ---

    @property
    def running(self) -> bool:
        """Whether a process was started and has not ended."""
        return bool(self.pid) and not self._ended.is_set()

    async def start(self, points: Sequence[Arm] = (), *, record: bool = False) -> None:
        """Start a process; it need not serve when this returns."""
        assert self._launcher is not None
        assert self._launcher.stdin is not None
        arguments = ["run"]
        for name, value in self._settings.items():
            arguments += ["--set", f"{name}={value}"]
        order = {
            "arguments": arguments,
            "log": str(self.log),
            "points": points,
            "record": record,
            "plant": self._plant,
        }
        self._connected.clear()
        self._ended.clear()
        self._answers = asyncio.Queue()
        self.struck.clear()
        self.final, self.exit_code = {}, None
        self._launcher.stdin.write(json.dumps(order).encode() + b"\n")
        self.pid = await self._launched("pid")
        self._waiting = asyncio.create_task(self._wait())
        await asyncio.wait_for(self._connected.wait(), 10)

    async def _wait(self) -> None:
        self.exit_code = await self._launched("ended")
        self._ended.set()

    async def ended(self, within: float) -> bool:
        """Wait for the process to end; whether it has, or there was none."""
        if not self.pid:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._ended.wait()
        return self._ended.is_set()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it runs."""
        if self.running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill -9."""
        self.signal(signal.SIGKILL)

    async def stop(self) -> list[str]:
        """SIGTERM, and kill -9 where that is not enough; what went wrong."""
        began = time.monotonic()
        self.signal(signal.SIGTERM)
        if await self.ended(STOP_SECONDS + SLACK_SECONDS):
            if self.exit_code != 0:
                return [f"exit code {self.exit_code} after SIGTERM{self.log_end()}"]
            return []
        self.signal(signal.SIGUSR1)  # has it write the stacks of its threads
        await asyncio.sleep(0.3)
        self.kill()
        await self.ended(5)
        return [f"runs {time.monotonic() - began:.1f} s after SIGTERM{self.log_end()}"]

    async def ready(self, within: float = READY_SECONDS) -> None:
        """Wait until every partition is served. Raises Problem, Died."""
        until = time.monotonic() + within
        problem = "the server is not ready"
        while time.monotonic() < until:
            if not self.running:
                raise Died(self.end_text())
            try:
                status, body = await http(self.http_port, "/readyz")
                if status == 200:
                    return
                problem = f"/readyz: {status} {body[:2000]!r}"
            except (Problem, Stuck) as error:
                problem = str(error)
            await asyncio.sleep(0.02)
        raise Problem(problem)

    # --- its log ---

    def end_text(self) -> str:
        """How the process ended."""
        return f"the server ended with {self.exit_code}{self.log_end()}"

    def log_end(self, lines: int = 8) -> str:
        """The last lines of its log that are no mere information."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        told = [line for line in text.splitlines() if not any(word in line for word in _USUAL)]
        return "".join(f"\n        | {line[-400:]}" for line in told[-lines:])

    def new_lines(self, wanted: Callable[[str], bool]) -> list[str]:
        """Lines of the log that have come since this was last asked."""
        with self.log.open("rb") as log:
            log.seek(self._seen)
            data = log.read()
        end = data.rfind(b"\n") + 1
        self._seen += end
        return [line for line in data[:end].decode(errors="replace").splitlines() if wanted(line)]


async def _line(reader: asyncio.StreamReader) -> bytes:
    """A line; none from a process that was killed."""
    try:
        return await reader.readline()
    except OSError:
        return b""
