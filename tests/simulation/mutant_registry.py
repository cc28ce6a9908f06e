"""Registers planted bugs: each replaces a function of the code under test while active."""

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
    """The first seed of the search."""


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
"""The first seed of the search for rare bugs, which shortens their tests."""


def mutant(plant: Plant) -> Plant:
    """Register a mutant under the function's name."""
    name = plant.__name__.replace("_", " ")
    MUTANTS.append(Mutant(name, plant, RARE.get(name, 0)))
    return plant
