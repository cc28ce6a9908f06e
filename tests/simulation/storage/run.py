"""Plays seeds, shortens those that break a rule, and tells their history."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from coordinator_server.storage.segments.flusher import FlushPolicy
from tests.simulation.storage.setup import CALM, Setup, setup_of
from tests.simulation.storage.world import Outcome, play

ATTEMPTS: Final = 150
"""Setups that shrinking may try."""
LINES: Final = 400
"""Of the history that are printed; the last ones."""


def _simpler(setup: Setup) -> Iterator[Setup]:
    """Setups that are a little simpler."""
    lives = setup.lives
    for number in range(len(lives) - 1):
        yield replace(setup, lives=lives[:number] + lives[number + 1 :])
    for operations in (setup.operations // 2, setup.operations - 1):
        if operations:
            yield replace(setup, operations=operations)
    if setup.partitions > 1:
        yield replace(setup, partitions=setup.partitions - 1)
    if setup.topics:
        yield replace(setup, topics=0)
    if setup.cleans:
        yield replace(setup, cleans=False)
    if setup.policy is not FlushPolicy.COMMIT:
        yield replace(setup, policy=FlushPolicy.COMMIT)
    for number, life in enumerate(lives):
        for simpler in (
            replace(life, weather=CALM),
            replace(life, preemption=0.0),
            replace(life, trigger=""),
            replace(life, stop_at=life.stop_at // 2 or life.stop_at),
        ):
            if simpler != life:
                yield replace(setup, lives=(*lives[:number], simpler, *lives[number + 1 :]))


def shrink(outcome: Outcome) -> Outcome:
    """A simpler setup of the same seed that breaks a rule, too, with its history."""
    best, attempts, goes_on = outcome.setup, ATTEMPTS, True
    while goes_on and attempts > 0:
        goes_on = False
        for setup in _simpler(best):
            attempts -= 1
            if attempts < 0:
                break
            if play(setup).broken:
                best, goes_on = setup, True
                break
    return play(best, history=LINES)


def report(outcome: Outcome) -> str:
    """The history of a seed that breaks a rule, as short as it was found to be."""
    shortest = shrink(outcome)
    seed = outcome.setup.seed
    return "\n".join(
        [
            f"seed {seed} breaks a rule: {outcome.broken}",
            f"simplified: {shortest.setup}",
            *shortest.history,
            f"BROKEN: {shortest.broken}",
            f"again: python -m tests.simulation.storage --seed {seed}",
        ]
    )


def one(seed: int) -> Outcome:
    """Play a seed."""
    return play(setup_of(seed), history=LINES)
