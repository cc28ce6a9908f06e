"""The server as a real process, to be killed and started again; or one that runs elsewhere."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.client_processes import ROOT
from tests.support.wire import RawConnection
from tools.ports import free_port

EXTERNAL = "COORDINATOR_BOOTSTRAP"
"""Environment variable: `host:port` of a server to test in place of our own, such as a Kafka."""

BUG = re.compile(r'Traceback|"level": "(error|critical)"|"event": "request_failed"')


def wait_until_it_answers(bootstrap: str, within: float) -> None:
    """Ask FindCoordinator until it names a node; raises TimeoutError when it does not."""
    deadline = time.monotonic() + within
    while True:
        try:
            with RawConnection(bootstrap, timeout=max(0.1, deadline - time.monotonic())) as asked:
                reply = asked.call("FindCoordinator", 1, key="is-it-up", key_type=0)
            if reply["error_code"] == "NONE":
                return
            problem = reply["error_code"]
        except OSError as error:
            problem = str(error)
        if time.monotonic() >= deadline:
            raise TimeoutError(f"FindCoordinator of {bootstrap} after {within} s: {problem}")
        time.sleep(0.02)


class ServerProcess:
    """A server with a data directory and ports that stay the same over restarts."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        program: Sequence[str] = ("coordinator_server",),
    ) -> None:
        """Prepare it; `settings` are properties besides the addresses and the directory.

        `program` is the module to run, and arguments of its own.
        """
        self.directory = directory
        self.port = free_port()
        self.http_port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.log = directory / "server.log"
        self._program = program
        self._settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "http.listener": f"127.0.0.1:{self.http_port}",
            "log.dirs": str(directory / "data"),
            "log.format": "json",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether there is a process and it has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process's id; raises RuntimeError when there is none."""
        return self._running().pid

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"the server is not running\n{self.log_tail()}")
        return self._process

    def start(self, within: float = 20.0) -> None:
        """Start it and wait until it answers; raises RuntimeError with its log if it does not."""
        if self.running:
            raise RuntimeError("the server is running already")
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", *self._program, "run"]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
            )
        try:
            self._wait_until_it_answers(within)
        except (TimeoutError, RuntimeError) as error:
            self.close()
            raise RuntimeError(f"the server did not start: {error}\n{self.log_tail()}") from error

    def _wait_until_it_answers(self, within: float) -> None:
        deadline = time.monotonic() + within
        while True:
            try:
                wait_until_it_answers(self.bootstrap, 0.5)
            except TimeoutError:
                self._running()
                if time.monotonic() >= deadline:
                    raise
            else:
                return

    def kill(self) -> None:
        """Kill -9: nothing is flushed, nobody is told."""
        process = self._running()
        process.kill()
        process.wait()

    def ended(self, within: float) -> int | None:
        """Wait for it to end by itself: its exit code, None if it still runs."""
        assert self._process is not None
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self, within: float = 15.0) -> int:
        """SIGTERM; its exit code. Raises AssertionError with the log if it goes on running."""
        process = self._running()
        process.terminate()
        try:
            return process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"the server runs {within} s after SIGTERM\n{self.log_tail()}"
            ) from None

    def restart(self) -> None:
        """Kill -9 and start again on the same data and port."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it in whatever state it is."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def get(self, path: str) -> str:
        """A page of its HTTP listener; raises OSError for anything but success."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=10) as page:
            body: bytes = page.read()
        return body.decode()

    def resident_bytes(self) -> int:
        """The memory it occupies now."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def log_text(self) -> str:
        """Its whole log, of all starts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def bugs(self) -> list[str]:
        """Lines of its log that should never be there: stack traces, errors, failed requests."""
        return [line for line in self.log_text().splitlines() if BUG.search(line)]

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of its log."""
        return "\n".join(self.log_text().splitlines()[-lines:])
