"""Logs the start and the end of findings: flapping members and rebalance storms.

A periodic task computes the findings in short slices, so rebalances do not pay for it.
"""

import asyncio
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Final

from coordinator_server.loop.task_keeper import TaskKeeper
from coordinator_server.observe.findings import Finding, key_of
from coordinator_server.observe.forms import finding_form

INTERVAL_SECONDS: Final = 10.0
MAX_LINES: Final = 20
"""Lines per run; further findings are logged in the next run."""
MAX_FINDINGS: Final = 1_000
"""Findings that are remembered; above it new ones are not logged."""
SLICE_SECONDS: Final = 0.002
"""Duration of a slice; the pause after it is twice as long."""
MAX_PAUSE_SECONDS: Final = 0.05
"""Longest pause between two slices."""

Key = tuple[str, tuple[str, str, str]]


class FindingWatch:
    """Runs on the event loop from `start` to `stop`."""

    def __init__(
        self, each: Callable[[], Iterator[list[Finding]]], report: Callable[..., None]
    ) -> None:
        """`each` yields the findings of one group after the other; `report` writes a line."""
        self._each = each
        self._report = report
        self._logged: dict[Key, Finding] = {}
        """Findings logged as found, in their latest form."""
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: TaskKeeper | None = None) -> None:
        """Start the periodic task; its first run is after an interval."""
        tasks = tasks or TaskKeeper(self._report)
        self._task = tasks.keep("finding watch", self._watch)

    def stop(self) -> None:
        """Stop the periodic task."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Log new findings and those that are over."""
        found: dict[Key, Finding] = {}
        began = perf_counter()
        for findings in self._each():
            found |= {(finding.group_id, key_of(finding)): finding for finding in findings}
            if (took := perf_counter() - began) > SLICE_SECONDS:
                await asyncio.sleep(min(2 * took, MAX_PAUSE_SECONDS))
                began = perf_counter()
        over = [key for key in self._logged if key not in found][:MAX_LINES]
        for key in over:
            self._report("flapping_over", **finding_form(self._logged.pop(key)))
        for key in self._logged:
            self._logged[key] = found.get(key, self._logged[key])
        room = min(MAX_LINES - len(over), MAX_FINDINGS - len(self._logged))
        new = [key for key in found if key not in self._logged][:room]
        for key in new:
            self._logged[key] = found[key]
            self._report("flapping_found", **finding_form(found[key]))
