"""The supervisor's side of a worker: a child that nobody watches must not live on."""

import asyncio
import os
import socket
import sys
from typing import Any

import pytest

from coordinator_server.workers import process as module
from coordinator_server.workers.channel import Channel
from coordinator_server.workers.process import WorkerProcess

ERRORS = [RuntimeError("bug"), MemoryError(), OSError(24, "EMFILE"), asyncio.CancelledError()]


class FakePlan:
    """A plan of a child that understands none."""

    topics = ()

    def form(self) -> dict[str, Any]:
        return {}


@pytest.fixture
async def spawned(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.subprocess.Process]:
    """Children that sleep for a minute, whatever happens to their channels."""
    spawned: list[asyncio.subprocess.Process] = []

    async def spawn(_channel: int, _plan: object) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import time; time.sleep(60)"
        )
        spawned.append(process)
        return process

    monkeypatch.setattr(module, "_spawn", spawn)
    return spawned


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("where", ["report", "open", "send", "receive", "hear"])
async def test_an_error_between_spawn_and_watching_ends_the_child_and_another_begins(
    monkeypatch: pytest.MonkeyPatch,
    spawned: list[asyncio.subprocess.Process],
    where: str,
    error: BaseException,
) -> None:
    monkeypatch.setattr(module, "FIRST_BACKOFF_SECONDS", 0.0)
    broken, second = True, asyncio.Event()

    def fail(*_: Any) -> None:
        nonlocal broken
        if broken:
            broken = False
            raise error

    async def opened(end: socket.socket) -> Any:
        if where == "open":
            fail()
        end.close()
        return FakeChannel()

    class FakeChannel:
        def send(self, _form: object) -> None:
            if where == "send":
                fail()

        async def receive(self) -> Any:
            if where == "receive":
                fail()
            if len(spawned) > 1:
                second.set()
                await spawned[1].wait()
                return None
            return {"kind": "ready"}

        def close(self) -> None:
            pass

    def report(event: str, **_fields: object) -> None:
        if where == "report" and event == "worker_started":
            fail()

    def hear(_worker: object, _form: object) -> None:
        if where == "hear":
            fail()

    monkeypatch.setattr(Channel, "open", opened)
    worker = WorkerProcess(0, lambda _known: FakePlan(), hear, report)  # type: ignore[arg-type, return-value]
    worker.start()
    await asyncio.wait_for(second.wait(), 30)
    assert spawned[0].returncode is not None
    assert not is_alive(spawned[0].pid)
    await worker.stop(0.0)
    assert spawned[1].returncode is not None


async def test_a_child_that_closes_its_channel_and_stays_is_ended(
    monkeypatch: pytest.MonkeyPatch, spawned: list[asyncio.subprocess.Process]
) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.05)
    told: list[str] = []
    ended = asyncio.Event()

    def report(event: str, **_fields: object) -> None:
        told.append(event)
        if event == "worker_ended":
            ended.set()

    class Closed:
        def send(self, _form: object) -> None:
            pass

        async def receive(self) -> None:
            return None

        def close(self) -> None:
            pass

    async def opened(end: socket.socket) -> Any:
        end.close()
        return Closed()

    monkeypatch.setattr(Channel, "open", opened)
    worker = WorkerProcess(0, lambda _known: FakePlan(), lambda *_: None, report)  # type: ignore[arg-type, return-value]
    worker.start()
    await asyncio.wait_for(ended.wait(), 30)
    assert "worker_silence_took_too_long" in told
    assert not is_alive(spawned[0].pid)
    await worker.stop(0.0)
