"""What is asked of every server, what one measurement says, and which figure is wanted."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Self

OURS = "ours"
OURS_UNSYNCED = "ours, log.flush=os"
COMPILED = "ours, compiled"
COMPILED_UNSYNCED = "compiled, log.flush=os"
KFAKE = "kfake"
KAFKA = "Kafka 4.1.1"
KAFKA_LINGER_0 = "Kafka, linger 0"


@dataclass(frozen=True, slots=True)
class Work:
    """A run of the load generator: its name in tables and its options."""

    name: str
    mode: str
    options: Mapping[str, int]
    steady: bool = True
    """Whether it goes on for a time, with a warm-up, or has a number of operations to do."""
    is_commit: bool = False


def _steady(name: str, mode: str, **options: int) -> Work:
    return Work(name, mode, options, is_commit=mode == "commit")


def _counted(name: str, mode: str, **options: int) -> Work:
    return Work(name, mode, options, steady=False)


HEARTBEAT = _steady("Heartbeat, 1 in flight", "heartbeat")
HEARTBEAT_16 = _steady("Heartbeat, 16 in flight", "heartbeat", in_flight=16)
COMMIT = _steady("OffsetCommit, 1 partition", "commit")
COMMIT_128 = _steady("the same, 128 connections", "commit", connections=128)
COMMIT_50 = _steady("OffsetCommit, 50 partitions", "commit", partitions=50)
COMMIT_50_128 = _steady("50 partitions, 128 connections", "commit", partitions=50, connections=128)
FETCH_50 = _steady("OffsetFetch of 50 partitions", "fetch", partitions=50)
STORM = _counted("connect, ApiVersions, FindCoordinator", "storm", count=5_000)
REBALANCE_100 = _counted("rebalance of 100 members", "rebalance", members=100, count=50)
REBALANCE_1000 = _counted("rebalance of 1,000 members", "rebalance", members=1_000, count=10)
REBALANCE_5000 = _counted("rebalance of 5,000 members", "rebalance", members=5_000, count=2)
CREATE = _counted("create a one-member group, up to Stable", "create", count=10_000)

ALL: Sequence[Work] = (
    HEARTBEAT,
    HEARTBEAT_16,
    COMMIT,
    COMMIT_128,
    COMMIT_50,
    COMMIT_50_128,
    FETCH_50,
    STORM,
    REBALANCE_100,
    REBALANCE_1000,
    REBALANCE_5000,
    CREATE,
)
WITH_GOALS: Sequence[Work] = (
    HEARTBEAT,
    HEARTBEAT_16,
    COMMIT,
    COMMIT_128,
    COMMIT_50,
    FETCH_50,
    STORM,
    REBALANCE_1000,
    CREATE,
)
COMMITS: Sequence[Work] = tuple(work for work in ALL if work.is_commit)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long everything takes."""

    seconds: float
    """Of each steady run."""
    warm_up_seconds: float
    """Before it."""
    repeats: int
    """Runs of each work, of which the median is shown."""
    share: float
    """Of the number of operations a counted work has."""
    jvm_seconds: float
    """Of everything at once before a JVM is measured."""


FULL = Pace(seconds=0.8, warm_up_seconds=0.2, repeats=7, share=1.0, jvm_seconds=30.0)
"""Many short runs rather than a few long ones: the speed of a shared host changes by the second."""
QUICK = Pace(seconds=1.0, warm_up_seconds=0.2, repeats=1, share=0.2, jvm_seconds=8.0)


def options_of(work: Work, pace: Pace) -> list[str]:
    """The load generator's command line for a work, without server and process."""
    wanted = {"mode": work.mode} | {
        name.replace("_", "-"): str(value) for name, value in work.options.items()
    }
    if work.steady:
        wanted |= {"time": f"{pace.seconds:g}s", "warmup": f"{pace.warm_up_seconds:g}s"}
    else:
        wanted["count"] = str(max(1, round(work.options["count"] * pace.share)))
    return [f"-{name}={value}" for name, value in wanted.items()]


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of the load generator."""

    operations: int
    """Heartbeats, commits, fetches, connections, rebalances or groups."""
    errors: int
    """Answers that were not the right one."""
    first_error: str
    seconds: float
    p50_us: float
    p99_us: float
    p999_us: float
    server_cpu_seconds: float
    """User and system time of all of the server's threads."""
    server_rss_before: int
    server_rss_after: int
    """Bytes."""

    @classmethod
    def read(cls, text: str) -> Self:
        """What the load generator has printed."""
        found = json.loads(text)
        found.setdefault("first_error", "")
        return cls(**{name: found[name] for name in cls.__slots__})

    @property
    def per_second(self) -> float:
        """Operations."""
        return self.operations / self.seconds

    @property
    def cpu_us(self) -> float:
        """Of the server, per operation."""
        return self.server_cpu_seconds / self.operations * 1e6


def typical(samples: Sequence[Sample]) -> Sample:
    """The one with the median CPU time per operation."""
    middle = median_low(sample.cpu_us for sample in samples)
    return next(sample for sample in samples if sample.cpu_us == middle)
