"""Writes a line when a member begins to flap or a storm begins, and one when it is over.

Looks every few seconds, a few milliseconds at a time: a rebalance costs no more for it.
"""

import asyncio
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Final

from coordinator_server.loop.task_keeper import TaskKeeper
from coordinator_server.observe.findings import Finding, key_of
from coordinator_server.observe.forms import finding_form

INTERVAL_SECONDS: Final = 10.0
MAX_TOLD: Final = 20
"""Lines of one look: the others have their turn at the next."""
MAX_FINDINGS: Final = 1_000
"""That are remembered; while there are so many, no further one is told."""
SLICE_SECONDS: Final = 0.002
"""How long it looks before others have the loop for twice as long; nobody waits for it."""
MOST_PAUSE_SECONDS: Final = 0.05
"""But no longer than this."""

Key = tuple[str, tuple[str, str, str]]


class FindingWatch:
    """Looks from `start` to `stop`, on the running loop."""

    def __init__(
        self, each: Callable[[], Iterator[list[Finding]]], report: Callable[..., None]
    ) -> None:
        """`each` finds, group by group; `report` writes a line."""
        self._each = each
        self._report = report
        self._told: dict[Key, Finding] = {}
        """What is found, as it was last."""
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: TaskKeeper | None = None) -> None:
        """Look for the first time after an interval."""
        tasks = tasks or TaskKeeper(self._report)
        self._task = tasks.keep("finding watch", self._watch)

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Tell what is new, and what is over."""
        found: dict[Key, Finding] = {}
        began = perf_counter()
        for findings in self._each():
            found |= {(finding.group_id, key_of(finding)): finding for finding in findings}
            if (took := perf_counter() - began) > SLICE_SECONDS:
                await asyncio.sleep(min(2 * took, MOST_PAUSE_SECONDS))
                began = perf_counter()
        over = [key for key in self._told if key not in found][:MAX_TOLD]
        for key in over:
            self._report("flapping_over", **finding_form(self._told.pop(key)))
        for key in self._told:
            self._told[key] = found.get(key, self._told[key])
        room = min(MAX_TOLD - len(over), MAX_FINDINGS - len(self._told))
        new = [key for key in found if key not in self._told][:room]
        for key in new:
            self._told[key] = found[key]
            self._report("flapping_found", **finding_form(found[key]))
