"""Runs a script to its end, and reports the steps of one that breaks a rule."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.script import Script, script_of
from tests.simulation.simulator import Broken, Simulator

ATTEMPTS = 400
"""The number of scripts that shrinking may try."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of running a script."""

    script: Script
    broken: str
    """The first rule that was broken; "" if none was."""
    played: int
    """The number of steps that were run."""
    report: Sequence[str]
    transcript: Sequence[str]


def play(script: Script, *, telling: bool = False, transcript: bool = False) -> Outcome:
    """Run all steps, let the groups settle, and cut the power once more."""
    simulator = Simulator(script.setup, telling=telling)
    simulator.checker.keeps_transcript = transcript
    played, broken = 0, ""
    with simulator:
        try:
            for step in script.steps:
                played += 1
                simulator.play(step)
            simulator.settle()
            simulator.restart_all()
        except Broken as error:
            broken = str(error)
    return Outcome(script, broken, played, simulator.steps, simulator.checker.transcript)


def shrink(outcome: Outcome) -> Outcome:
    """Find a shorter script that breaks a rule, by leaving out ever smaller parts."""
    best = Script(outcome.script.setup, outcome.script.steps[: outcome.played])
    attempts, size = ATTEMPTS, max(len(best.steps) // 2, 1)
    while size and attempts > 0:
        start = 0
        while start < len(best.steps) and attempts > 0:
            attempts -= 1
            shorter = Script(best.setup, best.steps[:start] + best.steps[start + size :])
            if play(shorter).broken:
                best = shorter
            else:
                start += size
        size //= 2
    return play(best, telling=True)


def report(seed: int) -> str:
    """Report the shortest failing script found for a seed."""
    shortest = shrink(play(script_of(seed)))
    lines = [
        f"seed {seed} breaks a rule: {shortest.broken}",
        f"{shortest.script.setup}",
        f"the shortest failing script found has {len(shortest.script.steps)} steps:",
        *shortest.report,
        f"To repeat it: python -m tests.simulation --seed {seed}",
    ]
    return "\n".join(lines)
