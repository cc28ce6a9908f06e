"""What systemd is told: by a notifier of a made-up state, and by a real server."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import pytest

from coordinator_server.config import load
from coordinator_server.server.systemd import Notifier
from tests.support.client_processes import ROOT
from tools.ports import free_port

UNIT = ROOT / "deploy" / "systemd" / "coordinator.service"


class Systemd:
    """The other end of the socket."""

    def __init__(self, path: Path) -> None:
        self.path = str(path / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(30)

    def next(self) -> list[str]:
        """The lines of one datagram, once there is one."""
        return self._socket.recv(4096).decode().split("\n")

    def until(self, line: str) -> list[str]:
        """All lines up to one, once it has come."""
        lines: list[str] = []
        while line not in lines:
            lines += self.next()
        return lines

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    listening = Systemd(tmp_path)
    yield listening
    listening.close()


def test_it_is_ready_once_nothing_is_loading_any_more(systemd: Systemd) -> None:
    notifier = Notifier(systemd.path)
    notifier.look({"initial": 48, "loading": 2})
    assert systemd.next() == ["EXTEND_TIMEOUT_USEC=30000000", "STATUS=0 of 50 partitions served"]
    notifier.look({"active": 49, "failed": 1})
    assert systemd.next() == ["READY=1", "STATUS=49 of 50 partitions served, 1 failed"]
    notifier.look({"active": 49, "failed": 1})
    notifier.look({"active": 50})
    assert systemd.next() == ["STATUS=50 of 50 partitions served"]
    notifier.stopping()
    assert systemd.next() == ["STOPPING=1", "STATUS=stopping"]


def test_the_watchdog_is_fed_with_every_look(systemd: Systemd) -> None:
    notifier = Notifier(systemd.path, watchdog_seconds=30)
    for expected in (["WATCHDOG=1", "READY=1", "STATUS=1 of 1 partitions served"], ["WATCHDOG=1"]):
        notifier.look({"active": 1})
        assert systemd.next() == expected


def test_names_in_the_abstract_namespace_are_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0coordinator-{os.getpid()}")
        listening.settimeout(10)
        Notifier(f"@coordinator-{os.getpid()}").tell("READY=1")
        assert listening.recv(100) == b"READY=1"


def test_nobody_who_listens_is_no_trouble(tmp_path: Path) -> None:
    Notifier(str(tmp_path / "gone")).tell("READY=1")


def test_what_is_asked_is_taken_out_of_the_environment() -> None:
    environ = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7", "A": "b"}
    notifier = Notifier.from_environment(environ, pid=7)
    assert notifier is not None
    assert notifier._watchdog == 3.0
    assert environ == {"A": "b"}


@pytest.mark.parametrize(
    "environ",
    [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}, {"WATCHDOG_USEC": "3000000"}],
)
def test_without_a_socket_nothing_is_told(environ: dict[str, str]) -> None:
    assert Notifier.from_environment(environ, pid=7) is None


@pytest.mark.parametrize("more", [{"WATCHDOG_PID": "8"}, {"WATCHDOG_USEC": "soon"}])
def test_a_watchdog_of_somebody_else_is_not_fed(more: dict[str, str]) -> None:
    environ = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "3000000", **more}
    notifier = Notifier.from_environment(environ, pid=7)
    assert notifier is not None
    assert notifier._watchdog is None


def test_a_server_tells_systemd_from_its_start_to_its_stop(
    systemd: Systemd, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "coordinator_server", "run", "--dev"]
    command += ["--listeners", f"PLAINTEXT://127.0.0.1:{free_port()}", "--set", "http.listener="]
    environ = {**os.environ, "NOTIFY_SOCKET": systemd.path, "WATCHDOG_USEC": "600000"}
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log)
    try:
        assert "WATCHDOG=1" in systemd.until("READY=1")
        assert systemd.until("WATCHDOG=1")
        server.send_signal(signal.SIGTERM)
        assert "STATUS=stopping" in systemd.until("STOPPING=1")
        assert server.wait(20) == 0
    finally:
        server.kill()
        server.wait()


def test_the_unit_waits_for_what_the_server_tells() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) >= 10
    assert service["Restart"] == "on-failure"
    assert int(service["TimeoutStopSec"]) > 10
    assert re.fullmatch(r"/\S+/coordinator-server run --config \S+", service["ExecStart"])
    assert service["DynamicUser"] == "yes"
    assert service["StateDirectory"] == "coordinator"
    assert f"log.dirs=/var/lib/{service['StateDirectory']}" in (
        UNIT.with_name("server.properties").read_text()
    )


def test_the_settings_beside_the_unit_are_such() -> None:
    loaded = load(environ={}, file=UNIT.with_name("server.properties"))
    assert not loaded.warnings
