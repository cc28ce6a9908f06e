"""Steps of a stop: what becomes of one keeps none of the others from being done."""

import asyncio
from typing import Any

import pytest

from coordinator_server.loop.deadline import Deadline


class Told:
    """A deadline of ten seconds, and what it reports."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.deadline = Deadline(10.0, lambda event, **f: self.lines.append((event, f)))


async def fails(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [RuntimeError("planted"), asyncio.CancelledError("planted")])
async def test_a_step_that_fails_is_reported_and_the_next_is_done(error: BaseException) -> None:
    told = Told()
    assert not await told.deadline.keep("closing", fails(error))
    assert await told.deadline.keep("writing", asyncio.sleep(0))
    name = type(error).__name__
    assert told.lines == [("stop_failed", {"step": "closing", "error": f"{name}: planted"})]


async def test_who_stops_may_be_cancelled() -> None:
    told = Told()
    stopping = asyncio.create_task(told.deadline.keep("closing", asyncio.Event().wait()))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert told.lines == []


async def test_a_step_gets_the_time_that_is_left_and_a_little_in_any_case() -> None:
    now = 100.0
    lines: list[tuple[str, dict[str, Any]]] = []
    deadline = Deadline(10.0, lambda event, **f: lines.append((event, f)), lambda: now)
    now = 106.0
    assert deadline.left(reserved=1.0) == 3.0
    now = 200.0
    assert deadline.left() == 0.1
    assert not await deadline.keep("closing", asyncio.Event().wait())
    assert lines == [("stop_took_too_long", {"step": "closing", "seconds": 0.1})]
