"""Makes small, wrong changes to `coordinator_server/group`, and sees whether a test notices.

    python -m tools.mutate                  a sample of the changes
    python -m tools.mutate --all            every one
    python -m tools.mutate --only join.py   those of some files

A mutant is killed if a test of tests/unit/group fails or hangs. One that survives shows a test
that is missing, or a change that changes nothing: docs/mutation.md has to explain it. A change is
made in memory alone, in a process of its own, which runs the tests that execute the changed lines.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tools.mutants import (
    Lines,
    Spawn,
    lines_of_tests,
    spawn_with_import,
    wait,
    with_tests_collected,
)
from tools.mutations import Mutation, enum_members, mutations

ROOT: Final = Path(__file__).resolve().parent.parent
GROUP: Final = "coordinator_server/group"
SAMPLE: Final = 200
ENOUGH: Final = 0.9


def modules() -> list[Path]:
    """The source files that are mutated."""
    return sorted((ROOT / GROUP).rglob("*.py"))


def _relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def all_mutations() -> list[Mutation]:
    """Every change there is, in the order of the files."""
    sources = {_relative(file): file.read_text(encoding="utf-8") for file in modules()}
    errors = (ROOT / "protocol/coordinator_protocol/errors.py").read_text(encoding="utf-8")
    members: dict[str, tuple[str, ...]] = {}
    for source in (*sources.values(), errors):
        members |= enum_members(source)
    return [found for path, source in sources.items() for found in mutations(path, source, members)]


def survivors(chosen: Sequence[Mutation], jobs: int) -> list[Mutation]:
    """Try mutations, as many at once as there are jobs; those no test notices."""
    lines = lines_of_tests(ROOT, GROUP)
    found = list(_try([m for m in chosen if not m.in_body], lines, jobs, spawn_with_import))

    def begin(spawn: Spawn) -> None:
        found.extend(_try([m for m in chosen if m.in_body], lines, jobs, spawn))

    with_tests_collected(begin)
    return sorted(found, key=lambda mutation: (mutation.path, mutation.line))


def _try(chosen: Sequence[Mutation], lines: Lines, jobs: int, spawn: Spawn) -> Iterator[Mutation]:
    running: dict[int, Mutation] = {}
    _control(chosen, lines, spawn)
    for mutation in chosen:
        tests = lines.tests(ROOT / mutation.path, mutation.statement)
        if not tests:
            yield mutation
            continue
        running[spawn(mutation, tests)] = mutation
        if len(running) >= jobs:
            yield from _ended(running)
    while running:
        yield from _ended(running)


def _control(chosen: Sequence[Mutation], lines: Lines, spawn: Spawn) -> None:
    """See that no test fails where nothing is changed. Exits if one does."""
    for mutation in chosen:
        tests = lines.tests(ROOT / mutation.path, mutation.statement)
        if tests:
            original = (ROOT / mutation.path).read_text(encoding="utf-8")
            spawn(replace(mutation, source=original), tests)
            if not wait()[1]:
                sys.exit("a test fails where nothing is changed: the figures would mean nothing")
            return


def _ended(running: dict[int, Mutation]) -> Iterator[Mutation]:
    """Wait for one process; its mutation if it has survived."""
    pid, passed = wait()
    mutation = running.pop(pid)
    if passed:
        yield mutation


# --- the report ---


def explained(mutation: Mutation, page: Sequence[str]) -> bool:
    """Whether a line of docs/mutation.md names the place and the change."""
    place = mutation.place.removeprefix(f"{GROUP}/")
    return any(f"`{place}`" in line and f"`{mutation.change}`" in line for line in page)


def report(chosen: Sequence[Mutation], survived: Sequence[Mutation]) -> Iterator[str]:
    """A table by module, and who has survived."""
    tried = Counter(mutation.path for mutation in chosen)
    alive = Counter(mutation.path for mutation in survived)
    yield "| module | mutants | killed | survived | |"
    yield "|---|--:|--:|--:|--:|"
    for path in sorted(tried):
        yield _row(f"`{path.removeprefix(f'{GROUP}/')}`", tried[path], alive[path])
    yield _row("all", len(chosen), len(survived))
    page = (ROOT / "docs/mutation.md").read_text(encoding="utf-8").splitlines()
    for mutation in survived:
        word = "explained" if explained(mutation, page) else "NOT EXPLAINED"
        yield f"\n{mutation.path}:{mutation.line} {mutation.operator}, {word}"
        yield f"    `{mutation.place.removeprefix(f'{GROUP}/')}` | `{mutation.change}`"


def _row(name: str, tried: int, alive: int) -> str:
    return f"| {name} | {tried} | {tried - alive} | {alive} | {1 - alive / tried:.1%} |"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="every mutation, not a sample")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which sample (%(default)s)")
    parser.add_argument("--only", nargs="+", default=[], metavar="FILE", help="ends of paths")
    parser.add_argument("--jobs", type=int, default=2, help="at once (%(default)s)")
    return parser.parse_args()


def main() -> None:
    """Try mutations; exit with 1 if too many survive or one is not explained."""
    options = _options()
    chosen = all_mutations()
    if options.only:
        chosen = [m for m in chosen if m.path.endswith(tuple(options.only))]
    if not options.all and not options.only:
        chance = random.Random(options.seed)  # noqa: S311 - no secret
        chosen = chance.sample(chosen, min(options.sample, len(chosen)))
    began = time.monotonic()
    survived = survivors(chosen, options.jobs)
    print("\n".join(report(chosen, survived)))
    print(f"\n{len(chosen)} mutants in {time.monotonic() - began:.0f} s")
    page = (ROOT / "docs/mutation.md").read_text(encoding="utf-8").splitlines()
    few = len(survived) <= (1 - ENOUGH) * len(chosen)
    sys.exit(0 if few and all(explained(m, page) for m in survived) else 1)


if __name__ == "__main__":
    main()
