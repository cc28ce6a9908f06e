"""Long-lived tasks: a failure is told at once, counted, and followed by what the policy says."""

import asyncio
from typing import Any

import pytest

from coordinator_server.loop import task_keeper as tasks_module
from coordinator_server.loop.task_keeper import TaskKeeper
from coordinator_server.server.run import wait_for_stop

ERRORS = [RuntimeError("bug"), MemoryError(), OSError(5, "I/O"), asyncio.CancelledError()]


class Told:
    """What a keeper reports and counts."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.counts: dict[str, int] = {}
        self.broken = asyncio.Event()
        self.keeper = TaskKeeper(self._report, self.counts, self.broken.set)

    def _report(self, event: str, **fields: Any) -> None:
        assert event == "task_failed"
        self.lines.append(fields)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between tries, which take no time."""
    pauses: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return pauses


@pytest.mark.parametrize("error", ERRORS)
async def test_a_kept_task_that_fails_begins_again_after_a_growing_pause(
    pauses: list[float], error: BaseException
) -> None:
    told, begun = Told(), 0

    async def run() -> None:
        nonlocal begun
        begun += 1
        if begun < 4:
            raise error

    await asyncio.wait_for(told.keeper.keep("watch", run), 5)
    assert (begun, pauses, told.counts) == (4, [0.1, 0.2, 0.4], {"watch": 3})
    assert told.lines[0]["task"] == "watch"
    assert told.lines[0]["restart_seconds"] == 0.1
    assert __file__ in told.lines[0]["origin"]
    assert not told.broken.is_set()


async def test_the_pause_is_bounded_and_short_again_for_a_task_that_has_run_long(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, begun = 0.0, 0

    async def run() -> None:
        nonlocal now, begun
        begun += 1
        if begun == 12:
            now += 61
        if begun < 13:
            raise OSError(begun)

    monkeypatch.setattr(tasks_module, "monotonic", lambda: now)
    await asyncio.wait_for(Told().keeper.keep("watch", run), 5)
    assert max(pauses) == 30.0
    assert pauses[-1] == 0.1


@pytest.mark.parametrize("policy", ["keep", "require", "once"])
async def test_a_task_that_is_cancelled_ends_without_a_word(policy: str) -> None:
    told = Told()
    task = getattr(told.keeper, policy)("watch", asyncio.Event().wait)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (told.lines, told.counts, told.broken.is_set()) == ([], {}, False)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("policy", "is_broken"), [("require", True), ("once", False)])
async def test_only_a_required_task_that_fails_ends_the_process(
    policy: str, is_broken: bool, error: BaseException
) -> None:
    told = Told()

    async def run() -> None:
        raise error

    await getattr(told.keeper, policy)("talk", run)
    assert told.counts == {"talk": 1}
    assert told.broken.is_set() is is_broken
    if is_broken:
        assert not await asyncio.wait_for(wait_for_stop(asyncio.Event(), told.broken), 5)


async def test_who_is_told_to_stop_has_succeeded() -> None:
    stopping = asyncio.Event()
    stopping.set()
    assert await asyncio.wait_for(wait_for_stop(stopping, asyncio.Event()), 5)


async def test_a_failure_that_cannot_be_told_changes_nothing(pauses: list[float]) -> None:
    begun = 0

    def report(_event: str, **_fields: object) -> None:
        raise OSError("disk full")

    async def run() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise RuntimeError("bug")

    await asyncio.wait_for(TaskKeeper(report).keep("watch", run), 5)
    assert begun == 2
    assert pauses == [0.1]
