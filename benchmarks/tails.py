"""What heartbeats of other groups wait while the server has something large to do.

`python -m benchmarks.tails` has 50 members send a heartbeat every 10 ms each, and counts what an
answer took from when it was due. Everything else the machine does counts too, so a disturbance is
judged by what it adds to a quiet run before it; the load that disturbs has a lower priority.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import compaction, flapping, servers, stored
from benchmarks.compaction import await_load
from benchmarks.servers import CannotRun, Running
from benchmarks.tables import table
from benchmarks.turn import frame
from benchmarks.work import Sample
from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.messages.list_groups import ListGroupsRequest

MEMBERS: Final = 50
EVERY_MS: Final = 10
MOST_ADDED_MS: Final = 20.0
LARGE_PARTITION: Final = 0
"""Of the log; the members that send heartbeats are in others."""
COMMITS: Final = 2_500_000
GROUPS: Final = 10_000
REBALANCING: Final = 5_000
MEGABYTES: Final = 40

Doing = Callable[[Running], AbstractContextManager[object]]
"""Goes on while heartbeats are measured."""


class Case(NamedTuple):
    """Something large to do."""

    name: str
    prepare: Callable[[Path], object]
    """Makes the data directory the server starts with."""
    doing: Doing
    settings: dict[str, str]
    loaded: bool = True
    """Whether heartbeats begin when everything is loaded, or at once."""
    at_rest: bool = True
    """Whether they begin when the server has nothing left to do for its start."""


class Bench:
    """The load generator on its core, and the server on the other."""

    def __init__(
        self, program: Path, seconds: float, every_ms: int = EVERY_MS, *, compiled: bool = False
    ) -> None:
        self._compiled = compiled
        self._program = program
        self._every_ms = every_ms
        self._seconds = seconds
        self._cores = servers.two_cores()

    def heartbeats(self, server: Running) -> Sample:
        """One run. Raises CannotRun."""
        command = self._command(server, "paced", connections=MEMBERS, avoid=LARGE_PARTITION)
        command += [f"-every={self._every_ms}ms", f"-time={self._seconds:g}s"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        sample = Sample.read(done.stdout) if done.returncode == 0 else None
        if sample is None or sample.errors:
            raise CannotRun(done.stderr.strip() or str(sample and sample.first_error))
        return sample

    def _command(self, server: Running, mode: str, **options: int) -> list[str]:
        given = {"address": f"127.0.0.1:{server.port}", "mode": mode, "pid": str(server.pid)}
        given |= {name.replace("_", "-"): str(value) for name, value in options.items()}
        return [str(self._program), *(f"-{name}={value}" for name, value in given.items())]

    @contextmanager
    def rebalancing(self, server: Running) -> Iterator[None]:
        """One large group rebalances again and again."""
        command = self._command(server, "rebalance", members=REBALANCING, count=1_000)
        quiet = subprocess.DEVNULL
        load = subprocess.Popen(["nice", "-n", "19", *command], stdout=quiet, stderr=quiet)
        try:
            _await_rebalances(server, load)
            yield
            if load.poll() is not None:
                raise CannotRun("the group did not rebalance until the end")
        finally:
            load.terminate()
            load.wait()

    def measure(self, case: Case) -> tuple[Sample, Sample]:
        """Quiet, and while the case is going on; each with a server of its own."""
        quiet = Case("", lambda _: None, lambda _: nullcontext(), {})
        return self._run(quiet), self._run(case)

    @contextmanager
    def server(
        self, directory: Path, settings: dict[str, str], *, at_rest: bool = True
    ) -> Iterator[Running]:
        """A server on its core, while this process keeps to the other. Raises CannotRun."""
        cores = self._cores
        with (
            servers.on_core(cores.load),
            servers.ours(
                *(cores.server, directory, settings), compiled=self._compiled, at_rest=at_rest
            ) as server,
        ):
            yield server

    def _run(self, case: Case) -> Sample:
        with tempfile.TemporaryDirectory(prefix="tails-", dir="/var/tmp") as name:
            case.prepare(Path(name) / "data")
            with self.server(Path(name), case.settings, at_rest=case.at_rest) as server:
                if case.loaded:
                    await_load(server)
                with case.doing(server):
                    return self.heartbeats(server)


def _await_rebalances(server: Running, load: subprocess.Popen[bytes]) -> None:
    """Until the large group has rebalanced once or twice. Raises CannotRun."""
    deadline = time.monotonic() + 120
    while "rebalances_total{" not in page(server, "/metrics") or (
        _metric(server, "kafka_group_coordinator_members", "dynamic") < REBALANCING
    ):
        if load.poll() is not None or time.monotonic() > deadline:
            raise CannotRun(f"no group of {REBALANCING} members came about")
        time.sleep(0.5)


def _metric(server: Running, name: str, label: str) -> float:
    lines = page(server, "/metrics").splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name) and label in line)


def page(server: Running, path: str) -> str:
    """What it serves over HTTP. Raises OSError."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port + 1}{path}", timeout=60) as answer:
        return str(answer.read().decode())


@contextmanager
def repeating(action: Callable[[], object], pause_seconds: float) -> Iterator[None]:
    """Do something in a thread again and again, with a pause behind each."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            action()
            ended.wait(pause_seconds)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def asking(ask_once: Callable[[], str | bytes]) -> Iterator[None]:
    """Somebody asks for something long again and again, ten times a second at most."""
    asked = 0

    def ask() -> None:
        nonlocal asked
        asked += len(ask_once()) > 1_000

    with repeating(ask, 0.1):
        yield
    if not asked:
        raise CannotRun("nothing was answered while heartbeats were measured")


def _list_groups(server: Running) -> bytes:
    """Over the Kafka protocol; correlation id and throttle time come before the error."""
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(frame(ApiKey.LIST_GROUPS, 2, ListGroupsRequest()))
        with connection.makefile("rb") as answers:
            answer = answers.read(int.from_bytes(answers.read(4), "big"))
    if any(answer[8:10]):
        raise CannotRun(f"ListGroups was answered with error {answer[9]}")
    return answer


@contextmanager
def loading(server: Running) -> Iterator[None]:
    """The load has begun with the server, and has to go on until the end."""
    yield
    try:
        page(server, "/readyz")
    except OSError:
        return
    say("    the load ended before the heartbeats did: give fewer --seconds")


@contextmanager
def compacting(server: Running) -> Iterator[None]:
    """The compaction begins by itself a moment after the start. Raises CannotRun if it is over."""
    compactions = "kafka_group_coordinator_log_compactions_total"
    if _metric(server, compactions, ""):
        raise CannotRun("the compaction was over before heartbeats were measured")
    yield
    if _metric(server, compactions, ""):
        say("    the compaction ended before the heartbeats did: give fewer --seconds")


def commits(data: Path) -> None:
    """Millions of commits in one partition, a thousand for each group."""
    wall = time.time_ns() // 1_000_000
    ids = islice(stored.names_in(LARGE_PARTITION), COMMITS // 1_000)
    records = (record for each in ids for record in stored.commits(each, 1_000, wall))
    stored.write(data, LARGE_PARTITION, records)


def groups(data: Path) -> None:
    """Ten thousand groups with three members each."""
    wall = time.time_ns() // 1_000_000
    ids = [f"group-{number}" for number in range(GROUPS)]
    parts = stored.spread((each, [stored.group(each, 3, wall)]) for each in ids)
    for partition, records in parts.items():
        stored.write(data, partition, records)


def cases(bench: Bench) -> list[Case]:
    """Everything large there is to do."""
    return [
        Case(f"a group of {REBALANCING:,} rebalances", _nothing, bench.rebalancing, {}),
        Case(
            f"compaction of {MEGABYTES} MB",
            lambda data: compaction.write(data, MEGABYTES),
            compacting,
            {"log.cleaner.backoff.ms": "100"},
            at_rest=False,
        ),
        Case(
            f"a partition of {COMMITS:,} commits loads",
            commits,
            loading,
            {},
            loaded=False,
            at_rest=False,
        ),
        Case(
            f"a look at {flapping.GROUPS:,} flapping groups",
            flapping.write,
            flapping.looked_at,
            flapping.SETTINGS,
        ),
        *(
            Case(f"{what} of {GROUPS:,} groups", groups, partial(_asked, how), {})
            for what, how in (
                ("scrapes", lambda server: page(server, "/metrics")),
                ("lists (HTTP)", lambda server: page(server, "/api/groups")),
                ("lists (ListGroups)", _list_groups),
            )
        ),
    ]


def _asked(how: Callable[[Running], str | bytes], server: Running) -> AbstractContextManager[None]:
    return asking(partial(how, server))


def _nothing(_data: Path) -> None:
    return


def say(text: str) -> None:
    """What goes on, for who waits: not part of the result."""
    print(text, file=sys.stderr, flush=True)


def row(name: str, quiet: Sample, busy: Sample) -> tuple[str, ...]:
    """Milliseconds, and the verdict."""
    added = (busy.p999_us - quiet.p999_us) / 1e3
    figures = [quiet.p50_us, busy.p50_us, busy.p99_us, quiet.p999_us, busy.p999_us]
    verdict = "met" if added <= MOST_ADDED_MS else "missed"
    return (name, *(f"{each / 1e3:.2f}" for each in figures), f"{added:.1f}", verdict)


def main() -> int:
    """Measure and print; 1 if something could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of heartbeats in each run")
    parser.add_argument("--only", default="", help="part of the name of what is to be measured")
    parser.add_argument("--compiled", action="store_true", help="of what `make compiled` made")
    arguments = parser.parse_args()
    compiled = arguments.compiled
    if compiled and not servers.COMPILED_MADE.exists():
        raise CannotRun("there is no compiled server: `make compiled` builds it")
    rows, missing = [], 0
    raised = servers.raise_priority()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        program = servers.built("load", Path(directory))
        bench = Bench(program, arguments.seconds, compiled=compiled)
        for case in cases(bench):
            if arguments.only not in case.name:
                continue
            say(case.name)
            try:
                rows.append(row(case.name, *bench.measure(case)))
            except CannotRun as error:
                say(f"    not measured: {error}")
                missing = 1
    before = "; servers and load went before other work" if raised else ""
    print(f"Load average {' '.join(f'{load:.1f}' for load in os.getloadavg())}{before}.\n")
    meanwhile = "meanwhile, compiled" if compiled else "meanwhile"
    head = (meanwhile, "quiet p50 ms", "p50", "p99", "quiet p999", "p999", "added", "")
    print(table(head, rows, texts=1))
    return missing


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as error:
        sys.exit(f"error: {error}")
