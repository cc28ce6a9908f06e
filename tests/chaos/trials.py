"""Trials: exceptions are raised in a running server, which has to recover from them."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.chaos.load import Load
from tests.chaos.recording import Found, background_members
from tests.chaos.requests import Problem, Stuck
from tests.chaos.server import Arm, Died, Server

RECOVERY_SECONDS = 10.0
MOST_ROUNDS = 3
"""Rounds of the load in which an armed point should be passed."""
SHARED = ("storage.segments.", "loop.batching.", "loop.time_slice.")
"""Modules that all partitions share: what fails there may fail requests of all for a moment."""
NEVER_LOGGED = ("never retrieved", "never awaited", "Task was destroyed")


@dataclass
class Verdict:
    """The result of raising one exception at one point."""

    arm: Arm
    outcome: str
    """`survived`, `restarted` (it ended with an error, and the next start was fine), `not reached`
    or `failed`."""
    symptoms: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        point, exception, times, skip = self.arm
        what = f"{point} {exception} x{times} after {skip}: {self.outcome}"
        return "\n".join([what, *(f"    {symptom}" for symptom in self.symptoms)])


def is_shared(point: str) -> bool:
    """Whether a point belongs to what all partitions share."""
    return point.startswith(SHARED)


class Trials:
    """One data directory with clients, and the trials on it."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, plant: str = ""
    ) -> None:
        self.server = Server(directory, settings, plant)
        self.load = Load(self.server.bootstrap, self.server.http_port)
        self.background_members = background_members(self.server.bootstrap)

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._rest()
        await self.server.__aexit__(*error)

    @property
    def acknowledged(self) -> int:
        """Commits that were acknowledged so far."""
        return sum(background_member.acknowledged for background_member in self.background_members)

    async def _rest(self) -> None:
        await self.load.close()
        for background_member in self.background_members:
            await background_member.stop()

    # --- lives ---

    async def start(self, points: Sequence[Arm] = ()) -> None:
        """Start the server, and the clients. Raises Died, Problem."""
        await self.server.start(points)
        await self.server.ready()
        await self.load.prepare()
        for background_member in self.background_members:
            background_member.start()

    async def end(self) -> list[str]:
        """Stop the server while clients ask, start it again, and look what is there."""
        problems = await self.server.stop()
        problems += self._forbidden_lines()
        await self._rest()
        problems += self._taken()
        return problems + await self._start_after()

    async def _start_after(self) -> list[str]:
        """A start without exceptions has to succeed, and to show all that was acknowledged."""
        try:
            await self.start()
        except (Died, Problem, Stuck) as error:
            return [f"the next start: {error}"]
        return await self.lost()

    async def lost(self) -> list[str]:
        """Acknowledged commits that are missing; the background members resume afterwards."""
        for background_member in self.background_members:
            await background_member.stop()
        lost = []
        for background_member in self.background_members:
            try:
                lost += await background_member.lost()
            except Stuck as error:
                lost.append(f"stuck: {error}")
            background_member.start()
        return lost

    async def again(self) -> list[str]:
        """Kill -9, and start again."""
        self.server.kill()
        await self.server.ended(5)
        await self._rest()
        self._taken()
        self._forbidden_lines()
        return await self._start_after()

    def _taken(self) -> list[str]:
        """Violations reported by background members since the last call."""
        problems = [
            problem
            for background_member in self.background_members
            for problem in background_member.problems
        ]
        for background_member in self.background_members:
            background_member.problems.clear()
        return problems

    def _forbidden_lines(self) -> list[str]:
        lines = self.server.new_lines(lambda line: any(word in line for word in NEVER_LOGGED))
        return [f"log: {line[:600]}" for line in lines]

    # --- a running server ---

    async def strike(self, arms: Sequence[Arm], recurring: frozenset[str]) -> list[Verdict]:
        """Raise exceptions in the running server; one verdict for all if there is a problem."""
        troubled = [background_member.troubled for background_member in self.background_members]
        problems: list[str] = []
        struck: set[str] = set()
        try:
            struck, problems = await self._under(arms)
            if struck:
                problems += await self._recover(struck & recurring)
        except Died as error:
            problems.append(str(error))
            struck |= set(self.server.struck)
        except Stuck as error:
            problems.append(f"stuck: {error}")
        problems += self._taken() + self._forbidden_lines()
        now = [background_member.troubled for background_member in self.background_members]
        disturbed = sum(after > before for before, after in zip(troubled, now, strict=True))
        # A partition that fails has one member at most, and so has a request. Of a batch this is
        # but a suspicion, upon which its points are tried one by one.
        most = 2 if len(arms) > 1 else 3
        if (
            disturbed > min(len(self.server.struck), most)
            and struck
            and not any(is_shared(point) for point in struck)
        ):
            last = [background_member.last_trouble for background_member in self.background_members]
            problems.append(f"others: {disturbed} of {len(now)} partitions were disturbed: {last}")
        return [
            Verdict(
                arm,
                ("failed" if problems else "survived") if arm[0] in struck else "not reached",
                problems if arm[0] in struck else [],
            )
            for arm in arms
        ]

    async def _under(self, arms: Sequence[Arm]) -> tuple[set[str], list[str]]:
        """Rounds with armed points: those that were struck, and requests without an answer."""
        self.server.struck.clear()
        await self.server.order(do="arm", points=arms)
        wanted = sum(arm[2] for arm in arms)
        problems: list[str] = []
        for _ in range(MOST_ROUNDS):
            problems += [each for each in await self.load.round() if each.startswith("stuck")]
            if len(self.server.struck) >= wanted or problems:
                break
        await self.server.order(do="disarm")
        return set(self.server.struck), problems

    async def _recover(self, recurring: set[str]) -> list[str]:
        """Wait until everything works and every recurring point is passed again."""
        until = time.monotonic() + RECOVERY_SECONDS
        before = await self._hits()
        while True:
            problems = await self._clean_round()
            after = await self._hits()
            dead = {name for name in recurring if after.get(name, 0) <= before.get(name, 0)}
            if dead:
                problems.append(f"never again: {', '.join(sorted(dead))}")
            if not problems or time.monotonic() > until:
                return problems

    async def _hits(self) -> dict[str, int]:
        hits: dict[str, int] = (await self.server.order(do="hits"))["hits"]
        return hits

    async def _clean_round(self) -> list[str]:
        """Run a round of load that must have no failure."""
        well = [
            (background_member.well, background_member.troubled)
            for background_member in self.background_members
        ]
        events = self.load.events
        problems = await self.load.round()
        for _ in range(20):
            now = [
                (background_member.well, background_member.troubled)
                for background_member in self.background_members
            ]
            if self.load.events > events and all(
                after[0] > before[0] for before, after in zip(well, now, strict=True)
            ):
                break
            await asyncio.sleep(0.05)
        for background_member, before in zip(self.background_members, well, strict=True):
            if background_member.troubled > before[1]:
                problems.append(background_member.last_trouble)
            elif background_member.well == before[0]:
                problems.append(f"{background_member.group} is not served")
        if self.load.events == events:
            problems.append("the stream of events tells nothing")
        try:
            await self.server.ready(0.2)
        except Problem as error:
            problems.append(str(error))
        return problems

    # --- starts and stops ---

    async def life(self, start: Arm | None, stop: Arm | None) -> list[Verdict]:
        """Start with one exception and stop with another; the server is stopped before and after.

        A server may refuse to start because of the exception, if it says so.
        """
        verdicts = []
        if start is not None:
            verdicts.append(await self._start_struck(start))
        if not self.server.running:
            problems = await self._start_after()
            if verdicts and problems:
                verdicts[-1].outcome = "failed"
                verdicts[-1].symptoms += problems
        if stop is not None and self.server.running:
            verdicts.append(await self._stop_struck(stop))
        elif self.server.running:
            problems = await self.server.stop()
            await self._rest()
            problems += self._taken() + self._forbidden_lines()
            if verdicts and problems:
                verdicts[-1].outcome = "failed"
                verdicts[-1].symptoms += problems
        if self.server.running:
            await self.again()
            await self.server.stop()
        return verdicts

    async def _start_struck(self, arm: Arm) -> Verdict:
        problems: list[str] = []
        outcome = "survived"
        try:
            await self.start([arm])
            problems += await self._recover(set())
            problems += await self.lost()
        except Died as error:
            outcome = "restarted"
            if self.server.exit_code in (0, None) or self.server.exit_code < 0:
                problems.append(str(error))
            elif not self._says_why():
                problems.append(f"no line in the log says why: {error}")
        except (Problem, Stuck) as error:
            problems.append(f"the start with an exception: {error}{self.server.log_end()}")
        struck = bool(self.server.struck)
        problems += self._taken() + self._forbidden_lines()
        if problems and self.server.running:
            self.server.kill()
            await self.server.ended(5)
            await self._rest()
        if not struck:
            return Verdict(arm, "failed" if problems else "not reached", problems)
        return Verdict(arm, "failed" if problems else outcome, problems)

    def _says_why(self) -> bool:
        end = self.server.log_end(3)
        return '"level": "error"' in end or "Error" in end

    async def _stop_struck(self, arm: Arm) -> Verdict:
        self.server.struck.clear()
        await self.server.order(do="arm", points=[arm])
        problems = await self.server.stop()
        code = self.server.exit_code
        if code is not None and code > 0 and problems and self._says_why():
            # It ended in time, and said that something was wrong.
            problems = []
        await self._rest()
        problems += self._taken() + self._forbidden_lines()
        struck = bool(self.server.struck)
        problems += await self._start_after()
        if self.server.running:
            problems += [f"the stop after that: {each}" for each in await self.server.stop()]
            await self._rest()
        outcome = "survived" if struck else "not reached"
        return Verdict(arm, "failed" if problems else outcome, problems)


def of_phase(found: Mapping[str, Found], phase: str) -> list[str]:
    """Names of the points that are struck in a part of the server's life."""
    return sorted(name for name, each in found.items() if each.phase == phase)
