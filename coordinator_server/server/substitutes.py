"""Components of a server that tests replace."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from coordinator_server.clock import Clock
from coordinator_server.net.context import FaultInjector
from coordinator_server.observe.fanout import Observer
from coordinator_server.ports import Ids
from coordinator_server.runtime.timers import Timers
from coordinator_server.storage.base import Storage
from coordinator_server.storage.segments.files import SYSTEM_FILES, Files


@dataclass(frozen=True, slots=True)
class Substitutes:
    """Replacements for components; None keeps the real one."""

    clock: Clock | None = None
    ids: Ids | None = None
    timers: Callable[[asyncio.AbstractEventLoop, Clock], Timers] | None = None
    storage: Storage | None = None
    faults: FaultInjector | None = None
    observer: Observer | None = None
    files: Files = SYSTEM_FILES
