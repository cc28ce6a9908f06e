"""Supervises long-lived tasks: logs and counts failures, then restarts the task or the process."""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, MutableMapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final

FIRST_BACKOFF_SECONDS: Final = 0.1
LONGEST_BACKOFF_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 60.0
"""A task that ran this long restarts with the first backoff."""

TaskFunction = Callable[[], Coroutine[Any, Any, object]]


def is_cancelled() -> bool:
    """Whether the running task is being cancelled; a CancelledError alone does not prove it."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def origin(error: BaseException) -> str:
    """File and line where an error was raised, for log lines, which have no traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown"
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


class TaskKeeper:
    """Starts tasks with a policy for failures: `keep` restarts them, `require` ends the process."""

    def __init__(
        self,
        report: Callable[..., None],
        failures: MutableMapping[str, int] | None = None,
        end: Callable[[], object] = lambda: None,
    ) -> None:
        """`failures` counts by task name; `end` stops the process with a failure."""
        self._report = report
        self._failures = failures
        self._end = end

    def keep(self, name: str, run: TaskFunction) -> asyncio.Task[None]:
        """Run a task until it returns; restart it with exponential backoff when it fails."""
        return asyncio.get_running_loop().create_task(self._keep(name, run))

    def require(self, name: str, run: TaskFunction) -> asyncio.Task[None]:
        """Run a task once; its failure ends the process."""
        return asyncio.get_running_loop().create_task(self._require(name, run))

    def once(self, name: str, run: TaskFunction) -> asyncio.Task[None]:
        """Run a task once; its failure is only logged and counted."""
        return asyncio.get_running_loop().create_task(self._once(name, run))

    async def _keep(self, name: str, run: TaskFunction) -> None:
        backoff = FIRST_BACKOFF_SECONDS
        while True:
            began = monotonic()
            try:
                await run()
            except (Exception, CancelledError) as error:
                if is_cancelled():
                    raise
                if monotonic() - began > STEADY_SECONDS:
                    backoff = FIRST_BACKOFF_SECONDS
                self._failed(name, error, restart_seconds=backoff)
            else:
                return
            try:
                await asyncio.sleep(backoff)
            except (Exception, CancelledError):
                if is_cancelled():
                    raise
            backoff = min(2 * backoff, LONGEST_BACKOFF_SECONDS)

    async def _require(self, name: str, run: TaskFunction) -> None:
        try:
            await run()
        except (Exception, CancelledError) as error:
            if is_cancelled():
                raise
            self._failed(name, error, process_ends=True)
            self._end()

    async def _once(self, name: str, run: TaskFunction) -> None:
        try:
            await run()
        except (Exception, CancelledError) as error:
            if is_cancelled():
                raise
            self._failed(name, error)

    def _failed(self, name: str, error: BaseException, **then: object) -> None:
        with suppress(Exception, CancelledError):
            if self._failures is not None:
                self._failures[name] = self._failures.get(name, 0) + 1
            text = f"{type(error).__name__}: {error}"
            self._report("task_failed", task=name, error=text, origin=origin(error), **then)
