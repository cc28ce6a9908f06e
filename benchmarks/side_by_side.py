"""Measure this server, Apache Kafka and franz-go's kfake side by side: `make bench`.

Each server in turn has one core to itself, the load generator another. Other work on the machine
makes everything dearer, so it is the ratios of one run that count. The tables printed are Markdown.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import servers, tables, work
from benchmarks.servers import CannotRun, Cores, Running
from benchmarks.tables import Measured
from benchmarks.work import FULL, QUICK, Pace, Sample, Work, options_of, typical

UNSYNCED = (*work.COMMITS, work.CREATE)
"""Where it matters whether records are on disk before the answer."""


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

    def measure(self, server: Running, work: Work) -> Sample:
        """As many runs as the pace has, of which the median is taken. Raises CannotRun."""
        repeats = self._pace.repeats if work.mode != "create" else 1
        samples = [self.run(server, work) for _ in range(repeats)]
        for sample in samples:
            if sample.errors:
                say(f"    {work.name}: {sample.errors} wrong answers: {sample.first_error}")
        return typical(samples)

    def warm_up(self, server: Running, works: Sequence[Work]) -> None:
        """Have a JVM compile what will be measured."""
        share = self._pace.jvm_seconds / len(works)
        pace = Pace(share, 0, 1, 0.2, 0)
        for each in works:
            self.run(server, each, pace)


def measure(subject: Subject, load: Load, directory: Path) -> Measured:
    """Start a server, put all works to it and end it. Raises CannotRun."""
    samples: dict[str, Sample] = {}
    started: list[Running] = []
    resident = 0
    for number, works in enumerate(_turns(subject)):
        place = directory / str(number)
        place.mkdir(parents=True)
        with subject.start(place) as server:
            resident = resident or servers.resident_bytes(server.pid)
            say(f"{subject.name}: ready after {server.start_seconds:.3f} s")
            started.append(server)
            samples |= _put(works, load, server, is_jvm=subject.is_jvm)
    return Measured(subject.name, started[0].start_seconds, resident, samples)


def _turns(subject: Subject) -> Iterator[Sequence[Work]]:
    """Groups are created in a fresh process, lest they fit into memory that others have left."""
    if subject.is_jvm:
        yield subject.works
        return
    yield [each for each in subject.works if each is not work.CREATE]
    if work.CREATE in subject.works:
        yield [work.CREATE]


def _put(works: Sequence[Work], load: Load, server: Running, *, is_jvm: bool) -> dict[str, Sample]:
    """Put works to a server; one that fails is said and left out."""
    if is_jvm:
        load.warm_up(server, works)
    samples = {}
    for each in works:
        try:
            sample = samples[each.name] = load.measure(server, each)
        except CannotRun as error:
            say(f"    not measured: {error}")
        else:
            say(f"    {each.name}: {sample.cpu_us:,.1f} us CPU, {sample.per_second:,.0f}/s")
    return samples


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
        run: dict[str, Measured] = {}
        for number, subject in enumerate(subjects(cores, directory, chosen)):
            try:
                run[subject.name] = measure(subject, load, directory / str(number))
            except CannotRun as error:
                say(f"without {subject.name}: {error}")
        return run


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
        choices=("ours", "kfake", "kafka"),
        help="leave the others out; may be repeated",
    )
    return parser.parse_args()


def main() -> int:
    """Measure and print; 1 if any answer was wrong."""
    arguments = parsed()
    begun, before = time.monotonic(), surroundings()
    try:
        run = measure_all(
            arguments.only or ("ours", "kfake", "kafka"), QUICK if arguments.quick else FULL
        )
    except CannotRun as error:
        say(f"nothing measured side by side: {error}")
        return 0
    print(f"Before: {before}.  ")
    print(f"After {time.monotonic() - begun:.0f} s: {surroundings()}.\n")
    print(tables.start_table(run), tables.measured_table(run), tables.goals_table(run), sep="\n\n")
    wrong = sum(s.errors for each in run.values() for s in each.samples.values())
    print(f"\n{wrong} wrong answers.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
