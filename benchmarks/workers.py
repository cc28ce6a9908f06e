"""What a second worker adds: `python -m benchmarks.workers`.

One process and its load have one core, then two workers and twice as many connections have two, in
turns. The load generator takes the same share of every core, so the ratio of answers per second is
that of what the servers hold: 2 would be a second worker that is worth as much as the first.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import servers
from benchmarks.servers import CannotRun, Running
from benchmarks.side_by_side import say, surroundings
from benchmarks.tables import table
from benchmarks.work import Pace, Work, options_of

CONNECTIONS = 64
"""For each process; so many that groups spread about evenly by their names."""

SYNCED = (
    Work("Heartbeat, 1 in flight", "heartbeat", {}),
    Work("Heartbeat, 16 in flight", "heartbeat", {"in_flight": 16}),
    Work("OffsetCommit, 1 in flight", "commit", {}),
    Work("OffsetCommit, 16 in flight", "commit", {"in_flight": 16}),
)
UNSYNCED = (Work("OffsetCommit, 1 in flight, log.flush=os", "commit", {}),)
COUNTS = (1, 2)
FULL = Pace(seconds=0.8, warm_up_seconds=0.2, repeats=15, share=1.0, jvm_seconds=0.0)
"""Short runs in turns: ratios are those of neighbours, which other work disturbs about alike."""
QUICK = Pace(seconds=0.5, warm_up_seconds=0.1, repeats=1, share=1.0, jvm_seconds=0.0)


@dataclass(frozen=True, slots=True)
class Point:
    """One run."""

    per_second: float
    cpu_us: float
    """Of all of the server's processes, per answer."""
    errors: int


@dataclass(frozen=True, slots=True)
class Server:
    """As many processes as it has cores."""

    running: Running
    count: int
    pids: Sequence[int]
    """Of all its processes."""
    core: int | None
    """The only one, which the load generator has to use too; None: all there are."""


@contextmanager
def server(count: int, directory: Path, flush: str) -> Iterator[Server]:
    """A server of so many processes."""
    # The port beside the listener's is the second worker's.
    settings = {"workers": str(count), "http.listener": "127.0.0.1:0", "log.flush": flush}
    core = servers.two_cores().server if count == 1 else None
    compiled = servers.COMPILED_MADE.exists()
    with servers.ours(core, directory, settings, compiled=compiled) as running:
        yield Server(running, count, [running.pid, *_children(running.pid)], core)


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def measure(program: Path, server: Server, each: Work, pace: Pace) -> Point:
    """One run of the load generator. Raises CannotRun."""
    command = [
        str(program),
        f"-address=127.0.0.1:{server.running.port}",
        f"-pid={','.join(map(str, server.pids))}",
        f"-connections={CONNECTIONS * server.count}",
        *options_of(each, pace),
    ]
    with servers.on_core(server.core):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotRun(f"{each.name}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    if found["errors"]:
        say(f"    {found['errors']} wrong answers: {found['first_error']}")
    answers = found["operations"]
    return Point(
        answers / found["seconds"],
        found["server_cpu_seconds"] / answers * 1e6,
        found["errors"],
    )


Points = dict[tuple[str, int], list[Point]]


def measure_all(pace: Pace) -> Points:
    """All works with one process and with two workers, in turns. Raises CannotRun."""
    points: Points = {}
    with ExitStack() as stack:
        # /tmp may be memory, where syncing costs nothing.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        program = servers.built("load", folder)
        for flush, works in (("commit", SYNCED), ("os", UNSYNCED)):
            measure_works(works, flush, program, folder / flush, pace, points)
    return points


def measure_works(
    works: Sequence[Work], flush: str, program: Path, folder: Path, pace: Pace, points: Points
) -> None:
    """Some works with one process and with two workers. Raises CannotRun."""
    with ExitStack() as stack:
        field = []
        for count in COUNTS:
            directory = folder / str(count)
            directory.mkdir(parents=True)
            field.append(stack.enter_context(server(count, directory, flush)))
        for each in works:
            say(each.name)
            for _ in range(pace.repeats):
                for one in field:
                    point = measure(program, one, each, pace)
                    points.setdefault((each.name, one.count), []).append(point)
                    say(f"    {one.count}: {point.cpu_us:.1f} us CPU, {point.per_second:,.0f}/s")


def shown(points: Points) -> str:
    """The medians as a table."""
    rows = []
    for each in (*SYNCED, *UNSYNCED):
        for count in COUNTS:
            found = points[each.name, count]
            ratios = [
                point.per_second / alone.per_second
                for point, alone in zip(found, points[each.name, 1], strict=True)
            ]
            rows.append(
                [
                    each.name,
                    "one process, one core" if count == 1 else f"{count} workers, {count} cores",
                    f"{median(point.cpu_us for point in found):.1f}",
                    f"{median(point.per_second for point in found):,.0f}",
                    f"{median(ratios):.2f}",
                    f"{min(ratios):.2f} to {max(ratios):.2f}",
                ]
            )
    return table(("work", "server", "CPU us", "per second", "ratio", "of runs"), rows)


def main() -> int:
    """Measure and print; 1 if any answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short runs, one of each")
    before = surroundings()
    try:
        points = measure_all(QUICK if parser.parse_args().quick else FULL)
    except CannotRun as error:
        say(f"nothing measured: {error}")
        return 0
    print(f"Before: {before}.  ")
    print(f"After: {surroundings()}.\n")
    print(shown(points))
    wrong = sum(point.errors for found in points.values() for point in found)
    print(f"\n{wrong} wrong answers.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
