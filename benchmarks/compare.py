"""Compare two checkouts of this server: `python -m benchmarks.compare --before DIR --after DIR`.

Both servers run at the same time on one core, where the one that is not asked is idle, and the load
generator runs on another. They take turns at each work, so noise hits both, and the ratio shown is
the median of the ratios of the rounds. Give the same checkout twice to see how exact that is.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import servers, work
from benchmarks.choice import chosen
from benchmarks.servers import CannotRun, Running
from benchmarks.side_by_side import Load, say, surroundings
from benchmarks.tables import table
from benchmarks.work import Pace, Sample, Work

TOLERATED: Final = 1.05
"""A ratio above this is called a regression; noise of one run is to be held against it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A work and how the servers run that are asked for it."""

    work: Work
    is_synced: bool = True
    """Whether commits are on disk before they are answered."""
    is_fresh: bool = False
    """Whether each round has servers of its own, because memory left by other work would count."""

    @property
    def name(self) -> str:
        """The name in the table."""
        return self.work.name + ("" if self.is_synced else ", log.flush=os")

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of the servers."""
        return {} if self.is_synced else {"log.flush": "os"}


def _steady(name: str, mode: str, **options: int) -> Work:
    return Work(name, mode, options, is_commit=mode == "commit")


SHARED: Final = _steady("Heartbeat, 1,000 members over 16 connections", "heartbeat", share=62)
MANY: Final = _steady("Heartbeat, 500 connections", "heartbeat", connections=500)
FETCH_ALL: Final = _steady("OffsetFetch of all (50) offsets", "fetch-all", partitions=50)

ROWS: Final = (
    Row(work.HEARTBEAT),
    Row(work.HEARTBEAT_16),
    Row(MANY),
    Row(SHARED),
    Row(work.COMMIT),
    Row(work.COMMIT_128),
    Row(work.COMMIT, is_synced=False),
    Row(work.COMMIT_50),
    Row(work.FETCH_50),
    Row(FETCH_ALL),
    Row(work.STORM),
    Row(work.REBALANCE_100),
    Row(work.CREATE, is_fresh=True),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """The samples of one row, by rounds."""

    row: Row
    rounds: Sequence[tuple[Sample, Sample]]
    """Before and after."""

    @property
    def ratios(self) -> list[float]:
        """CPU per operation, after to before, of every round, the least first."""
        return sorted(after.cpu_us / before.cpu_us for before, after in self.rounds)

    @property
    def ratio(self) -> float:
        """The median of the rounds."""
        return median(self.ratios)

    @property
    def errors(self) -> int:
        """Wrong answers."""
        return sum(one.errors for pair in self.rounds for one in pair)

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        before, after = zip(*self.rounds, strict=True)
        figures = [median(one.cpu_us for one in side) for side in (before, after)]
        tails = [median(one.p99_us for one in side) / 1e3 for side in (before, after)]
        return (
            self.row.name,
            *(f"{each:,.1f}" for each in figures),
            f"{self.ratio:.2f}",
            f"{self.ratios[0]:.2f} to {self.ratios[-1]:.2f}",
            *(f"{each:.2f}" for each in tails),
        )


class Comparison:
    """Two checkouts, and how they are run and asked."""

    def __init__(
        self, roots: tuple[Path, Path], load: Load, place: Path, *, compiled: bool
    ) -> None:
        self._roots = roots
        self._load = load
        self._place = place
        self._compiled = compiled

    @contextmanager
    def _pair(self, settings: Mapping[str, str]) -> Iterator[list[Running]]:
        core = servers.two_cores().server
        with ExitStack() as stack:
            yield [
                stack.enter_context(
                    servers.ours(
                        core,
                        Path(tempfile.mkdtemp(dir=self._place)),
                        settings,
                        compiled=self._compiled,
                        root=root,
                    )
                )
                for root in self._roots
            ]

    def measure(self, rows: Sequence[Row], rounds: int) -> Iterator[Compared]:
        """Measure every row. Raises CannotRun."""
        for is_synced in (True, False):
            running = [row for row in rows if row.is_synced == is_synced and not row.is_fresh]
            if running:
                with self._pair(running[0].settings) as pair:
                    for row in running:
                        yield Compared(row, [self._round(row, pair, n) for n in range(rounds)])
        for row in rows:
            if row.is_fresh:
                yield Compared(row, [self._fresh(row, n) for n in range(rounds)])

    def _fresh(self, row: Row, number: int) -> tuple[Sample, Sample]:
        with self._pair(row.settings) as pair:
            return self._round(row, pair, number)

    def _round(self, row: Row, pair: Sequence[Running], number: int) -> tuple[Sample, Sample]:
        order = (0, 1) if number % 2 == 0 else (1, 0)
        samples = {side: self._load.run(pair[side], row.work) for side in order}
        say(f"{row.name}: {samples[0].cpu_us:,.1f} us before, {samples[1].cpu_us:,.1f} us after")
        return samples[0], samples[1]


def checkout(text: str) -> Path:
    """Return the folder of a checkout. Raises ArgumentTypeError."""
    path = Path(text).resolve()
    if not (path / "coordinator_server/__main__.py").exists():
        raise argparse.ArgumentTypeError(f"{path} is no checkout of this project")
    return path


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="WORK", help="part of a name; default: all")
    parser.add_argument("--before", type=checkout, required=True, help="a checkout")
    parser.add_argument("--after", type=checkout, default=servers.ROOT, help="default: this one")
    parser.add_argument("--rounds", type=int, default=7, help="of each work")
    parser.add_argument("--seconds", type=float, default=0.8, help="of each steady run")
    parser.add_argument("--share", type=float, default=0.5, help="of each counted work's number")
    parser.add_argument("--compiled", action="store_true", help="what `make compiled` made of both")
    arguments = parser.parse_args()
    names = chosen(parser, [row.name for row in ROWS], arguments.parts)
    arguments.rows = [row for row in ROWS if row.name in names]
    return arguments


def main() -> int:
    """Measure and print; 1 if an answer was wrong or a work costs more than is tolerated."""
    arguments = parsed()
    roots = (arguments.before, arguments.after)
    for root in roots if arguments.compiled else ():
        if not (root / "build/compiled/made").exists():
            sys.exit(f"error: no compiled server in {root}: `make compiled` builds it")
    pace = Pace(arguments.seconds, 0.2, arguments.rounds, arguments.share, 0)
    cores = servers.two_cores()
    raised = servers.raise_priority()
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as name:
        load = Load(servers.built("load", Path(name)), pace)
        with servers.on_core(cores.load):
            comparison = Comparison(roots, load, Path(name), compiled=arguments.compiled)
            found = list(comparison.measure(arguments.rows, arguments.rounds))
    print(f"{surroundings()}{'; ahead of other work' if raised else ''}.\n")
    print(
        table(
            ("work", "before, CPU us", "after", "ratio", "rounds", "before, p99 ms", "after"),
            [each.cells() for each in found],
            texts=1,
        )
    )
    slower = [each.row.name for each in found if each.ratio > TOLERATED]
    wrong = sum(each.errors for each in found)
    print(f"\n{wrong} wrong answers; above {TOLERATED}: {', '.join(slower) or 'nothing'}.")
    return 1 if slower or wrong else 0


if __name__ == "__main__":
    try:
        os.chdir(servers.ROOT)
        sys.exit(main())
    except CannotRun as error:
        sys.exit(f"error: {error}")
