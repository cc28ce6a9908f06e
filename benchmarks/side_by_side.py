"""Measure this server, Apache Kafka and franz-go's kfake side by side: `make bench`.

All servers are on one core, where those not asked are idle; the load generator is on another. Other
work on the machine makes everything dearer, so it is the ratios of one run that count, and servers
take turns at each work. The tables printed are Markdown.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks import servers, tables, work
from benchmarks.servers import CannotRun, Cores, Running
from benchmarks.tables import Measured
from benchmarks.work import FULL, QUICK, Pace, Sample, Work, options_of

SERVERS = ("ours", "compiled", "kfake", "kafka")
UNSYNCED = (*work.COMMITS, work.CREATE)
"""Where it matters whether records are on disk before the answer."""
MOST_CREATIONS = 3
"""Each takes seconds and a server of its own."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A server to be measured."""

    name: str
    start: Callable[[Path], AbstractContextManager[Running]]
    """In a directory of its own."""
    works: Sequence[Work]
    is_jvm: bool = False


def subjects(cores: Cores, programs: Path, chosen: Sequence[str]) -> Iterator[Subject]:
    """Those that can run here and were asked for; what is missing is said."""
    core = cores.server
    if "ours" in chosen:
        yield Subject(work.OURS, lambda path: servers.ours(core, path, {}), work.ALL)
        yield Subject(
            work.OURS_UNSYNCED,
            lambda path: servers.ours(core, path, {"log.flush": "os"}),
            UNSYNCED,
        )
    if "compiled" in chosen:
        if servers.COMPILED_MADE.exists():
            yield Subject(
                work.COMPILED,
                lambda path: servers.ours(core, path, {}, compiled=True),
                work.WITH_GOALS,
            )
            yield Subject(
                work.COMPILED_UNSYNCED,
                lambda path: servers.ours(core, path, {"log.flush": "os"}, compiled=True),
                (work.COMMIT, work.COMMIT_50, work.CREATE),
            )
        else:
            say("without the compiled server: `make compiled` builds it")
    if "kfake" in chosen:
        try:
            program = servers.built("kfake", programs)
        except CannotRun as error:
            say(f"without kfake: {error}")
        else:
            yield Subject(work.KFAKE, lambda path: servers.kfake(core, path, program), work.ALL)
    if "kafka" in chosen:
        yield Subject(work.KAFKA, lambda path: servers.kafka(core, path, {}), work.ALL, is_jvm=True)
        linger = {"group.coordinator.append.linger.ms": "0"}
        yield Subject(
            work.KAFKA_LINGER_0,
            lambda path: servers.kafka(core, path, linger),
            work.COMMITS,
            is_jvm=True,
        )


def say(text: str) -> None:
    """What goes on, for who waits: not part of the result."""
    print(text, file=sys.stderr, flush=True)


class Load:
    """The load generator, on the core of this process."""

    def __init__(self, program: Path, pace: Pace) -> None:
        self._program = program
        self._pace = pace

    def run(self, server: Running, work: Work, pace: Pace | None = None) -> Sample:
        """One run. Raises CannotRun."""
        command = [
            str(self._program),
            f"-address=127.0.0.1:{server.port}",
            f"-pid={server.pid}",
            *options_of(work, pace or self._pace),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CannotRun(f"{work.name}: {done.stderr.strip()}")
        return Sample.read(done.stdout)

    def warm_up(self, server: Running, works: Sequence[Work]) -> None:
        """Have a JVM compile what will be measured."""
        share = self._pace.jvm_seconds / len(works)
        pace = Pace(share, 0, 1, 0.2, 0)
        for each in works:
            with suppress(CannotRun):
                self.run(server, each, pace)


class Entrant:
    """A server that runs, and what it has been measured at."""

    def __init__(self, subject: Subject, server: Running) -> None:
        self.subject = subject
        self.server = server
        self.resident = servers.resident_bytes(server.pid)
        self._samples: dict[str, list[Sample]] = {}

    def put(self, work: Work, load: Load, server: Running | None = None) -> None:
        """Measure a work once, by default at the server that runs; a failure is said."""
        try:
            sample = load.run(server or self.server, work)
        except CannotRun as error:
            say(f"    {self.subject.name}: not measured: {error}")
            return
        self._samples.setdefault(work.name, []).append(sample)
        say(f"    {self.subject.name}: {sample.cpu_us:,.1f} us CPU, {sample.per_second:,.0f}/s")
        if sample.errors:
            say(f"    {sample.errors} wrong answers: {sample.first_error}")

    def measured(self) -> Measured:
        """All of it."""
        return Measured(self.subject.name, self.server.start_seconds, self.resident, self._samples)


def measure_all(chosen: Sequence[str], pace: Pace) -> dict[str, Measured]:
    """Everything that can be measured here. Raises CannotRun without the load generator."""
    cores = servers.two_cores()
    if cores.server == cores.load:
        say("only one core: server and load share it, so the figures say little")
    with ExitStack() as stack:
        # /tmp may be memory, where syncing costs nothing.
        temporary = tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp")
        directory = Path(stack.enter_context(temporary))
        load = Load(servers.built("load", directory), pace)
        stack.enter_context(servers.on_core(cores.load))
        field = list(_started(subjects(cores, directory, chosen), directory, stack))
        for each in field:
            if each.subject.is_jvm:
                say(f"warming up {each.subject.name}")
                load.warm_up(each.server, each.subject.works)
        for asked in work.ALL:
            if asked is not work.CREATE:
                _take_turns(field, asked, load, pace.repeats)
        _create_groups(field, load, directory, min(pace.repeats, MOST_CREATIONS))
        return {each.subject.name: each.measured() for each in field}


def _started(wanted: Iterable[Subject], directory: Path, stack: ExitStack) -> Iterator[Entrant]:
    """Start everybody; what does not start is said and left out."""
    for subject in wanted:
        place = Path(tempfile.mkdtemp(dir=directory))
        try:
            server = stack.enter_context(subject.start(place))
        except CannotRun as error:
            say(f"without {subject.name}: {error}")
        else:
            say(f"{subject.name}: ready after {server.start_seconds:.3f} s")
            yield Entrant(subject, server)


def _take_turns(field: Sequence[Entrant], work: Work, load: Load, repeats: int) -> None:
    """Measure a work at one server after the other, and again: what disturbs, disturbs all."""
    say(work.name)
    for _ in range(repeats):
        for each in field:
            if work in each.subject.works:
                each.put(work, load)


def _create_groups(field: Sequence[Entrant], load: Load, directory: Path, repeats: int) -> None:
    """In fresh processes, lest groups fit into memory that other work has left; not so a JVM."""
    say(work.CREATE.name)
    for _ in range(repeats):
        for each in field:
            if work.CREATE not in each.subject.works:
                continue
            if each.subject.is_jvm:
                each.put(work.CREATE, load)
                continue
            try:
                with each.subject.start(Path(tempfile.mkdtemp(dir=directory))) as fresh:
                    each.put(work.CREATE, load, fresh)
            except CannotRun as error:
                say(f"    {each.subject.name}: not measured: {error}")


def surroundings() -> str:
    """The machine and how busy it was, without its name."""
    busy = " ".join(f"{load:.1f}" for load in os.getloadavg())
    return (
        f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, load average {busy}"
    )


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short runs, one of each")
    parser.add_argument(
        "--only",
        action="append",
        choices=SERVERS,
        help="leave the others out; may be repeated",
    )
    return parser.parse_args()


def main() -> int:
    """Measure and print; 1 if any answer was wrong."""
    arguments = parsed()
    raised = servers.raise_priority()
    begun, before = time.monotonic(), surroundings()
    try:
        run = measure_all(arguments.only or SERVERS, QUICK if arguments.quick else FULL)
    except CannotRun as error:
        say(f"nothing measured side by side: {error}")
        return 0
    print(f"Before: {before}.  ")
    print(f"After {time.monotonic() - begun:.0f} s: {surroundings()}.  ")
    print("Servers and load went before other work.\n" if raised else "\n")
    print(tables.start_table(run), tables.measured_table(run), tables.goals_table(run), sep="\n\n")
    wrong = sum(each.errors for each in run.values())
    print(f"\n{wrong} wrong answers.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
