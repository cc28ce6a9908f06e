"""How bugs are planted: a function of the code under test is replaced while a mutant is active."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

Plant = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug and how to plant it."""

    name: str
    plant: Plant
    first_seed: int = 0
    """Where the search begins."""


MUTANTS: list[Mutant] = []

RARE = {
    "new members may wait for ever": 30,
    "session does not start anew when a held reply leaves": 80,
    "expiry does not see open transactions": 40,
    "join phase ends early": 30,
    "parked replies are forgotten when the tenure ends": 40,
    "inline turn overtakes the mailbox": 4390,
    "deletion is settled by what is not durable": 50,
    "stale owner goes on answering": 300,
    "group that ends takes its lost generation with it": 270,
}
"""Where the search for what takes a rare world begins, so that a test of it does not take long."""


def mutant(plant: Plant) -> Plant:
    """Add to the list under the function's name."""
    name = plant.__name__.replace("_", " ")
    MUTANTS.append(Mutant(name, plant, RARE.get(name, 0)))
    return plant
