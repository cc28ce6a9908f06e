"""SIGHUP reads the settings again, or stops a server that runs in a terminal."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.config import Config, ConfigError
from coordinator_server.config.sources import ConfigProblem
from coordinator_server.server.reload import Reloader
from tools.ports import free_port
from tools.starting import await_coordinator


class Reading:
    """Settings that are read, what is applied of them and what is reported."""

    def __init__(self, running: Config) -> None:
        self.result: Config | Exception = running
        self.applied: list[Config] = []
        self.reports: list[tuple[str, Any]] = []
        self.reload = Reloader(running, self._read, self.applied.append, self._report)

    def _read(self) -> tuple[Config, Sequence[str]]:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result, ()

    def _report(self, event: str, **fields: Any) -> None:
        self.reports.append((event, fields))


def test_what_can_be_applied_is_and_the_rest_is_named() -> None:
    reading = Reading(Config())
    reading.result = Config(log_level="debug", num_partitions=7)
    reading.reload()
    assert reading.applied == [Config(log_level="debug")]
    fields = {"applied": {"log.level": "debug"}, "need_restart": ["num.partitions"]}
    assert reading.reports == [("settings_reloaded", fields)]
    reading.result = Config(num_partitions=7)
    reading.reload()
    fields = {"applied": {"log.level": "default"}, "need_restart": ["num.partitions"]}
    assert reading.reports[1:] == [("settings_reloaded", fields)]


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        (ConfigError([ConfigProblem("log.level", "what is that")]), "log.level: what is that"),
        (OSError("no such file"), "no such file"),
    ],
)
def test_settings_that_are_wrong_change_nothing(failure: Exception, problem: str) -> None:
    reading = Reading(Config())
    reading.result = failure
    reading.reload()
    assert not reading.applied
    assert reading.reports == [("reload_failed", {"problems": [problem]})]


def await_that(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def events(log: Path) -> list[Any]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


@pytest.fixture(autouse=True)
def hang_up_is_not_ignored() -> Iterator[None]:
    """Children inherit what the tests were started with, which is to ignore it behind `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def started(folder: Path, stdin: int, *more: str) -> subprocess.Popen[bytes]:
    """A server whose settings are in a file of the folder."""
    file, port = folder / "server.properties", free_port()
    file.write_text(f"log.level=info\nlisteners=PLAINTEXT://127.0.0.1:{port}\n")
    command = [sys.executable, "-m", "coordinator_server", "run", "--config", str(file)]
    command += ["--set", "http.listener=", "--set", "log.format=json"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--log-dirs", str(folder / "data"), *more], stdin=stdin, stderr=log
        )
    try:
        await_coordinator(port, lambda: server.poll() is not None)
    except BaseException:
        server.kill()
        server.wait()
        raise
    return server


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sighup_changes_the_log_level_of_a_service(tmp_path: Path, workers: str) -> None:
    server = started(tmp_path, subprocess.DEVNULL, "--workers", workers)
    try:
        file = tmp_path / "server.properties"
        file.write_text(file.read_text().replace("=info", "=error") + "num.partitions=3\n")
        server.send_signal(signal.SIGHUP)
        # A line of its own level tells of it: what is reported next is below the new one.
        time.sleep(1)
        file.write_text(file.read_text().replace("=error", "=info"))
        server.send_signal(signal.SIGHUP)
        log = tmp_path / "log"
        await_that(lambda: any(e["event"] == "settings_reloaded" for e in events(log)))
        (told, *_) = [e for e in events(log) if e["event"] == "settings_reloaded"]
        assert told["need_restart"] == ["num.partitions"]
        assert server.poll() is None
    finally:
        server.terminate()
        assert server.wait(20) == 0


def test_a_terminal_that_goes_away_stops_the_server_cleanly(tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    server = started(tmp_path, end)
    os.close(end)
    server.send_signal(signal.SIGHUP)
    assert server.wait(20) == 0
    assert [e["event"] for e in events(tmp_path / "log")][-1] == "server_stopped"
    os.close(terminal)
