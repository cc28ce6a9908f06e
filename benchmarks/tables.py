"""Measurements as Markdown tables: what was measured, and how it compares with what is wanted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks import work as works
from benchmarks.work import (
    COMPILED,
    COMPILED_UNSYNCED,
    KAFKA,
    KFAKE,
    OURS,
    OURS_UNSYNCED,
    Sample,
    Work,
    typical,
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A server, what it took to start and what each work cost it."""

    name: str
    start_seconds: float
    """From its process to its first FindCoordinator answer."""
    rss_bytes: int
    """After the start."""
    samples: Mapping[str, Sequence[Sample]]
    """Of every round, by the name of the work."""

    @property
    def errors(self) -> int:
        """Wrong answers in all samples."""
        return sum(sample.errors for samples in self.samples.values() for sample in samples)

    def typical(self, work: Work) -> Sample:
        """The median one. Raises KeyError if the work was not measured."""
        return typical(self.samples[work.name])


Run = Mapping[str, Measured]
"""By the name of the server."""


def ratio(run: Run, ours: str, theirs: str, work: Work) -> float | None:
    """What a server's CPU is of another's: the median of the rounds, None if there is none.

    In a round they are measured one after the other, so what disturbs for longer disturbs both.
    """
    try:
        rounds = zip(run[ours].samples[work.name], run[theirs].samples[work.name], strict=False)
    except KeyError:
        return None
    ratios = [one.cpu_us / other.cpu_us for one, other in rounds if other.cpu_us]
    return median(ratios) if ratios else None


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 2) -> str:
    """A Markdown table whose first columns are texts, to the left, the others to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    rules = [
        ("-" * width) if i < texts else "-" * (width - 1) + ":" for i, width in enumerate(widths)
    ]
    return "\n".join(
        "| "
        + " | ".join(
            cell.ljust(width) if i < texts else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in (lines[0], rules, *lines[1:])
    )


def measured_table(run: Run) -> str:
    """A row for each work of each server."""
    return table(
        (
            "work",
            "server",
            "per second",
            "CPU us",
            "p50 ms",
            "p99 ms",
            "p999 ms",
            "RSS MB",
            "CPU / kfake",
            "CPU / Kafka",
        ),
        (
            _row(work, server, run)
            for work in works.ALL
            for server in run.values()
            if work.name in server.samples
        ),
    )


def _row(work: Work, server: Measured, run: Run) -> list[str]:
    sample = server.typical(work)
    return [
        work.name,
        server.name,
        f"{sample.per_second:,.0f}" if sample.per_second >= 100 else f"{sample.per_second:.1f}",
        f"{sample.cpu_us:,.1f}" if sample.cpu_us < 1_000 else f"{sample.cpu_us:,.0f}",
        f"{sample.p50_us / 1e3:.2f}",
        f"{sample.p99_us / 1e3:.2f}",
        f"{sample.p999_us / 1e3:.2f}",
        f"{sample.server_rss_after / 1e6:.0f}",
        *(_shown(ratio(run, server.name, other, work)) for other in (KFAKE, KAFKA)),
    ]


def _shown(part: float | None) -> str:
    return "-" if part is None else f"{part:.2f}"


def start_table(run: Run) -> str:
    """A row for each server."""
    return table(
        (
            "server",
            "start to first FindCoordinator answer, s",
            "RSS then, MB",
            "RSS growth per created group, bytes",
        ),
        (
            [
                each.name,
                f"{each.start_seconds:.3f}",
                f"{each.rss_bytes / 1e6:.0f}",
                f"{_bytes_per_group(each):,.0f}" if works.CREATE.name in each.samples else "-",
            ]
            for each in run.values()
        ),
        texts=1,
    )


# --- goals ---


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of ours that is to be at most something."""

    what: str
    at_most: float
    unit: str
    reached: Callable[[Run], float | None]
    """None if it was not measured."""


def _of_kfake(work: Work, at_most: float, server: str = OURS) -> Goal:
    def reached(run: Run) -> float | None:
        return ratio(run, server, KFAKE, work)

    unsynced = ", not synced" if server == OURS_UNSYNCED else ""
    return Goal(work.name + unsynced, at_most, "of kfake's CPU", reached)


def _figure(what: str, at_most: float, unit: str, of: Callable[[Measured], float]) -> Goal:
    def reached(run: Run) -> float | None:
        try:
            return of(run[OURS])
        except KeyError:
            return None

    return Goal(what, at_most, unit, reached)


def _bytes_per_group(server: Measured) -> float:
    sample = server.typical(works.CREATE)
    return (sample.server_rss_after - sample.server_rss_before) / sample.operations


GOALS: Final = (
    _of_kfake(works.HEARTBEAT, 0.75),
    _of_kfake(works.HEARTBEAT_16, 0.15),
    _of_kfake(works.COMMIT, 0.9, OURS_UNSYNCED),
    _of_kfake(works.COMMIT, 1.7),
    _of_kfake(works.COMMIT_128, 1.2),
    _of_kfake(works.COMMIT_50, 1.0),
    _of_kfake(works.FETCH_50, 1.0),
    _of_kfake(works.CREATE, 1.0),
    _of_kfake(works.STORM, 1.0),
    _figure(
        works.REBALANCE_1000.name,
        40,
        "ms CPU",
        lambda ours: ours.typical(works.REBALANCE_1000).cpu_us / 1e3,
    ),
    _figure("resident memory per one-member group", 2_300, "bytes", _bytes_per_group),
    _figure("start to first FindCoordinator answer", 0.4, "s", lambda ours: ours.start_seconds),
)


def goals_table(run: Run) -> str:
    """A row for each goal that can be judged by what was measured; empty if none can."""
    instead = {OURS: COMPILED, OURS_UNSYNCED: COMPILED_UNSYNCED}
    compiled = {
        name: run[instead.get(name, name)] for name in run if instead.get(name, name) in run
    }
    has_compiled = COMPILED in run
    rows = []
    for goal in GOALS:
        reached = goal.reached(run)
        if reached is not None:
            row = [goal.what, goal.unit, f"{goal.at_most:,g}", *_judged(goal, reached)]
            rows.append(row + _judged(goal, goal.reached(compiled)) if has_compiled else row)
    head = ["goal", "unit", "at most", "reached", ""]
    return table([*head, "compiled", ""] if has_compiled else head, rows) if rows else ""


def _judged(goal: Goal, reached: float | None) -> list[str]:
    if reached is None:
        return ["-", ""]
    return [f"{reached:,.4g}", "met" if reached <= goal.at_most else "missed"]
