"""Runs scripts on two coordinators; repeats those that differ and shrinks those that always do."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.differential.script import LONGEST_METADATA, TOPICS, Script
from tests.differential.script_run import AnswersDiffer, KnownDifference, ScriptRun
from tests.support.kafka import kafka
from tests.support.server import ServerProcess
from tests.support.wire import create_topic

TRIES = 3
"""Sessions end, and leaders are chosen, at one side so and at the other so: now and then."""
MORE_SLOWLY = 2.5
PLAY_SECONDS = 120.0


class Outcome(StrEnum):
    """Of a script."""

    SAME = "same"
    PARTED = "parted, as it is meant"
    CHANCE = "chance"
    DIFFERS = "differs"


@dataclass
class Verdict:
    """The result of a script."""

    script: Script
    outcome: Outcome
    difference: str
    transcript: list[str]
    answers: int
    """How many were equal."""

    def __str__(self) -> str:
        told = "\n".join([*map(str, self.script.clients), *self.transcript])
        return f"{told}\nseed {self.script.seed} {self.outcome}: {self.difference}"


class Comparison:
    """Compares one coordinator with another, the reference."""

    def __init__(self, bootstraps: tuple[str, str], *, delay_ms: int = 0) -> None:
        """`delay_ms` is the initial rebalance delay of both."""
        self._bootstraps = bootstraps
        self._delay_ms = delay_ms

    async def verdict(self, script: Script) -> Verdict:
        """Run a script; repeat it if the answers differ."""
        verdict = await self.once(script)
        for _ in range(TRIES - 1):
            if verdict.outcome in (Outcome.SAME, Outcome.PARTED):
                break
            verdict = await self.once(script, slowness=MORE_SLOWLY)
        return verdict

    async def once(self, script: Script, *, slowness: float = 1.0) -> Verdict:
        """Play it once."""
        play = ScriptRun(self._bootstraps, script, slowness=slowness, delay_ms=self._delay_ms)
        outcome, difference = Outcome.SAME, ""
        try:
            await asyncio.wait_for(play.run(), PLAY_SECONDS)
        except KnownDifference as parted:
            outcome, difference = Outcome.PARTED, str(parted)
        except AnswersDiffer as differs:
            outcome = Outcome.CHANCE if differs.by_chance else Outcome.DIFFERS
            difference = str(differs)
        return Verdict(script, outcome, difference, play.transcript, play.answered)

    async def verdicts(self, scripts: Iterator[Script], parallel: int) -> AsyncIterator[Verdict]:
        """Of many scripts, as they are finished."""
        running: set[asyncio.Task[Verdict]] = set()
        for script in scripts:
            running.add(asyncio.create_task(self.verdict(script)))
            if len(running) >= parallel:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        for last in asyncio.as_completed(running):
            yield await last

    async def shrunk(self, script: Script) -> Verdict | None:
        """The shortest script found that still differs every time; None if this one does not."""
        verdict = await self._always(script)
        size = len(script.steps) // 2
        while verdict is not None and size:
            start = 0
            while start < len(verdict.script.steps):
                steps = verdict.script.steps
                shorter = steps[:start] + steps[start + size :]
                found = await self._always(script._replace(steps=shorter))
                verdict, start = (found, start) if found else (verdict, start + size)
            size //= 2
        return verdict

    async def _always(self, script: Script) -> Verdict | None:
        for _ in range(2):
            verdict = await self.once(script, slowness=MORE_SLOWLY)
            if verdict.outcome is not Outcome.DIFFERS:
                return None
        return verdict


@contextmanager
def both(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """A Kafka and our server with the same settings, and the topics of scripts."""
    alike = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "offset.metadata.max.bytes": str(LONGEST_METADATA),
        "auto.create.topics.enable": "false",
        **(settings or {}),
    }
    quick = {"group.coordinator.append.linger.ms": "0"}
    with (
        kafka(directory / "kafka", {**alike, **quick}) as reference,
        ServerProcess(directory / "ours", alike) as compared,
    ):
        for bootstrap in (reference.bootstrap, compared.bootstrap):
            for topic, partitions in TOPICS.items():
                create_topic(bootstrap, topic, partitions)
        yield reference.bootstrap, compared.bootstrap
