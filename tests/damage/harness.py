"""Makes data directories, damages copies of them, and counts how the starts end."""

import asyncio
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.damage.check import GOOD, Finding, Outcome, look, verified
from tests.damage.mutations import Damaged, damage
from tests.damage.templates import Made, Template, copied, make


@dataclass
class Tally:
    """The outcomes of many rounds."""

    rounds: int = 0
    outcomes: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    """By kind of file."""
    kinds: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    """By kind of damage."""
    bad: list[str] = field(default_factory=list)

    def add(self, seed: str, made: Made, damaged: Damaged, finding: Finding) -> None:
        """Count a round."""
        self.rounds += 1
        self.outcomes[damaged.file_kind, finding.outcome] += 1
        self.kinds[damaged.kind, finding.outcome] += 1
        if finding.outcome not in GOOD:
            lines = [*finding.problems[:5], *(f"  {line}" for line in finding.said[:12])]
            what = f"{finding.outcome}: seed {seed}, {made.template.name}, {damaged}"
            self.bad.append("\n".join([what, *lines]))

    def table(self) -> str:
        """The outcomes, a line for each kind of file and of damage."""
        head = [f"{'':34}" + "".join(f"{outcome:>32}" for outcome in Outcome)]
        return "\n".join(
            [
                *head,
                *_lines("file", self.outcomes),
                *_lines("damage", self.kinds),
                *_lines("all", Counter({("", o): n for (_, o), n in _sum(self.outcomes).items()})),
            ]
        )


def _sum(counts: Counter[tuple[str, Outcome]]) -> Counter[tuple[str, Outcome]]:
    total: Counter[tuple[str, Outcome]] = Counter()
    for (_, outcome), count in counts.items():
        total["", outcome] += count
    return total


def _lines(what: str, counts: Counter[tuple[str, Outcome]]) -> Iterator[str]:
    for kind in sorted({kind for kind, _ in counts}):
        cells = "".join(f"{counts[kind, outcome]:>32}" for outcome in Outcome)
        yield f"{what + ' ' + kind:34}{cells}"


def make_all(templates: Sequence[Template], directory: Path, seed: int) -> list[Made]:
    """A data directory of each template."""
    return [make(template, directory / template.name, seed) for template in templates]


def run_round(
    made: Made, scratch: Path, seed: str, only: str | None = None
) -> tuple[Damaged, Finding]:
    """Damage a copy and start on it."""
    random = Random(seed)
    with copied(made, scratch) as data:
        damaged = damage(data, random, only)
        wrong = verified(data)
        try:
            finding = asyncio.run(look(data, made.settings(), made.acknowledged, damaged))
        except Exception:  # noqa: BLE001 - whatever a start raises is a finding
            finding = Finding(Outcome.CRASHED, traceback.format_exc().splitlines()[-6:])
    if not wrong and finding.outcome in (Outcome.FAILED, Outcome.REFUSED):
        finding.outcome = Outcome.UNVERIFIED
    return damaged, finding


def run(
    all_made: Sequence[Made], scratch: Path, rounds: int, seed: int, only: str | None = None
) -> Tally:
    """So many rounds, on one directory after the other."""
    tally = Tally()
    for number in range(rounds):
        made = all_made[number % len(all_made)]
        name = f"{seed}.{number}"
        tally.add(name, made, *run_round(made, scratch / "data", name, only))
    return tally
