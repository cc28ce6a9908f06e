"""Damages data directories: `python -m tests.damage --rounds 2000 [--seed 1]`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from coordinator_server.observe import log
from tests.damage.harness import make_all, run
from tests.damage.templates import TEMPLATES


def main() -> int:
    """0 if no start served anything older than what was acknowledged, or hid the damage."""
    parser = argparse.ArgumentParser(prog="python -m tests.damage", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2_000, help="how many directories to damage")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is left to chance")
    parser.add_argument("--only", help="damage files of this kind alone, such as journal")
    options = parser.parse_args()
    log.configure(level="error")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="damage-") as name:
        made = make_all(TEMPLATES, Path(name), options.seed)
        _say(f"{len(made)} directories made in {time.monotonic() - began:.0f} s")
        tally = run(made, Path(name) / "scratch", options.rounds, options.seed, options.only)
    for each in tally.bad:
        _say(each)
    _say(tally.table())
    seconds = time.monotonic() - began
    _say(f"{tally.rounds} damaged directories in {seconds:.0f} s, {len(tally.bad)} problems")
    return 1 if tally.bad else 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - what a command is for


if __name__ == "__main__":
    sys.exit(main())
