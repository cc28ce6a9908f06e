"""Where the time of a running server goes, by package and function: `make profile`.

py-spy looks at it 500 times a second while the load generator works. A sample counts for the
innermost function of ours, with the system calls and library code below it, and only if its thread
holds the interpreter. Where the system forbids py-spy to look, cProfile of `benchmarks.turn` has
to do, which runs without a network.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import servers, work
from benchmarks.choice import chosen
from benchmarks.servers import CannotRun, Running
from benchmarks.side_by_side import Load
from benchmarks.tables import table
from benchmarks.work import FULL, QUICK, Pace, Work

RATE: Final = 500
PACKAGES: Final = ("coordinator_server/", "protocol/coordinator_protocol/")
GENERATED: Final = re.compile(r"<(?:de|en)coder of (?P<what>.+)>")
FRAME: Final = re.compile(r"(?P<function>.+) \((?P<file>[^()]+?)(?::\d+)?\)$")
LOOP: Final = "event loop"
"""Where no function of ours is running."""
TOP: Final = 12
SETTLING_SECONDS: Final = 0.5
"""Until the load generator's members have joined."""

LOADS: Final = {
    "Heartbeat, 1 in flight": (work.HEARTBEAT, {}),
    "Heartbeat, 16 in flight": (work.HEARTBEAT_16, {}),
    "OffsetCommit, 1 partition": (work.COMMIT, {}),
    "OffsetCommit, 1 partition, log.flush=os": (work.COMMIT, {"log.flush": "os"}),
    "OffsetCommit, 50 partitions": (work.COMMIT_50, {}),
    "OffsetFetch of 50 partitions": (work.FETCH_50, {}),
    "connect, ApiVersions, FindCoordinator": (work.STORM, {}),
    "create a one-member group": (work.CREATE, {}),
    "rebalance of 1,000 members": (work.REBALANCE_1000, {}),
}
"""What runs while the server is watched, and the settings it has."""


class Place(NamedTuple):
    """A function of ours."""

    package: str
    function: str


def place_of(stack: str) -> Place:
    """The innermost function of ours in a stack, outermost first, with `;` between frames."""
    for frame in reversed(stack.split(";")):
        generated = GENERATED.search(frame)
        if generated:
            return Place("codec", f"{frame.split(' ')[0]} {generated['what']}")
        found = FRAME.match(frame)
        if found and found["file"].startswith(PACKAGES):
            parts = Path(found["file"]).parts
            package = "protocol" if parts[0] == "protocol" else parts[1].removesuffix(".py")
            return Place(package, f"{Path(*parts[-2:])} {found['function']}")
    return Place(LOOP, LOOP)


def counted(raw: Iterable[str]) -> Counter[Place]:
    """Samples by place, from py-spy's raw lines: a stack and how often it was seen."""
    samples: Counter[Place] = Counter()
    for line in raw:
        stack, _, times = line.rpartition(" ")
        if stack:
            samples[place_of(stack)] += int(times)
    return samples


def shares(samples: Counter[Place], of_packages: bool) -> list[tuple[str, float]]:
    """Percent by package or function, most first."""
    total = samples.total() or 1
    sums: Counter[str] = Counter()
    for place, times in samples.items():
        sums[place.package if of_packages else place.function] += times
    return [(name, 100 * times / total) for name, times in sums.most_common()]


def py_spy() -> str:
    """The program. Raises CannotRun where there is none or it may not look at processes."""
    beside = Path(sys.executable).parent / "py-spy"
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        raise CannotRun("there is no py-spy")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        tried = subprocess.run(
            [program, "dump", "--pid", str(other.pid)], capture_output=True, text=True, check=False
        )
        other.kill()
    if "ermission" in tried.stderr:
        raise CannotRun("the system does not let py-spy look at processes (ptrace)")
    return program


def watch(program: str, server: Running, load: Load, asked: Work, seconds: float) -> Counter[Place]:
    """Look at the server while it works. Raises CannotRun."""
    load.run(server, asked, QUICK)
    ended = threading.Event()

    def work_on() -> None:
        while not ended.is_set():
            load.run(server, asked, Pace(seconds + 5, 0, 1, 1.0, 0))

    with tempfile.NamedTemporaryFile(suffix=".txt") as raw:
        command = [program, "record", "--pid", str(server.pid), "--gil", "--function"]
        command += ["--rate", str(RATE), "--duration", f"{seconds:g}"]
        command += ["--format", "raw", "--output", raw.name]
        working = threading.Thread(target=work_on)
        working.start()
        time.sleep(SETTLING_SECONDS)
        spied = subprocess.run(command, capture_output=True, text=True, check=False)
        ended.set()
        working.join()
        if spied.returncode:
            raise CannotRun(f"py-spy: {spied.stderr.strip()}")
        return counted(Path(raw.name).read_text().splitlines())


def profiles(program: str, names: Iterable[str], seconds: float) -> dict[str, Counter[Place]]:
    """Each load with a server of its own. Raises CannotRun."""
    cores = servers.two_cores()
    found = {}
    with (
        tempfile.TemporaryDirectory(prefix="profile-", dir="/var/tmp") as directory,
        servers.on_core(cores.load),
    ):
        load = Load(servers.built("load", Path(directory)), FULL)
        for name in names:
            asked, settings = LOADS[name]
            place = Path(tempfile.mkdtemp(dir=directory))
            with servers.ours(cores.server, place, settings) as server:
                found[name] = watch(program, server, load, asked, seconds)
    return found


def packages_table(found: dict[str, Counter[Place]]) -> str:
    """A row for each package, a column for each load."""
    columns = {name: dict(shares(samples, of_packages=True)) for name, samples in found.items()}
    packages = sorted(
        {package for column in columns.values() for package in column},
        key=lambda package: -sum(column.get(package, 0) for column in columns.values()),
    )
    return table(
        ("package", *columns),
        (
            [package, *(f"{column.get(package, 0):.0f}" for column in columns.values())]
            for package in packages
        ),
        texts=1,
    )


def report(found: dict[str, Counter[Place]]) -> str:
    """What is printed."""
    parts = ["Percent of samples, by package:", packages_table(found)]
    for name, samples in found.items():
        top = shares(samples, of_packages=False)[:TOP]
        parts.append(f"**{name}** ({samples.total()} samples):")
        parts.append(", ".join(f"{percent:.1f} % `{function}`" for function, percent in top))
    return "\n\n".join(parts)


def main() -> int:
    """Watch and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loads", nargs="*", metavar="LOAD", help="part of a name; default: all")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load")
    given = parser.parse_args()
    names = chosen(parser, LOADS, given.loads)
    try:
        program = py_spy()
    except CannotRun as error:
        print(f"{error}: this is cProfile of benchmarks.turn instead, which has no network")
        command = [sys.executable, "-m", "benchmarks.turn", "--profile", "--repeat=1"]
        return subprocess.run(command, check=False).returncode
    servers.raise_priority()
    try:
        print(report(profiles(program, names, given.seconds)))
    except CannotRun as error:
        sys.exit(f"error: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
