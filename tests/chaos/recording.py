"""Finds the points that a server passes under the load, and in which part of its life."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from coordinator_protocol.java import partition_for
from tests.chaos.background_member import BackgroundMember
from tests.chaos.load import Load
from tests.chaos.server import Server

ROUNDS = 6
PARTITIONS = 8


@dataclass
class Found:
    """A point that was passed."""

    name: str
    kinds: list[str]
    phase: str
    """`run`, `start` or `stop`: the one in which it can be struck."""
    recurs: bool = False
    """Whether every round of the load passes it."""


@dataclass
class Recording:
    """All points of the server, and those that were passed."""

    total: int = 0
    found: dict[str, Found] = field(default_factory=dict)

    def dump(self) -> str:
        """As JSON."""
        return json.dumps(
            {"total": self.total, "found": [vars(each) for each in self.found.values()]}
        )

    @staticmethod
    def parse(text: str) -> "Recording":
        """Parse the output of `dump`."""
        form = json.loads(text)
        found = [Found(**each) for each in form["found"]]
        return Recording(form["total"], {each.name: each for each in found})


def background_members(bootstrap: str, count: int = 4) -> list[BackgroundMember]:
    """Background members on different partitions."""
    chosen: dict[int, str] = {}
    number = 0
    while len(chosen) < count:
        name = f"background-{number}"
        chosen.setdefault(partition_for(name, PARTITIONS), name)
        number += 1
    return [BackgroundMember(bootstrap, name) for name in sorted(chosen.values())]


async def record(directory: Path) -> tuple[Recording, list[str]]:
    """Run a server through its life; the points, and what went wrong without any exception."""
    hits: dict[str, list[dict[str, int]]] = {"start": [], "run": [], "stop": []}
    kinds: dict[str, set[str]] = {}
    problems: list[str] = []
    recurring: set[str] | None = None
    async with Server(directory) as server:
        seen = background_members(server.bootstrap)
        for life in ("new", "stopped", "killed"):
            await server.start(record=True)
            await server.ready()
            load = Load(server.bootstrap, server.http_port)
            await load.prepare()
            for background_member in seen:
                background_member.start()
            before = (await server.order(do="hits"))["hits"]
            hits["start"].append(before)
            for number in range(ROUNDS):
                problems += await load.round()
                after = (await server.order(do="hits"))["hits"]
                passed = {name for name, count in after.items() if count > before.get(name, 0)}
                if number >= 2:
                    recurring = passed if recurring is None else recurring & passed
                hits["run"].append(difference(after, before))
                before = after
            await asyncio.sleep(0.5)
            after = (await server.order(do="hits"))["hits"]
            hits["run"].append(difference(after, before))
            for name, each in (await server.order(do="kinds"))["kinds"].items():
                kinds.setdefault(name, set()).update(each)
            for background_member in seen:
                await background_member.stop()
                problems += background_member.problems
            await load.close()
            if life == "stopped":
                server.kill()
                await server.ended(5)
                continue
            before = (await server.order(do="hits"))["hits"]
            problems += await server.stop()
            hits["stop"].append(difference(server.final.get("hits", {}), before))
            for name, each in server.final.get("kinds", {}).items():
                kinds.setdefault(name, set()).update(each)
        if problems:
            problems.append(f"the log:{server.log_end(20)}")
    return _recording(hits, kinds, recurring or set()), problems


def difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    """The points passed between two counts."""
    counts = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in counts.items() if count > 0}


def _recording(
    hits: dict[str, list[dict[str, int]]], kinds: dict[str, set[str]], recurring: set[str]
) -> Recording:
    recording = Recording(total=len(kinds))
    for phase in ("run", "start", "stop"):
        passed: Counter[str] = Counter()
        for each in hits[phase]:
            passed.update(each)
        for name in passed:
            if name in kinds and name not in recording.found:
                found = Found(name, sorted(kinds[name]), phase, name in recurring)
                recording.found[name] = found
    return recording
