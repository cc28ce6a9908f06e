"""The world of a seed: sizes, policies, failures, and how each life of the process ends."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from coordinator_server.storage.segments.flusher import FlushPolicy
from tests.simulation.storage.files import Weather

CALM: Final = Weather()
FAILURE: Final = "failure"
COMPACTION: Final = "compaction"
"""Its first rename."""
CUT: Final = "cut"
"""A segment is removed."""
TRIGGERS: Final = ("", FAILURE, FAILURE, COMPACTION, CUT, "rename", "truncate", "write")


class Ending(StrEnum):
    """How a life of the process ends."""

    POWER = "power loss"
    KILL = "kill"
    STOP = "clean stop"


@dataclass(frozen=True, slots=True)
class LifeSetup:
    """One life of the process."""

    ending: Ending
    stop_at: int
    """The step at which it ends, unless it ends cleanly."""
    trigger: str
    """An operation, or a failure, that brings the end near; empty for none."""
    delay: int
    """So many steps after it."""
    preemption: float
    weather: Weather


@dataclass(frozen=True, slots=True)
class Setup:
    """All lives of a data directory."""

    seed: int
    policy: FlushPolicy
    journal_bytes: int
    """Capacity of a file of the journal; 0 for no journal."""
    segment_bytes: int
    hold_bytes: int
    write_out_bytes: int
    partitions: int
    topics: int
    keys: int
    delete_retention_ms: int
    cleans: bool
    operations: int
    """Of every client in a life."""
    lives: tuple[LifeSetup, ...]


def setup_of(seed: int) -> Setup:
    """The setup of a seed."""
    random = Random(seed)
    policy = random.choice([FlushPolicy.COMMIT] * 4 + [FlushPolicy.INTERVAL, FlushPolicy.OS])
    operations = random.choice([6, 15, 30])
    journal_bytes = random.choice([0, 12_288, 12_288, 16_000, 44_000])
    lives = [_life(random, operations) for _ in range(random.choice([1, 2, 2, 3]))]
    lives.append(LifeSetup(Ending.STOP, 0, "", 0, random.choice([0.0, 0.01]), CALM))
    return Setup(
        seed=seed,
        policy=policy,
        journal_bytes=journal_bytes,
        segment_bytes=random.choice([300, 600, 1_200, 4_000]),
        hold_bytes=random.choice([500, 3_000, 1 << 20]),
        write_out_bytes=random.choice([512, 5_000, 1 << 20]),
        partitions=random.choice([1, 2, 3]),
        topics=random.choice([0, 1, 1]),
        keys=random.choice([2, 5, 40]),
        delete_retention_ms=random.choice([0, 86_400_000]),
        cleans=random.random() < 0.7,
        operations=operations,
        lives=tuple(lives),
    )


def _life(random: Random, operations: int) -> LifeSetup:
    ending = random.choice([Ending.POWER, Ending.POWER, Ending.KILL, Ending.STOP])
    failing = random.choice([0.0, 0.0, 0.003, 0.02])
    return LifeSetup(
        ending=ending,
        stop_at=0 if ending is Ending.STOP else random.randint(1, 100 * operations),
        trigger=random.choice(TRIGGERS) if ending is not Ending.STOP else "",
        delay=random.choice([5, 40, 200]),
        preemption=random.choice([0.0, 0.002, 0.02, 0.1]),
        weather=Weather(
            failing=failing,
            reading_fails=random.choice([0.0, failing / 4]),
            slow=random.choice([0.0, 0.0, 0.02, 0.1]),
        ),
    )
