"""Where the HTTP side has its answers from, as the composition root puts it together."""

from collections.abc import Callable
from dataclasses import dataclass

from coordinator_server.observe.counters import ClientMemory
from coordinator_server.observe.flapping import Flapping
from coordinator_server.observe.refusals import Refusals
from coordinator_server.observe.status import GroupAdmin, StatusSource
from coordinator_server.observe.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of facts about groups, and the administrator of groups."""

    status: StatusSource
    timeline: Timeline
    refusals: Refusals
    flapping: Flapping
    wall_ms: Callable[[], int]
    """Wall-clock milliseconds."""
    admin: GroupAdmin | None = None
    client_memory: Callable[[], ClientMemory] = ClientMemory
    """The memory budget for data of clients as it is now."""
