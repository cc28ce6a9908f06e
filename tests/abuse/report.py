"""Judges outcomes against the limits, and prints the table."""

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.tables import table
from tests.abuse.attack import MEBIBYTE
from tests.abuse.bench import OVERTIME, Outcome
from tests.abuse.observers import EVICTED, REBALANCED

BEGIN: Final = "<!-- begin: printed by make abuse -->"
END: Final = "<!-- end: printed by make abuse -->"
"""Marks of the table in docs/operations.md."""
DISTURBED_MS: Final = 20.0
HEAD: Final = (
    "attack",
    "what is done",
    "result",
    "p50 ms",
    "p99",
    "max",
    "evicted",
    "commit errors",
    "idle MiB",
    "peak",
    "after",
    "log KiB",
    "/healthz max ms",
)


@dataclass(frozen=True)
class Limits:
    """Bounds that every attack is held against."""

    p99_ms: float = 50.0
    memory_bytes: int = 2 << 30
    health_ms: float = 2_000.0
    stop_seconds: float = 10.0


def default_memory_bytes() -> int:
    """Return the memory budget of the server: a quarter of the machine, at most 2 GiB."""
    return min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4, 2 << 30)


def problems(outcome: Outcome, limits: Limits) -> list[str]:
    """Return which limits an attack broke, in words."""
    return [
        *_of_members(outcome, limits),
        *_of_memory(outcome, limits),
        *_of_process(outcome, limits),
    ]


def _of_members(outcome: Outcome, limits: Limits) -> Iterable[str]:
    beats, commits = outcome.under["heartbeat"], outcome.under["commit"]
    if OVERTIME in outcome.done:
        yield "the attack did not end in time"
    if beats["count"] < 20:
        yield f"only {beats['count']} heartbeats were answered"
    if beats["p99"] > limits.p99_ms and not outcome.attack.is_paused:
        yield f"p99 {beats['p99']:,.0f} ms"
    if evicted(outcome):
        yield f"{evicted(outcome)} heartbeats of evicted or rebalanced members"
    others = {code for code in map(int, beats["errors"]) if code not in (EVICTED, *REBALANCED)}
    if others:
        yield f"heartbeat errors {sorted(others)}"
    if beats["lost"] + commits["lost"]:
        yield f"{beats['lost'] + commits['lost']} connections of others lost"
    if commits["errors"] and not outcome.attack.commits_may_fail:
        yield f"commit errors {commits['errors']}"


def is_disturbed(outcome: Outcome) -> bool:
    """Return whether other work on the machine held up even the measuring process."""
    return float(outcome.under["late"]["max"]) > DISTURBED_MS


def evicted(outcome: Outcome) -> int:
    """Return how many heartbeats said that a member of the group was evicted."""
    errors = {int(code): count for code, count in outcome.under["heartbeat"]["errors"].items()}
    return sum(errors.get(code, 0) for code in (EVICTED, *REBALANCED))


def _of_memory(outcome: Outcome, limits: Limits) -> Iterable[str]:
    if outcome.was_killed:
        yield f"memory {outcome.peak_bytes // MEBIBYTE:,} MiB: server killed to save the machine"
        return
    if outcome.peak_bytes > limits.memory_bytes:
        yield f"memory {outcome.peak_bytes // MEBIBYTE:,} MiB"
    kept = outcome.after_bytes - outcome.idle_bytes
    if kept > outcome.attack.keeps_bytes:
        yield f"{kept // MEBIBYTE:,} MiB not returned after {outcome.settled_seconds:.0f} s"


def _of_process(outcome: Outcome, limits: Limits) -> Iterable[str]:
    if outcome.was_killed:
        return
    if outcome.log_bytes > outcome.attack.log_bytes:
        yield f"{outcome.log_bytes / MEBIBYTE:.1f} MiB of log"
    if outcome.unhealthy and not outcome.attack.is_paused:
        yield f"/healthz failed {outcome.unhealthy} times"
    elif outcome.health_max_ms > limits.health_ms and not outcome.attack.is_paused:
        yield f"/healthz after {outcome.health_max_ms:,.0f} ms"
    if outcome.exit_code != 0:
        yield f"exit code {outcome.exit_code}"
    elif outcome.stop_seconds > limits.stop_seconds:
        yield f"stopped after {outcome.stop_seconds:.0f} s"


def row(outcome: Outcome, limits: Limits) -> Sequence[str]:
    """Return the table's row of an attack."""
    beats, commits = outcome.under["heartbeat"], outcome.under["commit"]
    figures = [f"{beats[name]:,.1f}" for name in ("p50", "p99", "max")]
    memory = [outcome.idle_bytes, outcome.peak_bytes, outcome.after_bytes]
    return (
        f"`{outcome.attack.name}`",
        outcome.attack.about,
        "; ".join(problems(outcome, limits)) or "held",
        *figures,
        str(evicted(outcome)),
        str(sum(commits["errors"].values())),
        *(f"{each // MEBIBYTE:,}" for each in memory),
        f"{outcome.log_bytes / 1024:,.0f}",
        f"{outcome.health_max_ms:,.0f}",
    )


def rendered(outcomes: Sequence[Outcome], limits: Limits) -> str:
    """Return the table of all attacks as Markdown."""
    return table(HEAD, [row(each, limits) for each in outcomes], texts=3)


def with_table(page: str, result: str) -> str:
    """Return a page with a result between its marks. Raises ValueError without them."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page has no {BEGIN} with {END} behind it")
    return f"{before}{BEGIN}\n\n{result}\n\n{END}{after}"


def detail(outcome: Outcome) -> str:
    """Return what the table leaves out, on one line."""
    quiet, under = outcome.quiet["heartbeat"], outcome.under
    done = ", ".join(f"{count:,} {name}" for name, count in outcome.done.items())
    return (
        f"quiet p99 {quiet['p99']:.1f} ms, max {quiet['max']:.1f}; "
        f"{under['heartbeat']['count']} heartbeats, commits p99 {under['commit']['p99']:.0f} ms; "
        f"observers late {under['late']['count']} times, at most {under['late']['max']:.0f} ms; "
        f"server waited {outcome.waited_ms:.0f} ms for its processor; "
        f"stopped in {outcome.stop_seconds:.1f} s, code {outcome.exit_code}; attacker: {done}"
    )


def machine() -> str:
    """Return the size of the machine and how busy it was, without its name."""
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    return (
        f"{os.cpu_count()} cores, {gibibytes:.0f} GiB, Linux {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, load average {load}"
    )
