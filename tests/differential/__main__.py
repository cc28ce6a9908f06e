"""Plays random scripts against Kafka 4.1.1 and our server, and tells where answers differ.

`python -m tests.differential --seeds 1000`, or `--seed 42` for one: it is made as short as it can
be if it differs, and its transcript is printed.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.differential.comparison import Comparison, Outcome, both
from tests.differential.script import script_of


def main() -> int:
    """0 if nothing differed."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seed", type=int, help="play one seed and print its transcript")
    parser.add_argument("--seeds", type=int, default=300, help="how many to play (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--parallel", type=int, default=24, help="scripts at once (%(default)s)")
    parser.add_argument("--delay", type=int, default=0, help="initial rebalance delay, in ms")
    options = parser.parse_args()
    settings = {"group.initial.rebalance.delay.ms": str(options.delay)}
    with tempfile.TemporaryDirectory() as directory, both(Path(directory), settings) as servers:
        comparison = Comparison(servers, delay_ms=options.delay)
        if options.seed is not None:
            return asyncio.run(_one(comparison, options.seed))
        return asyncio.run(_many(comparison, options.first, options.seeds, options.parallel))


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - what a command is for


async def _one(comparison: Comparison, seed: int) -> int:
    verdict = await comparison.verdict(script_of(seed))
    if verdict.outcome is Outcome.DIFFERS:
        verdict = await comparison.shrunk(verdict.script) or verdict
        _say("\n".join(map(str, verdict.script.steps)))
    _say(str(verdict))
    return int(verdict.outcome is Outcome.DIFFERS)


async def _many(comparison: Comparison, first: int, seeds: int, parallel: int) -> int:
    begun, answers = time.monotonic(), 0
    outcomes: Counter[str] = Counter()
    scripts = (script_of(seed) for seed in range(first, first + seeds))
    async for verdict in comparison.verdicts(scripts, parallel):
        outcomes[verdict.outcome] += 1
        answers += verdict.answers
        if verdict.outcome is Outcome.DIFFERS:
            _say(f"seed {verdict.script.seed} differs: {verdict.difference}")
    took = time.monotonic() - begun
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    _say(f"{seeds} scripts, {answers} answers, {took:.0f} s: {counts}")
    return int(outcomes[Outcome.DIFFERS] > 0)


if __name__ == "__main__":
    sys.exit(main())
