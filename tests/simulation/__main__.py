"""Runs the simulation: `python -m tests.simulation --seeds 10000`, or `--seed 42` for one."""

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Generator

from tests.simulation.mutants import MUTANTS, table
from tests.simulation.run import play, report
from tests.simulation.script import script_of

_CHUNK = 10
_TELL_EVERY_S = 10


def main() -> int:
    """Returns 0 if no seed breaks a rule."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument(
        "--seed",
        type=int,
        help="run one seed; print the shortest failing steps if it breaks a rule",
    )
    parser.add_argument("--seeds", type=int, default=1_000, help="the number of seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (%(default)s)"
    )
    parser.add_argument(
        "--story", action="store_true", help="print the steps of the seed in any case"
    )
    parser.add_argument(
        "--mutants",
        action="store_true",
        help=f"plant the {len(MUTANTS)} known bugs one by one; print a table",
    )
    options = parser.parse_args()
    if options.mutants:
        for line in table(options.jobs):
            _say(line)
        return 0
    if options.seed is not None:
        return _one(options.seed, story=options.story)
    return _many(options.first, options.seeds, options.jobs)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - what a command is for


def _one(seed: int, *, story: bool) -> int:
    outcome = play(script_of(seed), telling=story)
    if outcome.broken:
        _say(report(seed))
        return 1
    _say("\n".join([*outcome.report, f"seed {seed}: no rule was broken in {outcome.played} steps"]))
    return 0


def _many(first: int, seeds: int, jobs: int) -> int:
    begun = time.monotonic()
    told, done = begun, 0
    try:
        outcomes = _play_all(range(first, first + seeds), jobs)
        for seed, broken in outcomes:
            done += 1
            if broken:
                outcomes.close()
                _say(f"seed {seed} breaks a rule; looking for a shorter script that breaks it")
                _say(report(seed))
                return 1
            if time.monotonic() - told >= _TELL_EVERY_S:
                told = time.monotonic()
                _say(_progress(done, seeds, told - begun))
    except KeyboardInterrupt:
        _say(f"stopped after {done} seeds; next: --first {first + done} --seeds {seeds - done}")
        return 130
    _say(f"{seeds} seeds from {first}: no rule was broken in {time.monotonic() - begun:.0f} s")
    return 0


def _progress(done: int, seeds: int, seconds: float) -> str:
    left = seconds / done * (seeds - done)
    return f"{done} of {seeds} seeds in {seconds:.0f} s, about {left:.0f} s left"


def _play_all(seeds: range, jobs: int) -> Generator[tuple[int, bool], None, None]:
    """Run seeds in order; yields each with whether it breaks a rule."""
    if jobs == 1:
        yield from ((seed, _breaks(seed)) for seed in seeds)
        return
    with multiprocessing.Pool(jobs, _leave_interrupts) as pool:
        yield from zip(seeds, pool.imap(_breaks, seeds, _CHUNK), strict=True)


def _leave_interrupts() -> None:
    """Ignore Ctrl-C: the parent process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _breaks(seed: int) -> bool:
    return bool(play(script_of(seed)).broken)


if __name__ == "__main__":
    sys.exit(main())
