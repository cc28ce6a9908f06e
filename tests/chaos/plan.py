"""Which exception is raised where, in which order, and by how many at a time."""

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.chaos.recording import Recording
from tests.chaos.requests import Problem, Stuck
from tests.chaos.server import Arm, Died
from tests.chaos.trials import Trials, Verdict, is_shared

BATCH = 8
"""Exceptions that are raised together in a running server; if there is a problem, one by one."""
BATCHES_PER_LIFE = 6
"""Then the server is stopped and started."""


@dataclass
class Work:
    """The remaining exceptions, and the results of the others."""

    batches: list[list[Arm]] = field(default_factory=list)
    """For a running server."""
    lives: list[tuple[Arm | None, Arm | None]] = field(default_factory=list)
    """For a start and a stop."""
    missed: list[Arm] = field(default_factory=list)
    """For a running server; a load has not passed them, so they are tried once more."""
    verdicts: list[Verdict] = field(default_factory=list)
    recurring: frozenset[str] = frozenset()

    @property
    def tried(self) -> int:
        """How many exceptions were raised."""
        return sum(verdict.outcome != "not reached" for verdict in self.verdicts)


def arms(
    recording: Recording, exceptions: Sequence[str], pattern: str, random: Random
) -> dict[str, list[Arm]]:
    """Every exception at every point that was passed, by phase, in random order."""
    chosen: dict[str, list[Arm]] = {"run": [], "start": [], "stop": []}
    for name, found in sorted(recording.found.items()):
        for exception in exceptions:
            if not re.search(pattern, name):
                continue
            times = 3 if found.phase == "run" and random.random() < 0.15 else 1
            skip = random.choice((0, 0, 1, 3)) if found.recurs else 0
            chosen[found.phase].append((name, exception, times, skip))
    for each in chosen.values():
        random.shuffle(each)
    return chosen


def plan(recording: Recording, chosen: dict[str, list[Arm]], random: Random) -> Work:
    """The work: batches of points that are shared by all partitions, and of the others."""
    work = Work(recurring=frozenset(n for n, each in recording.found.items() if each.recurs))
    for shared in (False, True):
        same = [arm for arm in chosen["run"] if is_shared(arm[0]) is shared]
        while same:
            work.batches.append(_take_batch(same))
    random.shuffle(work.batches)
    starts: list[Arm | None] = [*chosen["start"]]
    stops: list[Arm | None] = [*chosen["stop"]]
    for number in range(max(len(starts), len(stops))):
        start = starts[number] if number < len(starts) else None
        work.lives.append((start, stops[number] if number < len(stops) else None))
    return work


def _take_batch(same: list[Arm]) -> list[Arm]:
    """A point can be armed once at a time."""
    batch: list[Arm] = []
    for arm in list(same):
        if len(batch) < BATCH and all(arm[0] != other[0] for other in batch):
            batch.append(arm)
            same.remove(arm)
    return batch


class Worker:
    """Works off a plan on a data directory of its own."""

    def __init__(
        self, directory: Path, work: Work, say: Callable[[str], None], seconds: float = 600.0
    ) -> None:
        """Exceptions remaining after this number of seconds are not tried."""
        self._until = time.monotonic() + seconds
        self._directory = directory
        self._work = work
        self._say = say
        self._last: list[Arm] = []
        """The last trial, for the message about an unusable directory."""
        self.acknowledged = 0

    async def run(self) -> None:
        """Take batches and lives until there are no more."""
        # Lives have to come about, however long the batches take.
        now = time.monotonic()
        until = now + (self._until - now) * 0.6
        while not await self._on_one_directory(until):
            self._directory = self._directory.with_name(self._directory.name + "-next")

    async def _on_one_directory(self, until: float) -> bool:
        """The same on one data directory; False if it cannot be used any more."""
        async with Trials(self._directory) as trials:
            try:
                while time.monotonic() < until and (self._work.batches or self._work.missed):
                    await self._session(trials)
                while self._work.lives and time.monotonic() < self._until:
                    start, stop = self._work.lives.pop()
                    await self._alone(trials.life(start, stop), start or stop)
            except (Problem, Stuck, Died) as error:
                # A start without exceptions that fails: what was tried before it is to blame.
                symptoms = [f"the next start: {error}", f"tried before: {self._last}"]
                self._note(Verdict(self._last[-1], "failed", symptoms))
                return False
            finally:
                self.acknowledged += trials.acknowledged
        return True

    async def _alone(self, trial: Awaitable[list[Verdict]], arm: Arm | None) -> None:
        try:
            for verdict in await trial:
                self._note(verdict)
        except (Died, TimeoutError, RuntimeError) as error:
            if arm is not None:
                self._note(Verdict(arm, "failed", [f"{type(error).__name__}: {error}"]))

    def _note(self, verdict: Verdict) -> None:
        self._work.verdicts.append(verdict)
        if verdict.outcome == "failed":
            self._say(str(verdict))

    async def _session(self, trials: Trials) -> None:
        """One life of a server with some batches; whatever cannot be told apart is tried alone."""
        await trials.start()
        self._say(f"({len(self._work.batches)} batches and {len(self._work.lives)} lives to go)")
        clean: list[Verdict] = []
        alone: list[Arm] = []
        for _ in range(BATCHES_PER_LIFE):
            is_first = bool(self._work.batches)
            batch = self._next_batch()
            if not batch:
                break
            self._last = [*self._last[-2 * BATCH :], *batch]
            verdicts = await trials.strike(batch, self._work.recurring)
            if any(verdict.outcome == "failed" for verdict in verdicts):
                alone += batch
                await trials.again()
                continue
            clean += [verdict for verdict in verdicts if verdict.outcome == "survived"]
            missed = [verdict for verdict in verdicts if verdict.outcome == "not reached"]
            if is_first:
                self._work.missed += [verdict.arm for verdict in missed]
            else:
                clean += missed
        problems = await trials.end()
        if problems:
            alone += [verdict.arm for verdict in clean if verdict.outcome == "survived"]
        else:
            for verdict in clean:
                self._note(verdict)
        await trials.server.stop()
        await trials._rest()
        for arm in alone:
            await self._alone(self._single(trials, arm), arm)

    def _next_batch(self) -> list[Arm]:
        if self._work.batches:
            return self._work.batches.pop()
        shared = bool(self._work.missed) and is_shared(self._work.missed[0][0])
        same = [arm for arm in self._work.missed if is_shared(arm[0]) is shared]
        batch = _take_batch(same)
        for arm in batch:
            self._work.missed.remove(arm)
        return batch

    async def _single(self, trials: Trials, arm: Arm) -> list[Verdict]:
        """One exception in a life of its own."""
        await trials.start()
        self._last = [*self._last[-2 * BATCH :], arm]
        (verdict,) = await trials.strike([arm], self._work.recurring)
        if not trials.server.running:
            verdict.symptoms += await trials.again()
        problems = await trials.end()
        if problems and verdict.outcome != "not reached":
            verdict.outcome = "failed"
            verdict.symptoms += problems
        await trials.server.stop()
        await trials._rest()
        return [verdict]
