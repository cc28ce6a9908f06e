from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator_server.config.listeners import Listener
from coordinator_server.loop.batching import SoonInLoop
from coordinator_server.net.auth import Anonymous
from coordinator_server.net.context import SessionContext
from coordinator_server.net.listener import SocketServer
from coordinator_server.net.memory import MemoryBudget
from coordinator_server.observe.counters import Counters
from tests.support.fake_coordinator import FakeCoordinator, group_services
from tests.support.listening_server import ListeningServer, SettableClock, Start, alive


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    worlds: list[ListeningServer] = []

    async def _start(memory: MemoryBudget | None = None, **config: Any) -> ListeningServer:
        coordinator, counters, clock = FakeCoordinator(alive), Counters(), SettableClock()
        reports: list[tuple[str, dict[str, Any]]] = []
        defaults = {
            "listeners": (Listener("PLAINTEXT", "127.0.0.1", 0),),
            "max_connections": 100,
            "max_connections_per_ip": 100,
            "connections_max_idle_ms": 600_000,
        }
        services = group_services(coordinator, **{**defaults, **config})
        context = SessionContext(
            services,
            counters,
            lambda event, **fields: reports.append((event, fields)),
            memory=memory or MemoryBudget(),
        )
        server = SocketServer(context, Anonymous(), clock, SoonInLoop())
        await server.serve()
        world = ListeningServer(
            server=server,
            services=services,
            context=context,
            coordinator=coordinator,
            counters=counters,
            clock=clock,
            reports=reports,
            clients=[],
        )
        worlds.append(world)
        return world

    yield _start
    for world in worlds:
        await world.end()
