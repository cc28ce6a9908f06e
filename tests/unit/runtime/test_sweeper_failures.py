"""A sweep that fails does not keep the following ones from being made."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from coordinator_server.group.group import Group
from coordinator_server.runtime.sweeper import GROUPS_PER_TURN, Sweeper
from tests.support.coordinator_harness import SWEEP_MS, CoordinatorHarness, settle


@pytest.fixture
async def desk() -> AsyncIterator[CoordinatorHarness]:
    made = await CoordinatorHarness().start()
    yield made
    await made.stop()


async def test_a_sweep_that_fails_is_followed_by_the_next(
    desk: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps = 0

    def fail(_sweeper: Sweeper) -> None:
        nonlocal sweeps
        sweeps += 1
        raise MemoryError("no room")

    monkeypatch.setattr(Sweeper, "sweep", fail)
    desk.sweeper.start()
    for _ in range(2):
        with suppress(MemoryError):
            desk.timers.advance(SWEEP_MS)
        await settle()
    assert sweeps == 2


async def test_a_sweep_that_fails_before_it_begins_is_followed_by_the_next(
    desk: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps: list[str] = []
    monkeypatch.setattr(desk.sweeper, "sweep", lambda: sweeps.append("sweep"))
    desk.sweeper.start()
    monkeypatch.setattr(desk.sweeper, "_due", None)  # it cannot be compared with a time
    with pytest.raises(TypeError):
        desk.sweeper._ring()
    desk.timers.advance(2 * SWEEP_MS)
    await settle()
    assert sweeps


async def test_topics_are_forgotten_after_others_could_not_be(
    desk: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    forgotten: list[frozenset[str]] = []

    def fail_first(topics: frozenset[str]) -> None:
        forgotten.append(topics)
        if len(forgotten) == 1:
            raise MemoryError("no room")

    monkeypatch.setattr(desk.coordinator, "forget_topics", fail_first)
    for topic in ("a", "b"):
        desk.sweeper.topic_deleted(topic)
        await settle()
    assert forgotten == [frozenset({"a"}), frozenset({"b"})]


async def test_a_sweep_of_very_many_groups_looks_at_some_of_them_in_a_turn_of_the_loop(
    desk: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = 0

    def groups() -> Iterator[Group]:
        nonlocal looked_at
        for number in range(10 * GROUPS_PER_TURN):
            looked_at += 1
            yield Group(f"g{number}")

    monkeypatch.setattr(desk.coordinator, "groups", groups)
    desk.sweeper.sweep()
    await asyncio.sleep(0)
    assert looked_at == GROUPS_PER_TURN
    while looked_at < 10 * GROUPS_PER_TURN:
        before = looked_at
        await asyncio.sleep(0)
        assert looked_at <= before + GROUPS_PER_TURN
