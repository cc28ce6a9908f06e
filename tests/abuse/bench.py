"""Runs one attack: a server, observers and the attacker as processes, and what was measured."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.abuse.attack import Attack
from tests.abuse.measure import (
    Watch,
    await_idle,
    peak_bytes,
    processor_wait_ms,
    resident_bytes,
)
from tests.abuse.observers import TOPIC
from tests.support.client_processes import ROOT
from tests.support.server import ServerProcess

QUIET_SECONDS: Final = 2.0
"""Of heartbeats before the attack."""
QUIET_MS: Final = 10.0
"""The p99 of heartbeats that shows that the machine is quiet enough to begin."""
QUIET_ATTEMPTS: Final = 8
TAIL_SECONDS: Final = 1.0
"""Of heartbeats after it that still count: what an attack leaves behind delays others as well."""
AFTERMATH_SECONDS: Final = 30.0
"""How long the server may go on working for an attacker that is gone, while heartbeats count."""
OVERTIME: Final = "attacker was killed"
SETTLE_SECONDS: Final = 20.0
"""How long memory may take to return."""
STOP_SECONDS: Final = 30.0
OVERTIME_SECONDS: Final = 60.0
"""How long an attacker may take beyond its time before it is killed."""


@dataclass(frozen=True)
class Options:
    """How every server is run."""

    cores: tuple[int, int] | None = None
    """The server's, and that of observers and attackers."""
    loop: str = "uvloop"
    server_priority: int = 0
    observer_priority: int = 0
    attacker_priority: int = 10
    ceiling_bytes: int = 4 << 30
    """A server that takes more is killed, so that the machine survives."""
    planted: Sequence[str] = ()
    """Options of the launcher that plant a failure."""
    quiet_seconds: float = QUIET_SECONDS
    seconds: float = 0.0
    """How long every attack goes on, 0 for its own time."""


@dataclass
class Outcome:
    """What one attack did to a server and its members."""

    attack: Attack
    quiet: dict[str, Any] = field(default_factory=dict)
    under: dict[str, Any] = field(default_factory=dict)
    """Figures of the observers before and during the attack."""
    done: dict[str, Any] = field(default_factory=dict)
    """What the attacker did."""
    idle_bytes: int = 0
    peak_bytes: int = 0
    after_bytes: int = 0
    settled_seconds: float = 0.0
    log_bytes: int = 0
    waited_ms: float = 0.0
    """For a processor, by the server."""
    health_max_ms: float = 0.0
    unhealthy: int = 0
    was_killed: bool = False
    exit_code: int | None = None
    stop_seconds: float = 0.0


class Observing:
    """The process with the members of other groups."""

    def __init__(self, port: int, options: Options) -> None:
        command = [sys.executable, "-m", "tests.abuse.observers", str(port)]
        command += _placed(options, options.observer_priority)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )

    def line(self) -> dict[str, Any]:
        """Read one line. Raises RuntimeError if the process has ended."""
        assert self._process.stdout is not None
        read = self._process.stdout.readline()
        if not read:
            raise RuntimeError("the observers ended: see their traceback above")
        found: dict[str, Any] = json.loads(read)
        return found

    def figures(self) -> dict[str, Any]:
        """Ask for what was answered since this was called last."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return self.line()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def _placed(options: Options, priority: int) -> list[str]:
    core = [f"--core={options.cores[1]}"] if options.cores else []
    return [*core, f"--priority={priority}"]


class Bench:
    """Runs attacks one after the other, each on a server of its own."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def run(self, attack: Attack) -> Outcome:
        """Measure one attack. Raises RuntimeError if the server does not start."""
        # /tmp may be memory, where syncing costs nothing.
        with tempfile.TemporaryDirectory(prefix="abuse-", dir="/var/tmp") as name:
            directory = Path(name)
            server = ServerProcess(directory, self._settings(attack), self._program(attack, name))
            server.start(within=30.0)
            observing = Observing(server.port, self._options)
            try:
                return self._measured(attack, server, observing, directory)
            finally:
                observing.close()
                server.close()

    def _settings(self, attack: Attack) -> dict[str, str]:
        return {"topics": f"{TOPIC}:1", "log.format": "json", **attack.settings}

    def _program(self, attack: Attack, directory: str) -> list[str]:
        options = self._options
        program = [
            "tests.abuse.launcher",
            f"--loop={attack.loop or options.loop}",
            *options.planted,
        ]
        program.append(f"--priority={options.server_priority}")
        if options.cores:
            program.append(f"--core={options.cores[0]}")
        if attack.nofile:
            program.append(f"--nofile={attack.nofile}")
        if attack.has_slow_disk:
            program.append(f"--slow-disk={directory}/slow")
        return program

    def _measured(
        self, attack: Attack, server: ServerProcess, observing: Observing, directory: Path
    ) -> Outcome:
        outcome = Outcome(attack, quiet=self._quiet(observing))
        outcome.idle_bytes = resident_bytes(server.pid)
        pid, log = server.pid, server.log.stat().st_size
        waited = processor_wait_ms(pid)
        kill = threading.Event()
        with Watch(pid, server.http_port, self._options.ceiling_bytes, kill) as watch:
            if attack.has_slow_disk:
                (directory / "slow").write_text("1.0")
            outcome.done = self._attacked(attack, server, kill)
            (directory / "slow").unlink(missing_ok=True)
            time.sleep(TAIL_SECONDS)
            await_idle(pid, AFTERMATH_SECONDS)
            if not kill.is_set():
                outcome.waited_ms = processor_wait_ms(pid) - waited
            outcome.under = observing.figures()
        outcome.was_killed = kill.is_set()
        outcome.peak_bytes = max(watch.peak, peak_bytes(pid))
        outcome.health_max_ms = max(watch.health_ms, default=0.0)
        outcome.unhealthy = watch.unhealthy
        self._settle(outcome, server)
        outcome.log_bytes = server.log.stat().st_size - log
        self._stop(outcome, server)
        return outcome

    def _quiet(self, observing: Observing) -> dict[str, Any]:
        """Return figures before the attack; other work on the machine is given time to end."""
        observing.line()
        observing.figures()
        figures: dict[str, Any] = {}
        for _ in range(QUIET_ATTEMPTS):
            time.sleep(self._options.quiet_seconds)
            figures = observing.figures()
            if figures["heartbeat"]["p99"] <= QUIET_MS:
                break
        return figures

    def _attacked(
        self, attack: Attack, server: ServerProcess, kill: threading.Event
    ) -> dict[str, Any]:
        seconds = self._options.seconds or attack.seconds
        command = [sys.executable, "-m", "tests.abuse.attacker", attack.name, str(server.port)]
        command += [str(server.http_port), str(server.pid), str(seconds)]
        command += _placed(self._options, self._options.attacker_priority)
        attacker = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        deadline = time.monotonic() + seconds + OVERTIME_SECONDS
        try:
            while attacker.poll() is None and time.monotonic() < deadline:
                if kill.is_set():
                    server.close()
                    deadline = min(deadline, time.monotonic() + 5.0)
                time.sleep(0.05)
        finally:
            overtime = attacker.poll() is None
            attacker.kill()
        output, _ = attacker.communicate()
        done: dict[str, Any] = json.loads(output) if output.strip() else {}
        return done | ({OVERTIME: 1} if overtime else {})

    def _settle(self, outcome: Outcome, server: ServerProcess) -> None:
        began = time.monotonic()
        most = outcome.idle_bytes + outcome.attack.keeps_bytes
        while server.running:
            outcome.after_bytes = resident_bytes(server.pid)
            outcome.settled_seconds = time.monotonic() - began
            if outcome.after_bytes <= most or outcome.settled_seconds > SETTLE_SECONDS:
                return
            time.sleep(0.2)

    def _stop(self, outcome: Outcome, server: ServerProcess) -> None:
        if not server.running:
            outcome.exit_code = server.ended(0.0)
            return
        began = time.monotonic()
        try:
            outcome.exit_code = server.terminate(STOP_SECONDS)
        except AssertionError:
            outcome.exit_code = None
        outcome.stop_seconds = time.monotonic() - began


def two_cores() -> tuple[int, int] | None:
    """Return two processors that this process may use, None on a machine with one."""
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[1]) if len(usable) > 1 else None


def may_raise_priority() -> bool:
    """Return whether processes may be given a higher priority than this one."""
    if os.geteuid() == 0:
        return True
    soft = "Max nice priority"
    lines = Path("/proc/self/limits").read_text().splitlines()
    return any(line.startswith(soft) and int(line.split()[3]) >= 30 for line in lines)
