"""Kills a server as often as asked: `python -m tests.crash --rounds 200 [--seed 1]`."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.crash.rounds import FLUSH, CrashRounds

_ROUNDS_PER_DIRECTORY = 25


def main() -> int:
    """0 if nothing was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="how often to kill it")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is left to chance")
    options = parser.parse_args()
    began = time.monotonic()
    tally: Counter[str] = Counter()
    acknowledged = 0
    for first in range(0, options.rounds, _ROUNDS_PER_DIRECTORY):
        rounds = min(_ROUNDS_PER_DIRECTORY, options.rounds - first)
        with tempfile.TemporaryDirectory(prefix="crash-") as name:
            heard, problems = _on_one_directory(Path(name), options.seed + first, rounds, tally)
        acknowledged += heard
        if problems:
            _say("\n".join([f"seed {options.seed + first}, {rounds} rounds:", *problems]))
            return 1
    points = ", ".join(f"{point} {count}" for point, count in sorted(tally.items()))
    _say(
        f"{sum(tally.values())} kills in {time.monotonic() - began:.0f} s, {acknowledged:,} "
        f"acknowledged requests, nothing lost: {points}"
    )
    return 0


def _on_one_directory(
    directory: Path, seed: int, rounds: int, tally: Counter[str]
) -> tuple[int, list[str]]:
    """How many requests were acknowledged, and what went wrong; stops at the first of that."""
    random = Random(seed)
    with CrashRounds(directory, seed, flush=random.choice(FLUSH)) as crash_rounds:
        for _ in range(rounds):
            if random.random() < 0.1:
                tally["in a start"] += 1
                crash_rounds.die_at_start(random.randint(1, 30))
                continue
            point, problems = crash_rounds.any_round()
            tally[point] += 1
            if problems:
                return crash_rounds.acknowledged, problems
        return crash_rounds.acknowledged, crash_rounds.end()


def _say(text: str) -> None:
    print(text)  # noqa: T201 - what a command is for


if __name__ == "__main__":
    sys.exit(main())
