"""Plants known bugs one at a time, to show that the simulation finds them.

Most are found within some tens of seeds. For rare ones the search starts at a later seed
(`mutant_registry.RARE`); a run of fewer seeds would not find them.
"""

import multiprocessing
from collections.abc import Iterator

# They are in the list once they are imported.
from tests.simulation import planted_core, planted_runtime  # noqa: F401
from tests.simulation.mutant_registry import MUTANTS, Mutant
from tests.simulation.run import Outcome, play
from tests.simulation.script import script_of

__all__ = ["MUTANTS", "SEEDS", "Mutant", "caught", "table"]

SEEDS = 600
"""The number of seeds, from the first of its search, within which a mutant is caught."""


def caught(bug: Mutant, seeds: int = SEEDS) -> tuple[int, Outcome] | None:
    """The first seed that catches the mutant, and the broken rule."""
    for seed in range(bug.first_seed, bug.first_seed + seeds):
        with bug.plant():
            outcome = play(script_of(seed))
        if outcome.broken:
            return seed, outcome
    return None


def table(jobs: int) -> Iterator[str]:
    """Every mutant with the seeds that were played, and the rule the last one broke; Markdown."""
    yield "| planted bug | searched from seed | found by seed | first broken rule |"
    yield "|---|--:|--:|---|"
    with multiprocessing.Pool(jobs) as pool:
        yield from pool.imap(_row, range(len(MUTANTS)), chunksize=1)


def _row(number: int) -> str:
    bug = MUTANTS[number]
    found = caught(bug)
    if found is None:
        return f"| {bug.name} | {bug.first_seed} | - | not found in {SEEDS} seeds |"
    return f"| {bug.name} | {bug.first_seed} | {found[0]} | {_short(found[1].broken)} |"


def _short(broken: str) -> str:
    return broken.replace("|", "/").replace("\n", " ")[:90]
