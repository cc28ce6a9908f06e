"""Simulates the storage: `python -m tests.simulation.storage --seeds 1000`, or `--seed 42`."""

import argparse
import gc
import multiprocessing
import os
import sys
import time
from contextlib import ExitStack
from typing import Final

from tests.simulation.storage.instrument import instrumented
from tests.simulation.storage.planted import PLANTED, SEEDS, caught
from tests.simulation.storage.run import one, report
from tests.simulation.storage.setup import setup_of
from tests.simulation.storage.world import play

_CHUNK = 5
_TELL_EVERY_S = 10


def main() -> int:
    """0 if no rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.storage", description=__doc__)
    parser.add_argument("--seed", type=int, help="play one seed; its history if it breaks a rule")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many seeds to play")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--history", action="store_true", help="print the history in any case")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (%(default)s)"
    )
    parser.add_argument(
        "--planted", action="store_true", help=f"plant the {len(PLANTED)} known bugs, one by one"
    )
    options = parser.parse_args()
    if options.planted:
        return _planted()
    if options.seed is not None:
        return _one(options.seed, history=options.history)
    return _many(range(options.first, options.first + options.seeds), options.jobs)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - what a command is for


def _one(seed: int, *, history: bool) -> int:
    with instrumented():
        outcome = one(seed)
        if outcome.broken:
            _say(report(outcome))
            return 1
    if history:
        _say("\n".join(outcome.history))
    _say(f"seed {seed}: no rule is broken in {outcome.steps} steps")
    return 0


def _many(seeds: range, jobs: int) -> int:
    begun = told = time.monotonic()
    steps = 0
    with multiprocessing.Pool(jobs, _instrument) as pool:
        for done, (seed, broken, played) in enumerate(pool.imap(_play, seeds, _CHUNK), 1):
            steps += played
            if broken:
                pool.terminate()
                _say(f"seed {seed} breaks a rule: {broken}; its history is being shortened")
                return _one(seed, history=True)
            if time.monotonic() - told >= _TELL_EVERY_S:
                told = time.monotonic()
                _say(f"{done} of {len(seeds)} seeds, {steps} steps in {told - begun:.0f} s")
    seconds = time.monotonic() - begun
    _say(f"{len(seeds)} seeds from {seeds.start} on, {steps} steps, {seconds:.0f} s: all is well")
    return 0


_LASTING: Final = ExitStack()


def _instrument() -> None:
    """For all seeds of a process: it takes as long as playing one."""
    _LASTING.enter_context(instrumented())
    gc.freeze()


def _play(seed: int) -> tuple[int, str, int]:
    outcome = play(setup_of(seed))
    return seed, outcome.broken, outcome.steps


def _planted() -> int:
    missed = tried = 0
    begun = time.monotonic()
    _say(
        "| planted bug | searched from seed | found by seed | seconds | broken rule |\n"
        "|---|--:|--:|--:|---|"
    )
    for bug in PLANTED:
        started = time.monotonic()
        found = caught(bug)
        seconds = time.monotonic() - started
        missed += found is None
        seed, broken = ("-", "not found") if found is None else (found.setup.seed, found.broken)
        tried += SEEDS if found is None else found.setup.seed - bug.first_seed + 1
        _say(f"| {bug.name} | {bug.first_seed} | {seed} | {seconds:.1f} | {str(broken)[:100]} |")
    seconds = time.monotonic() - begun
    found_all = f"{len(PLANTED) - missed} of {len(PLANTED)} planted bugs were found"
    _say(f"{found_all}, in {tried} seeds, {seconds:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
