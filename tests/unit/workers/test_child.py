"""A worker whose conversation with its supervisor fails stops at once and says so."""

import asyncio
import os
import signal
from typing import Any

import pytest

from coordinator_server.loop.task_keeper import TaskKeeper
from coordinator_server.server import run as serving
from coordinator_server.workers import child
from coordinator_server.workers.channel import Channel


class FakeApp:
    """What of the server a worker needs to serve."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.counts: dict[str, int] = {}
        self.broken = asyncio.Event()
        self.tasks = TaskKeeper(self.report, self.counts, self.broken.set)

    def report(self, event: str, **_fields: object) -> None:
        self.lines.append(event)

    async def stop(self) -> None:
        self.lines.append("stopped")

    def groups_in_memory(self) -> list[object]:
        return []


class FakeChannel:
    """Closes."""

    def close(self) -> None:
        pass


@pytest.mark.parametrize("error", [RuntimeError("bug"), MemoryError(), asyncio.CancelledError()])
@pytest.mark.parametrize("broken", ["listen", "tell_partitions", ""])
async def test_a_failed_conversation_ends_the_worker_with_an_error(
    monkeypatch: pytest.MonkeyPatch, broken: str, error: BaseException
) -> None:
    app = FakeApp()

    class FakeWorker:
        def __init__(self, *_: object) -> None:
            self.app = app

        async def start(self) -> None:
            if not broken:
                os.kill(os.getpid(), signal.SIGTERM)

        async def _talk(self, name: str) -> None:
            await asyncio.sleep(0)
            if name == broken:
                raise error
            await asyncio.Event().wait()

        async def listen(self) -> None:
            await self._talk("listen")

        async def tell_partitions(self) -> None:
            await self._talk("tell_partitions")

    async def opened(_end: object) -> Any:
        return FakeChannel()

    monkeypatch.setattr(child, "Worker", FakeWorker)
    monkeypatch.setattr(Channel, "open", opened)
    monkeypatch.setattr(serving, "freeze_heap", lambda: None)
    # It would end the process of the tests some seconds later.
    monkeypatch.setattr(serving, "skip_cleanup", lambda *_: None)
    try:
        succeeded = await asyncio.wait_for(child.serve(None, None), 30)  # type: ignore[arg-type]
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
    assert succeeded is not bool(broken)
    told = ["task_failed"] if broken else []
    assert app.lines == [*told, "stopped", "server_stopped"]
