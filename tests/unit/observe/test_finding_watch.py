"""The log tells when a member begins to flap and when that is over, once each and not too much."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from coordinator_server.observe import finding_watch
from coordinator_server.observe.finding_watch import MAX_LINES, FindingWatch
from coordinator_server.observe.findings import Finding, FindingKind, LikelyCause, Subject

FOUND = Finding(
    FindingKind.FLAPPING_MEMBER,
    "orders",
    Subject.CLIENT,
    "app",
    8,
    600_000,
    1_000,
    2_000,
    LikelyCause.RESTART,
    "client 'app' made group 'orders' rebalance 8 times within 10 minutes.",
)


class Watched:
    def __init__(self) -> None:
        self.found: list[Finding] = []
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.watch = FindingWatch(self.each, self.report)

    def each(self) -> Iterator[list[Finding]]:
        for finding in self.found:
            yield [finding]

    def report(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))

    async def look(self, *found: Finding) -> list[tuple[str, object]]:
        self.found, self.lines = list(found), []
        await self.watch.look()
        return [(event, fields["count"]) for event, fields in self.lines]


async def test_a_finding_is_told_when_it_appears_and_when_it_is_over() -> None:
    watched = Watched()
    assert await watched.look() == []
    assert await watched.look(FOUND) == [("flapping_found", 8)]
    ((_, fields),) = watched.lines
    assert (fields["sentence"], fields["likely_cause"]) == (FOUND.sentence, "restart")
    assert await watched.look(replace(FOUND, count=9)) == []
    assert await watched.look() == [("flapping_over", 9)]
    assert await watched.look() == []
    assert await watched.look(FOUND) == [("flapping_found", 8)]


async def test_the_same_client_of_another_group_is_another_finding() -> None:
    watched = Watched()
    assert len(await watched.look(FOUND, replace(FOUND, group_id="other"))) == 2


async def test_a_storm_of_which_another_client_is_the_commonest_is_the_same_storm() -> None:
    storm = replace(FOUND, kind=FindingKind.REBALANCE_STORM)
    watched = Watched()
    assert len(await watched.look(storm)) == 1
    assert await watched.look(replace(storm, value="other")) == []


async def test_one_look_writes_so_many_lines_at_most_and_the_next_the_others() -> None:
    watched = Watched()
    many = [replace(FOUND, group_id=f"g{number}") for number in range(MAX_LINES + 3)]
    assert len(await watched.look(*many)) == MAX_LINES
    assert len(await watched.look(*many)) == 3
    assert len(await watched.look()) == MAX_LINES
    assert await watched.look(FOUND) == [*[("flapping_over", 8)] * 3, ("flapping_found", 8)]


async def test_so_many_findings_are_remembered_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_watch, "MAX_FINDINGS", 2)
    watched = Watched()
    many = [replace(FOUND, group_id=f"g{number}") for number in range(3)]
    assert len(await watched.look(*many)) == 2
    assert await watched.look(*many) == []


async def test_others_have_the_loop_for_twice_as_long_as_it_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    times = iter([0.0, 0.001, 0.003, 10.0, 11.0, 20.0])
    monkeypatch.setattr(finding_watch, "perf_counter", lambda: next(times))
    monkeypatch.setattr(asyncio, "sleep", pause)
    watched = Watched()
    many = [replace(FOUND, group_id=f"g{number}") for number in range(3)]
    assert len(await watched.look(*many)) == 3
    assert pauses == [0.006, 0.05]


async def test_it_looks_now_and_then_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_watch, "INTERVAL_SECONDS", 0.001)
    told: asyncio.Queue[str] = asyncio.Queue()
    found = [FOUND]
    watch = FindingWatch(lambda: iter([found]), lambda event, **_: told.put_nowait(event))
    watch.stop()
    watch.start()
    assert await asyncio.wait_for(told.get(), 5) == "flapping_found"
    watch.stop()
    found.clear()
    await asyncio.sleep(0.02)
    assert told.empty()
