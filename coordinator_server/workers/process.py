"""A worker as its supervisor has it: a process, begun again whenever it ends."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from coordinator_server.loop.task_keeper import TaskKeeper, is_cancelled
from coordinator_server.ports import TopicInfo
from coordinator_server.workers.channel import Channel, Form
from coordinator_server.workers.plan import Plan

FIRST_BACKOFF_SECONDS: Final = 0.1
LONGEST_BACKOFF_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 60.0
"""A worker that has lived this long is begun again without delay."""

SILENT_SECONDS: Final = 10.0
"""How long a worker may live that has closed its end of the channel, as one that stops does."""

Report = Callable[..., None]
MakePlan = Callable[[Sequence[TopicInfo]], Plan]
"""The plan for a life of a worker, given the topics it knew in the one before."""


class WorkerProcess:
    """Keeps one worker running until `stop`."""

    def __init__(
        self,
        index: int,
        make_plan: MakePlan,
        hear: Callable[["WorkerProcess", Form], None],
        report: Report,
    ) -> None:
        """`hear` is called with everything the worker says."""
        self.index = index
        self.is_ready = False
        """Whether it serves; its partitions may still be loading."""
        self.restarts = 0
        self.partitions: Mapping[str, int] = {}
        """How many of the worker's are in each state, as it has said last."""
        self.known: Sequence[TopicInfo] = ()
        """The topics the worker has heard of last."""
        self._make_plan = make_plan
        self._hear = hear
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._channel: Channel | None = None
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process's id, None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Begin it, and begin it again when it ends."""
        tasks = TaskKeeper(self._report)
        self._task = tasks.keep(f"keep worker {self.index}", self._keep)

    def send(self, form: Form) -> None:
        """Tell the worker something, if there is one."""
        if self._channel is not None:
            self._channel.send(form)

    async def stop(self, within: float) -> None:
        """SIGTERM; SIGKILL after so many seconds."""
        self._stopping.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
        if self._task is None:
            return
        done, _ = await asyncio.wait([self._task], timeout=within)
        if not done and self._process is not None:
            self._report("worker_stop_took_too_long", worker=self.index, seconds=within)
            with suppress(ProcessLookupError):
                self._process.kill()
            await asyncio.wait([self._task])

    async def _keep(self) -> None:
        backoff = FIRST_BACKOFF_SECONDS
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                code = await self._live()
            except (Exception, asyncio.CancelledError) as error:
                # Whatever it is, try again later.
                if is_cancelled():
                    raise
                code = None
                self._report("worker_start_failed", worker=self.index, error=repr(error))
            if self._stopping.is_set():
                return
            if time.monotonic() - began > STEADY_SECONDS:
                backoff = FIRST_BACKOFF_SECONDS
            self._report("worker_ended", worker=self.index, exit_code=code, restart_seconds=backoff)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF_SECONDS)
            self.restarts += 1

    async def _live(self) -> int | None:
        """One life of the worker, from its plan to its end; its exit code, None without a life."""
        plan = self._make_plan(self.known)
        ours, theirs = socket.socketpair()
        try:
            self._process = await _spawn(theirs.fileno(), plan)
        except OSError as error:
            ours.close()
            self._report("worker_start_failed", worker=self.index, error=str(error))
            return None
        finally:
            theirs.close()
        process = self._process
        try:
            self._report("worker_started", worker=self.index, pid=process.pid)
            self._channel = channel = await Channel.open(ours)
            channel.send(plan.form())
            while (form := await channel.receive()) is not None:
                self._take(form, plan)
            return await asyncio.wait_for(process.wait(), SILENT_SECONDS)
        except TimeoutError:
            self._report("worker_silence_took_too_long", worker=self.index, seconds=SILENT_SECONDS)
            return None
        finally:
            # Whatever has gone wrong: a worker nobody listens to must not keep its locks.
            await _end(process)
            self.is_ready = False
            self.partitions = {"loading": sum(self.partitions.values())}
            opened, self._channel, self._process = self._channel, None, None
            if opened is None:
                ours.close()
            else:
                opened.close()

    def _take(self, form: Form, plan: Plan) -> None:
        match form["kind"]:
            case "partitions":
                self.partitions = form["states"]
            case "ready":
                self.is_ready = True
                self.known = plan.topics
                if self._stopping.is_set() and self._process is not None:
                    # The signal may have come before its handler.
                    self._process.terminate()
        self._hear(self, form)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Have a process be gone, however often this is interrupted."""
    while process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        with suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(process.wait(), 1.0)


async def _spawn(channel: int, plan: Plan) -> asyncio.subprocess.Process:
    """A new process, not a fork of this one: it imports what this one does, from where it does."""
    fds = [channel, *(fd for each in plan.sockets.values() for fd in each)]
    if plan.http_socket is not None:
        fds.append(plan.http_socket)
    path = os.pathsep.join(part for part in sys.path if part)
    module = "coordinator_server.workers.child"
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", module, str(channel), str(os.getpid())),
        stdin=asyncio.subprocess.DEVNULL,
        pass_fds=fds,
        env={**os.environ, "PYTHONPATH": path},
    )
