"""Plays a script against two coordinators in lockstep, and stops where their answers part.

A request goes to both at once. Both have answered, or neither has: then it is parked. Where one
has answered and the other has not for `PATIENCE`, they differ. What clients do next follows from
what the reference has answered.
"""

import asyncio
import itertools
import time
import uuid
from dataclasses import dataclass, field

from tests.differential.answers import Meaning, Names, is_never_answered, leaves_a_trace, meaning
from tests.differential.requests import NONE, SIDES, ClientState, Ids, Requests
from tests.differential.script import Script, Step
from tests.oracle.oracle.wire import CLOSED, Connection, Reply

QUIET = 0.04
"""How long a parked request is looked at before the script goes on."""
PATIENCE = 2.0
POLL = 0.003

_PARKING = ("JoinGroup", "SyncGroup")


class AnswersDiffer(Exception):
    """An answer differs; says which."""

    def __init__(self, request: str, answers: list[str], *, by_chance: bool = False) -> None:
        super().__init__(f"{request}\n    reference: {answers[0]}\n    compared:  {answers[1]}")
        self.by_chance = by_chance


class KnownDifference(Exception):
    """The sides differ as they are meant to, and what comes behind cannot be compared."""


@dataclass
class Line:
    """A connection to each side."""

    ends: list[Connection]
    flights: list["Flight"] = field(default_factory=list)


@dataclass(eq=False)
class Flight:
    """A request in flight, with its answer from each side."""

    name: str
    api: str
    step: Step
    line: Line
    standing: ClientState | None
    ids: Ids
    futures: list["asyncio.Future[Reply]"]
    superseded: bool = False

    def answered(self, side: int) -> bool:
        """Whether this side has answered."""
        return self.futures[side].done()


class ScriptRun:
    """One run of one script."""

    def __init__(
        self,
        bootstraps: tuple[str, str],
        script: Script,
        *,
        slowness: float = 1.0,
        delay_ms: int = 0,
    ) -> None:
        """Look `slowness` times longer than usual; `delay_ms` is the initial rebalance delay."""
        self.transcript: list[str] = []
        self.answered = 0
        self._bootstraps = bootstraps
        self._script = script
        self._quiet = QUIET * slowness
        self._delay_s = 1.2 * delay_ms / 1_000
        run = f"play{uuid.uuid4().hex[:10]}"
        self._groups = {"g": run + script.suffix, "g2": f"{run}second", "": ""}
        self._names = [Names(self._groups) for _ in SIDES]
        self._standings = [ClientState(number, one) for number, one in enumerate(script.clients)]
        self._requests = Requests(self._groups, self._standings)
        self._lines: dict[str, Line] = {}
        self._all_lines: list[Line] = []
        self._flights: list[Flight] = []
        self._numbers = itertools.count(1)

    async def run(self) -> None:
        """Play it; raises Differs or Parted."""
        try:
            for step in self._script.steps:
                await self._play(step)
        finally:
            await self._clean_up()

    async def _play(self, step: Step) -> None:
        match step["op"]:
            case "follow":
                for _ in range(step["rounds"]):
                    await self._follow()
            case "natural":
                await self._natural(self._standings[step["who"]])
            case "burst":
                await self._burst(step)
            case "drop":
                await self._drop(f"c{step['who']}")
            case "wait":
                await self._wait(step["seconds"])
            case _:
                await self._send(step)
                await self._settle()

    async def _follow(self) -> None:
        for standing in self._standings:
            await self._natural(standing)
        if self._delay_s and self._flights:
            await self._wait(self._delay_s)

    async def _wait(self, seconds: float) -> None:
        self.transcript.append(f"{seconds:g} s pass")
        await asyncio.sleep(seconds)
        await self._settle()

    async def _natural(self, standing: ClientState) -> None:
        """Send the usual next request; use a new member id immediately."""
        for _ in range(2):
            if any(f.standing is standing and f.api in _PARKING for f in self._flights):
                return
            step, had = self._requests.natural(standing), standing.ids
            await self._send(step)
            await self._settle()
            if step["op"] != "join" or standing.ids == had:
                return

    async def _burst(self, step: Step) -> None:
        line = await self._line(f"c{step['who']}")
        if any(len(other.flights) > 1 for other in self._all_lines if other is not line):
            return  # what waits on two connections may be served in any order
        for part in step["steps"]:
            natural = part["op"] == "natural"
            await self._send(
                self._requests.natural(self._standings[part["who"]]) if natural else part, line
            )
        await self._settle()

    async def _drop(self, who: str) -> None:
        line = self._lines.pop(who, None)
        if line is None:
            return
        self.transcript.append(f"{who} drops its connection")
        if len(line.flights) > 1:
            # What is behind a parked request is served at once here, and in Kafka after it.
            raise KnownDifference(who)
        self._flights = [flight for flight in self._flights if flight.line is not line]
        await asyncio.gather(*(end.close() for end in line.ends))
        await asyncio.sleep(POLL)

    # --- requests ---

    async def _line(self, who: str) -> Line:
        """The client's connections, others if something is parked on them or they are closed."""
        line = self._lines.get(who)
        if line is None or line.flights or any(end.closed.is_set() for end in line.ends):
            ends = [await Connection.open(bootstrap, who) for bootstrap in self._bootstraps]
            line = self._lines[who] = Line(ends)
            self._all_lines.append(line)
        return line

    async def _send(self, step: Step, line: Line | None = None) -> None:
        """Send it to both sides, over a line that may be busy if one is given."""
        api, version, values = self._requests.of(step)
        standing = self._standings[step["who"]] if "who" in step else None
        who = "admin" if standing is None else f"c{standing.number}"
        line = line or await self._line(who)
        ids = (values[0].get("member_id", ""), values[1].get("member_id", ""))
        name = f"#{next(self._numbers)} {api} v{version} by {who}"
        self.transcript.append(f"{name}: {self._names[0].text(values[0])}")
        futures = [line.ends[side].send(api, version, **values[side]) for side in SIDES]
        if api in _PARKING and ids != NONE:
            for other in self._flights:
                other.superseded |= other.api in _PARKING and other.ids == ids
        flight = Flight(name, api, step, line, standing, ids, futures)
        line.flights.append(flight)
        self._flights.append(flight)

    # --- answers ---

    async def _settle(self) -> None:
        """Wait until both sides have answered the same requests, and nothing more comes."""
        begun = last = time.monotonic()
        while self._flights:
            for flight in [f for f in self._flights if f.answered(0) and f.answered(1)]:
                self._flights.remove(flight)
                flight.line.flights.remove(flight)
                self._compare(flight)
                last = time.monotonic()
            uneven = [f for f in self._flights if f.answered(0) != f.answered(1)]
            for flight in uneven:
                self._explain(flight, impatient=time.monotonic() - begun > PATIENCE)
            if not uneven and time.monotonic() - last > self._quiet:
                return
            await asyncio.sleep(POLL)

    def _explain(self, flight: Flight, *, impatient: bool) -> None:
        """One side has answered, the other has not yet."""
        texts = [
            self._names[side].text(flight.futures[side].result())
            if flight.answered(side)
            else "no answer"
            for side in SIDES
        ]
        error = "" if flight.answered(0) else flight.futures[1].result().get("error_code", "")
        if is_never_answered(flight.api, error, superseded=flight.superseded):
            self.transcript.append(f"    {flight.name} -> no answer; the compared: {texts[1]}")
            if flight.line.flights != [flight]:
                raise KnownDifference(flight.name)
            # Its line stays busy: the client goes on over another one.
            self._flights.remove(flight)
        elif impatient:
            raise AnswersDiffer(flight.name, texts)

    def _compare(self, flight: Flight) -> None:
        replies = [future.result() for future in flight.futures]
        texts = [self._names[side].text(replies[side]) for side in SIDES]
        self.transcript.append(f"    {flight.name} -> {texts[0]}")
        self.answered += 1
        if leaves_a_trace(flight.api, replies[0]):
            raise KnownDifference(flight.name)
        if texts[0] != texts[1]:
            found = meaning(flight.api, replies, texts)
            if found is Meaning.PARTED:
                raise KnownDifference(flight.name)
            if found is not Meaning.DELIBERATE:
                raise AnswersDiffer(flight.name, texts, by_chance=found is Meaning.CHANCE)
        elif flight.standing is not None and replies[0] != CLOSED:
            self._move(flight, flight.standing, replies)

    def _move(self, flight: Flight, standing: ClientState, replies: list[Reply]) -> None:
        """Update the state of the client from the answer."""
        own = flight.ids in (standing.ids, NONE)
        if flight.step.get("group") != "g" or not own:
            return
        match flight.api, replies[0].get("error_code"):
            case "JoinGroup", "NONE" | "MEMBER_ID_REQUIRED":
                standing.join(replies, self._members(replies))
            case "SyncGroup", "NONE":
                standing.phase = "in"
            case "LeaveGroup", _:
                self._leave(flight, replies[0])
            case _, "UNKNOWN_MEMBER_ID" | "FENCED_INSTANCE_ID" if flight.ids == standing.ids:
                standing.lose_ids()
            case _, "REBALANCE_IN_PROGRESS" | "ILLEGAL_GENERATION":
                standing.phase = "out"

    def _members(self, replies: list[Reply]) -> list[tuple[Ids, bytes]]:
        """Of an answered JoinGroup; the same ones of both sides have the same symbol."""
        told = [
            {self._names[side].symbol(m["member_id"]): m for m in replies[side]["members"]}
            for side in SIDES
        ]
        return [
            ((told[0][symbol]["member_id"], told[1][symbol]["member_id"]), member["metadata"])
            for symbol, member in sorted(told[0].items())
        ]

    def _leave(self, flight: Flight, reply: Reply) -> None:
        gone = {member["member_id"] for member in reply.get("members", ())} or {flight.ids[0]}
        for standing in self._standings:
            if standing.ids[0] and standing.ids[0] in gone:
                standing.lose_ids()

    # --- afterwards ---

    async def _clean_up(self) -> None:
        """Let the groups go, so that lists stay short."""
        ends = [await Connection.open(bootstrap, "broom") for bootstrap in self._bootstraps]
        self._all_lines.append(Line(ends))
        groups = [self._groups["g"], self._groups["g2"]]
        for side, end in enumerate(ends):
            members = [{"member_id": member_id} for member_id in self._names[side].member_ids]
            for group in groups if members else ():
                await end.send("LeaveGroup", 4, group_id=group, members=members)
            await end.send("DeleteGroups", 2, groups_names=groups)
        for line in self._all_lines:
            await asyncio.gather(*(end.close() for end in line.ends))
