"""Raises exceptions at every point of the real server under load.

`python -m tests.chaos [--points REGEX] [--exceptions RuntimeError,...] [--jobs 4] [--seed 1]`
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.chaos.injector import EXCEPTIONS
from tests.chaos.plan import Work, Worker, arms, plan
from tests.chaos.recording import Recording, record


def main() -> int:
    """0 if every exception was survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--points", default="", help="only points whose name has this pattern")
    parser.add_argument("--exceptions", default=",".join(EXCEPTIONS), help="separated by commas")
    parser.add_argument("--jobs", type=int, default=4, help="servers at a time")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is left to chance")
    parser.add_argument("--sample", type=int, help="only so many, chosen by the seed")
    parser.add_argument("--minutes", type=float, default=15, help="leave out what takes longer")
    parser.add_argument("--list", action="store_true", help="print the points and end")
    parser.add_argument("--points-file", type=Path, help="keep the points there, or take them")
    options = parser.parse_args()
    # Clients write to servers that have been killed.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    return asyncio.run(_main(options))


async def _main(options: argparse.Namespace) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        directory = Path(name)
        if options.points_file is not None and options.points_file.exists():
            recording, problems = Recording.parse(options.points_file.read_text()), list[str]()
        else:
            recording, problems = await record(directory / "recorded")
            if options.points_file is not None:
                options.points_file.write_text(recording.dump())
        if problems:
            _say("without any exception:", *problems)
            return 1
        if options.list:
            for each in recording.found.values():
                recurs, kinds = "+" if each.recurs else " ", ",".join(each.kinds)
                _say(f"{each.phase:5} {recurs} {kinds:16} {each.name}")
        _say(f"{recording.total} points found, {len(recording.found)} passed under the load")
        if options.list:
            return 0
        random = Random(options.seed)
        chosen = arms(recording, options.exceptions.split(","), options.points, random)
        if options.sample is not None:
            every = [(phase, arm) for phase, each in chosen.items() for arm in each]
            kept = set(random.sample(every, min(options.sample, len(every))))
            chosen = {p: [arm for arm in each if (p, arm) in kept] for p, each in chosen.items()}
        work = plan(recording, chosen, random)
        seconds = options.minutes * 60 - (time.monotonic() - began)
        acknowledged = await _work(directory, work, options.jobs, seconds)
    _summary(work, recording, acknowledged, time.monotonic() - began)
    return 1 if any(verdict.outcome == "failed" for verdict in work.verdicts) else 0


async def _work(directory: Path, work: Work, jobs: int, seconds: float) -> int:
    workers = [Worker(directory / f"{number}", work, _say, seconds) for number in range(jobs)]
    await asyncio.gather(*(worker.run() for worker in workers))
    return sum(worker.acknowledged for worker in workers)


def _summary(work: Work, recording: Recording, acknowledged: int, seconds: float) -> None:
    outcomes = Counter(verdict.outcome for verdict in work.verdicts)
    struck = {v.arm[0] for v in work.verdicts if v.outcome != "not reached"}
    failed = [verdict for verdict in work.verdicts if verdict.outcome == "failed"]
    left = sum(map(len, [*work.batches, work.missed]))
    left += sum(arm is not None for life in work.lives for arm in life)
    kinds = Counter(kind for name in struck for kind in recording.found[name].kinds)
    _say("", *(str(verdict).splitlines()[0] for verdict in sorted(failed, key=lambda v: v.arm)))
    _say(
        f"{recording.total} points found, {len(recording.found)} passed under the load, "
        f"{len(struck)} struck ({', '.join(f'{kind} {n}' for kind, n in sorted(kinds.items()))})",
        f"{work.tried} exceptions raised in {seconds:.0f} s with {acknowledged:,} acknowledged "
        f"commits: {outcomes['survived']} survived, {outcomes['restarted']} ended a start with an "
        f"error and the next one was fine, {outcomes['failed']} failed; {outcomes['not reached']} "
        f"were not reached, {left} were left out for lack of time",
    )


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201 - what a command is for


if __name__ == "__main__":
    sys.exit(main())
