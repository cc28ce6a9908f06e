"""Scripts: lists of steps for the simulator, of which every part is a valid script.

A step has an action and two numbers, which select its target and variant modulo the number of
candidates. A seed yields a setup and a script; a failing script is shrunk by leaving steps out.
"""

import random
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Act(Enum):
    """The kinds of steps, with their descriptions in reports."""

    DELIVER = "a message arrives"
    RUN = "a callback runs"
    IDLE = "everything ready runs"
    DISK = "the log answers"
    TIME = "time passes"
    LIVE = "all goes well for a while"
    NUDGE = "a client does something"
    ARRIVE = "a consumer arrives"
    KILL = "a client dies"
    FREEZE = "a client freezes or thaws"
    DROP = "a connection breaks"
    FAIL = "the log fails"
    CRASH = "a node dies"
    STOP = "a node is stopped"
    START = "a node is started"
    MOVE = "a partition moves"
    STALL = "the machine stands still"
    WALL = "the wall clock jumps"
    TOPIC = "a topic is deleted"


class Step(NamedTuple):
    """One step; `who` and `how` are taken modulo the number of candidates."""

    act: Act
    who: int = 0
    how: int = 0


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration before the first step."""

    nodes: int = 1
    partitions: int = 1
    groups: int = 1
    topic_partitions: int = 4
    initial_delay_ms: int = 0
    group_max_size: int = 2_147_483_647
    retention_ms: int = 60_000
    open_transactions: bool = False
    """Whether the logs begin with records of Kafka's transactions; see `history.py`."""
    late_news: bool = False
    """Nodes rarely learn that they have lost a partition before a request to the log fails."""
    mailbox: bool = False
    """Every event goes through the mailbox; else turns run inline where they can."""
    lockstep: bool = False
    """All ready callbacks run after every step, so that both modes can be compared."""
    kinds: tuple[int, ...] = (0, 0, 0)
    """The kinds of the first consumers: arguments of `kind_of`."""


_WORK = {
    Act.DELIVER: 40,
    Act.RUN: 20,
    Act.IDLE: 6,
    Act.DISK: 14,
    Act.TIME: 8,
    Act.LIVE: 4,
    Act.NUDGE: 14,
    Act.ARRIVE: 1,
}
_CLIENT_FAULTS = {Act.KILL: 1, Act.FREEZE: 2, Act.DROP: 3}
_SERVER_FAULTS = {
    Act.FAIL: 1,
    Act.CRASH: 1,
    Act.STOP: 1,
    Act.START: 2,
    Act.MOVE: 2,
    Act.STALL: 1,
    Act.WALL: 1,
    Act.TOPIC: 1,
}
PROFILES: dict[str, dict[Act, int]] = {
    "calm": _WORK,
    "bad clients": {**_WORK, **_CLIENT_FAULTS},
    "bad servers": {**_WORK, **_SERVER_FAULTS},
    "all bad": {**_WORK, **_CLIENT_FAULTS, **_SERVER_FAULTS},
    "restless": {**_WORK, Act.MOVE: 6, Act.DROP: 2},
    "bad disk": {**_WORK, Act.FAIL: 4, Act.TOPIC: 4, Act.CRASH: 1, Act.START: 2},
}

STEPS = 250


@dataclass(frozen=True, slots=True)
class Script:
    """A setup and its steps; equal scripts have equal outcomes."""

    setup: Setup
    steps: list[Step] = field(repr=False)


def setup_of(chance: random.Random) -> Setup:
    """A random setup, mostly small."""
    return Setup(
        nodes=chance.choice((1, 2)),
        partitions=chance.choice((1, 1, 2)),
        groups=chance.choice((1, 1, 2, 3)),
        topic_partitions=chance.choice((1, 3, 4, 7)),
        initial_delay_ms=chance.choice((0, 0, 3_000)),
        group_max_size=chance.choice((2_147_483_647, 2_147_483_647, 2_147_483_647, 2)),
        retention_ms=chance.choice((20_000, 200_000, 7 * 24 * 3_600_000)),
        open_transactions=chance.random() < 0.25,
        late_news=chance.random() < 0.25,
        mailbox=chance.random() < 0.25,
        kinds=tuple(chance.randrange(10_000) for _ in range(chance.randint(1, 4))),
    )


def script_of(seed: int, steps: int = STEPS) -> Script:
    """The setup and steps of a seed."""
    chance = random.Random(seed)
    setup = setup_of(chance)
    weights = PROFILES[chance.choice(list(PROFILES))]
    acts = chance.choices(list(weights), list(weights.values()), k=steps)
    return Script(
        setup, [Step(act, chance.randrange(1_000), chance.randrange(10_000)) for act in acts]
    )
