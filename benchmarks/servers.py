"""Servers to be measured: each a process on a core of its own, gone at the end."""

import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from coordinator_server.cli.healthcheck import Unhealthy
from tools.ports import free_port
from tools.starting import START_SECONDS, await_coordinator

ROOT = Path(__file__).resolve().parent.parent
COMPILED = ROOT / "build/compiled"
COMPILED_MADE = COMPILED / "made"
"""What `make compiled` leaves when it is done."""
PRIORITY = -10
"""The nice value of what is measured, where the system allows it."""
IDLE_SECONDS = 0.02
"""What a server may use of half a second that does nothing; the system counts hundredths."""


class CannotRun(Exception):
    """A program is missing, does not build or does not start; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    port: int
    pid: int
    start_seconds: float
    """From its process to its first FindCoordinator answer."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Who runs where; the same core twice on a machine that has but one."""

    server: int
    load: int


def two_cores() -> Cores:
    """The first two this process may use."""
    usable = sorted(os.sched_getaffinity(0))
    return Cores(usable[0], usable[-1] if len(usable) < 2 else usable[1])


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Processes started meanwhile stay on a core; None lets them be on any."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def raise_priority() -> bool:
    """Let what is measured go before other work on the machine; whether the system allows that."""
    try:
        os.nice(PRIORITY)
    except PermissionError:
        return False
    return True


def _raise_session(pid: int) -> None:
    """Give a process's session the priority: Linux may compare nice values within one alone."""
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(PRIORITY))


def await_quiet(pid: int) -> None:
    """Wait until a process does next to nothing.

    What a server still has to do for its start when it first answers is no answer's cost.
    """
    until = time.monotonic() + START_SECONDS
    used, before = cpu_seconds(pid), -math.inf
    while used - before > IDLE_SECONDS and time.monotonic() < until:
        time.sleep(0.5)
        used, before = cpu_seconds(pid), used


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def built(folder: str, into: Path) -> Path:
    """Build one of the Go programs beside this file. Raises CannotRun."""
    go = shutil.which("go")
    if go is None:
        raise CannotRun("there is no `go` in PATH")
    program = into / f"{folder}-program"
    source = ROOT / "benchmarks" / folder
    done = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotRun(f"go build in benchmarks/{folder}: {done.stderr.strip()}")
    return program


def compile_modules(root: Path = ROOT) -> None:
    """Compile a checkout to bytecode where that is not done, as installing a package does.

    A checkout whose environment forbids to write bytecode would be compiled at every start.
    """
    command = [sys.executable, "-m", "compileall", "-q", "coordinator_server", "protocol"]
    subprocess.run(command, cwd=root, check=True)


@contextmanager
def ours(
    core: int | None,
    directory: Path,
    settings: Mapping[str, str],
    *,
    compiled: bool = False,
    at_rest: bool = True,
    root: Path = ROOT,
) -> Iterator[Running]:
    """This project's server with its defaults: HTTP on, log lines written, commits synced.

    `at_rest`: it has nothing left to do for its start, such as to load or to compact. `root` is
    the checkout it is run from.
    """
    port = free_port()
    given = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "http.listener": f"127.0.0.1:{port + 1}",
        "log.dirs": str(directory / "data"),
        "group.initial.rebalance.delay.ms": "0",
        **settings,
    }
    command = [sys.executable, "-m", "coordinator_server", "run"]
    command += [f"--set={name}={value}" for name, value in given.items()]
    compile_modules(root)
    # Nothing may come from the checkout that the environment was installed from.
    first = [root / "build/compiled"] if compiled else [root, root / "protocol"]
    imports = {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(map(str, first))}
    with _process(command, core, port, directory, imports, at_rest=at_rest, root=root) as running:
        yield running


@contextmanager
def kfake(core: int, directory: Path, program: Path) -> Iterator[Running]:
    """franz-go's kfake, which keeps everything in memory."""
    port = free_port()
    with _process([str(program), f"-port={port}"], core, port, directory) as running:
        yield running


@contextmanager
def _process(
    command: list[str],
    core: int | None,
    port: int,
    directory: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    *,
    at_rest: bool = True,
    root: Path = ROOT,
) -> Iterator[Running]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    with (directory / "server.log").open("ab") as log:
        begun = time.monotonic()
        with on_core(core):
            server = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=root,
                env={**inherited, **environment},
                start_new_session=True,
            )
    if os.getpriority(os.PRIO_PROCESS, server.pid) == PRIORITY:
        _raise_session(server.pid)
    try:
        ready = await_coordinator(port, lambda: server.poll() is not None)
        if at_rest:
            await_quiet(server.pid)
        yield Running(port, server.pid, ready - begun)
    except Unhealthy as error:
        raise CannotRun(str(error)) from error
    finally:
        _end(server)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def kafka(core: int, directory: Path, settings: Mapping[str, str]) -> Iterator[Running]:
    """Apache Kafka 4.1.1 of the oracle, which fetches the jars when they are not there.

    Raises CannotRun.
    """
    for needed in ("java", "mvn"):
        if shutil.which(needed) is None:
            raise CannotRun(f"there is no `{needed}` in PATH")
    port = free_port(in_a_row=2)  # its controller has the next one
    place = ["--port", str(port), "--dir", str(directory)]
    command = [sys.executable, "-m", "oracle", "kafka", *place]
    options = [part for pair in settings.items() for part in ("--set", "=".join(pair))]
    with on_core(core), (directory / "start.log").open("wb") as log:
        starting = subprocess.Popen(
            [*command, *options, "start"], cwd=ROOT / "tests/oracle", stdout=log, stderr=log
        )
    try:
        begun = _when_there(directory / "pid", starting)
        ready = await_coordinator(port, lambda: bool(starting.poll()))
        starting.wait()
        yield Running(port, int((directory / "pid").read_text()), ready - begun)
    except Unhealthy as error:
        raise CannotRun(str(error)) from error
    finally:
        starting.wait()
        subprocess.run([*command, "stop"], cwd=ROOT / "tests/oracle", check=False)


def _when_there(pid_file: Path, starting: subprocess.Popen[bytes]) -> float:
    """When the broker's process was begun: formatting its directory comes before that."""
    while not pid_file.exists():
        if starting.poll() is not None:
            log = (pid_file.parent / "start.log").read_text()
            raise CannotRun(f"Kafka did not start: {log.strip()[-500:]}")
        time.sleep(0.005)
    return time.monotonic()


def resident_bytes(pid: int) -> int:
    """Of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
