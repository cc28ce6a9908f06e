"""A supervisor that is told to stop has stopped before orchestrators kill it."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping

import pytest

from coordinator_server.workers import supervisor as module

PATIENCE = 10.0
"""Seconds that orchestrators wait."""


class FakeSupervisor:
    """Says what is done with it."""

    is_data_kept = True

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def partitions(self) -> Mapping[str, int]:
        return {"active": 1}

    async def start(self) -> None:
        self._done.append("start")
        os.kill(os.getpid(), signal.SIGTERM)

    async def stop(self) -> None:
        self._done.append("stop")

    def report(self, _event: str, **_fields: object) -> None:
        pass


async def test_a_stop_that_takes_too_long_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def skip_cleanup(_kept: object, _report: Callable[..., None], seconds: float) -> None:
        assert module.STOP_SECONDS < seconds < PATIENCE
        done.append("skip_cleanup")

    monkeypatch.setattr(module, "Supervisor", lambda _config: FakeSupervisor(done))
    monkeypatch.setattr(module, "skip_cleanup", skip_cleanup)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(30):
            assert await module.serve(None)  # type: ignore[arg-type]
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
    assert done == ["start", "skip_cleanup", "stop"]
