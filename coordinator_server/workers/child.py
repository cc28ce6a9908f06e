"""A worker process: a server for a share of the data directory.

`python -m coordinator_server.workers.child FD PID`: FD is the worker's end of the channel, PID the
supervisor. The worker ends at once with its supervisor: acknowledged data is on disk, and the
supervisor no longer locks the directory.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from coordinator_server.app import App
from coordinator_server.config import Config
from coordinator_server.net.directory import WorkersDirectory
from coordinator_server.observe import log
from coordinator_server.ports import Ids, TopicInfo
from coordinator_server.server import run as serving
from coordinator_server.server.node_resources import NodeResources, open_catalog
from coordinator_server.server.process_limits import allow_many_files
from coordinator_server.storage.segments.guard import GuardedFiles
from coordinator_server.storage.segments.reporting import Report
from coordinator_server.storage.segments.shares import SharedDirectory
from coordinator_server.topics.catalog import TopicCatalog, from_form
from coordinator_server.topics.catalog_file import to_form
from coordinator_server.topics.replicated_catalog import FollowedCatalog
from coordinator_server.workers.channel import Channel, receive_first
from coordinator_server.workers.plan import Plan

ORPHANED = 3
"""The exit code of a worker whose supervisor has ended."""
_PR_SET_PDEATHSIG = 1
CHECK_SECONDS = 0.5
"""Interval of the checks for changed states of partitions."""


class Worker:
    """The server and its communication with the supervisor."""

    def __init__(self, plan: Plan, channel: Channel) -> None:
        """Acquire the share of the plan. Raises OSError, ValueError."""
        self._plan = plan
        self._channel = channel
        self._told = False
        self._tasks: set[asyncio.Task[object]] = set()
        self.app = App(plan.config, take=self._take)
        if self._is_first:
            self._catalog.on_change(self._tell_soon)

    @property
    def _is_first(self) -> bool:
        """Whether this worker creates and deletes topics."""
        return self._plan.share.index == 0

    def _take(self, config: Config, ids: Ids, _report: Report) -> NodeResources:
        """See app.App."""
        plan = self._plan
        data = SharedDirectory(
            config.log_dirs,
            plan.share,
            partitions=config.offsets_topic_num_partitions,
            cluster_id=plan.cluster_id,
            start=plan.start,
        )
        try:
            self._catalog: TopicCatalog | FollowedCatalog = (
                open_catalog(config, ids, GuardedFiles(data.guard))
                if self._is_first
                else FollowedCatalog(plan.topics, self._request_topics)
            )
        except BaseException:
            data.close()
            raise
        return NodeResources(
            node_id=plan.node_id,
            share=plan.share,
            data=data,
            catalog=self._catalog,
            directory=WorkersDirectory(plan.share.index, plan.cluster_id, plan.nodes),
            sockets={
                name: [socket.socket(fileno=fd) for fd in fds] for name, fds in plan.sockets.items()
            },
            http_socket=None
            if plan.http_socket is None
            else socket.socket(fileno=plan.http_socket),
        )

    async def start(self) -> None:
        """Start serving and send `ready`. Raises OSError."""
        await self.app.start()
        self._drop(self._plan.gone)
        self._channel.send({"kind": "ready"})
        if self._is_first:
            # After `ready`, because its topics may be newer than those of the plan.
            self._tell()

    async def tell_partitions(self) -> None:
        """Send the number of partitions by state to the supervisor whenever it changes."""
        told: Mapping[str, int] = {}
        while True:
            states = dict(self.app.status.partitions())
            if states != told:
                told = states
                self._channel.send({"kind": "partitions", "states": states})
            await asyncio.sleep(CHECK_SECONDS)

    async def listen(self) -> None:
        """Handle messages of the supervisor; end the process when the supervisor has ended."""
        while (form := await self._channel.receive()) is not None:
            if form["kind"] == "topics" and isinstance(self._catalog, FollowedCatalog):
                self._drop(self._catalog.follow(from_form(each) for each in form["topics"]))
                self._channel.send({"kind": "followed", "version": form["version"]})
            elif form["kind"] == "log_level":
                self.app.set_log_level(form["level"])
            elif form["kind"] == "create":
                self._create(form["topics"])
        os._exit(ORPHANED)

    # --- topics ---

    def _request_topics(self, topics: Sequence[tuple[str, int]]) -> None:
        self._channel.send({"kind": "create", "topics": topics})

    def _create(self, requested: Sequence[tuple[str, int]]) -> None:
        """Create the topics with one write per number of partitions."""
        names: dict[int, list[str]] = {}
        for name, partitions in requested:
            names.setdefault(partitions, []).append(name)
        for partitions, same in names.items():
            self._run(self.app.topics.auto_creation.create(same, partitions))

    def _tell_soon(self, _topic: str) -> None:
        """Send the topics once for all changes in a turn of the loop."""
        if not self._told:
            asyncio.get_running_loop().call_soon(self._tell)
            self._told = True

    def _tell(self) -> None:
        self._told = False
        topics = [to_form(topic) for topic in self._catalog.topics().values()]
        self._channel.send({"kind": "topics", "topics": topics})

    def _drop(self, gone: Sequence[TopicInfo]) -> None:
        if gone:
            self._run(self.app.topics_deleted(gone))

    def _run(self, work: Coroutine[Any, Any, object]) -> None:
        task = self.app.tasks.once("follow topics", lambda: work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def serve(plan: Plan, control: socket.socket) -> bool:
    """Serve until SIGTERM; return False if a required task failed.

    Raises OSError, ValueError.
    """
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    channel = await Channel.open(control)
    worker = Worker(plan, channel)
    await worker.start()
    tasks = worker.app.tasks
    talking = [
        tasks.require("listen to the supervisor", worker.listen),
        tasks.require("tell of partitions", worker.tell_partitions),
    ]
    serving.freeze_heap()
    succeeded = await serving.wait_for_stop(stopping, worker.app.broken)
    serving.skip_cleanup([worker, worker.app.groups_in_memory()], worker.app.report)
    await worker.app.stop()
    worker.app.report("server_stopped")
    for each in talking:
        each.cancel()
    await asyncio.wait(talking)
    channel.close()
    return succeeded


def die_with(parent: int) -> None:
    """Let Linux kill this process when its parent ends.

    On other systems the end of the channel ends the process.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(ORPHANED)


def main() -> int:
    """Receive the plan and serve; return the exit code."""
    import uvloop

    # A terminal signals the whole process group; only the supervisor reacts.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    die_with(int(sys.argv[2]))
    try:
        plan = Plan.of(receive_first(control))
    except EOFError:
        return ORPHANED
    config = plan.config
    log.configure(level=config.log_level, line_format=config.log_format, node_id=plan.node_id)
    allow_many_files()
    try:
        return 0 if uvloop.run(serve(plan, control)) else 1
    except (OSError, ValueError) as error:
        log.get_logger().error("cannot_run", error=str(error))
        return 1


if __name__ == "__main__":
    serving.exit_now(main())
