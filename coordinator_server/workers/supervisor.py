"""The supervisor: holds the data directory and the addresses, and keeps the workers running."""

import asyncio
import contextlib
import signal
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from coordinator_server import __version__
from coordinator_server.config import Config
from coordinator_server.ids import SystemIds
from coordinator_server.loop.task_keeper import TaskKeeper
from coordinator_server.net.sockets import bind
from coordinator_server.observe import log
from coordinator_server.ports import TopicInfo
from coordinator_server.server.descriptors import open_file_limit, proxy_connections
from coordinator_server.server.node_resources import hold, open_catalog, take_over_all
from coordinator_server.server.process_limits import allow_many_files, check_files
from coordinator_server.server.reload import Reloader, handle_hang_up
from coordinator_server.server.run import CannotStart, ReadConfig, freeze_heap, skip_cleanup
from coordinator_server.server.systemd import systemd_notifications
from coordinator_server.storage.segments.guard import DirectoryLost, GuardedFiles
from coordinator_server.storage.segments.shares import WHOLE, Share
from coordinator_server.topics.catalog import CorruptCatalog, from_form
from coordinator_server.topics.catalog_file import to_form
from coordinator_server.topics.directories import sweep
from coordinator_server.topics.errors import TopicError
from coordinator_server.workers.channel import Form
from coordinator_server.workers.http_sockets import bind_http
from coordinator_server.workers.plan import Plan, listeners_of, nodes_of
from coordinator_server.workers.process import WorkerProcess

if TYPE_CHECKING:
    from coordinator_server.workers.http_proxy import HttpProxy

STOP_SECONDS: Final = 7.0
"""How long workers may take to stop, each of which gives its clients 5 seconds."""

CUT_OFF_SECONDS: Final = 9.0
"""After the signal to stop: a disk that hangs keeps the directory from being set in order."""

MOST_WISHES: Final = 10_000
"""Topics that are wished for while nobody can make them: more are asked for again by clients."""


class Supervisor:
    """Starts, restarts and stops the workers of a data directory."""

    def __init__(self, config: Config) -> None:
        """Take the directory, set it in order, and bind all addresses. Blocks.

        Raises OSError, ValueError, CorruptCatalog, TopicError.
        """
        self._config = config
        self._logger = log.get_logger()
        self._http: HttpProxy | None = None
        self._version = 0
        """Counts what the first worker has published."""
        self.is_data_kept = True
        """Whether a stop has left everything that was acknowledged in the data directory."""
        self._wishes: dict[str, int] = {}
        """Topics, with their partitions, that the first worker is to make once it is there.

        Clients ask for the same ones again and again meanwhile.
        """
        shares = [Share(index, config.workers) for index in range(config.workers)]
        with contextlib.ExitStack() as undo:
            self._data = hold(config)
            undo.callback(self._data.close)
            self._files = GuardedFiles(self._data.guard)
            take_over_all(config, shares, self.report, self._files)
            sweep(config.log_dirs)
            catalog = open_catalog(config, SystemIds(), self._files)
            self._topics = tuple(catalog.topics().values())
            self._sockets = [_bind_all(undo, config, share.index) for share in shares]
            self._http_sockets = bind_http(undo, config)
            self._held = undo.pop_all()
        ports = [_ports(sockets) for sockets in self._sockets]
        self._nodes = nodes_of(config, ports)
        self.workers = [
            WorkerProcess(share.index, partial(self._plan, share), self._hear, self.report)
            for share in shares
        ]

    async def start(self) -> None:
        """Begin the workers, and HTTP. Raises OSError; nothing is left running then."""
        for worker in self.workers:
            worker.start()
        try:
            await self._start_http()
        except BaseException:
            await self.stop()
            raise
        self.report(
            "supervisor_started",
            version=__version__,
            workers=len(self.workers),
            cluster_id=self._data.cluster_id,
            listeners={
                name: [f"{node.host}:{node.port}" for node in nodes]
                for name, nodes in self._nodes.items()
            },
            data=str(self._config.log_dirs),
        )

    async def _start_http(self) -> None:
        address = self._config.http_listener
        if address is None:
            return
        # Takes 200 ms, for which nobody but the workers' beginning is waiting here.
        from coordinator_server.observe.http_hosts import AllowedHosts
        from coordinator_server.workers.http_proxy import HttpProxy, WorkerHttp

        workers = [
            WorkerHttp(worker, str(each.getsockname()))
            for worker, each in zip(self.workers, self._http_sockets, strict=True)
        ]
        self._http = HttpProxy(
            address,
            workers,
            self._config.offsets_topic_num_partitions,
            max_connections=proxy_connections(
                open_file_limit(), self._config.http_max_connections, len(self.workers)
            ),
            hosts=AllowedHosts(self._config.http_names()),
            report=self.report,
        )
        await self._http.start()
        guarded = self._config.admin_token or self._config.admin_token_file
        if not guarded and not address.is_loopback:
            self.report("http_readable_from_elsewhere_unasked", address=str(address))

    async def stop(self) -> None:
        """Let nobody in, stop the workers, and leave the directory as one process would."""
        for sockets in self._sockets:
            for each in (each for listed in sockets.values() for each in listed):
                each.close()
        if self._http is not None:
            await self._http.stop()
        await asyncio.gather(*(worker.stop(STOP_SECONDS) for worker in self.workers))
        try:
            await asyncio.to_thread(take_over_all, self._config, [WHOLE], self.report, self._files)
        except (OSError, ValueError, CorruptCatalog) as error:
            self.report("journals_left_failed", error=str(error))
        try:
            self._data.guard.check()
        except DirectoryLost as error:
            self.is_data_kept = False
            self.report(
                "data_directory_lost", directory=str(self._config.log_dirs), error=str(error)
            )
        self._held.close()

    def partitions(self) -> Mapping[str, int]:
        """How many partitions of the coordinator's log are in each state."""
        states = Counter[str]()
        for worker in self.workers:
            states.update(worker.partitions)
        states["initial"] += self._config.offsets_topic_num_partitions - states.total()
        return states

    def report(self, event: str, **fields: object) -> None:
        """Write a line to the log."""
        log.report(self._logger, event, fields)

    def set_config(self, config: Config) -> None:
        """Take settings that differ in what can be reloaded; workers that start again have them."""
        self._config = config
        log.set_level(config.log_level)
        for worker in self.workers:
            worker.send({"kind": "log_level", "level": config.log_level})

    # --- workers ---

    def _plan(self, share: Share, known: Sequence[TopicInfo]) -> Plan:
        http = self._http_sockets[share.index].fileno() if self._http_sockets else None
        there = {topic.topic_id for topic in self._topics}
        return Plan(
            config=self._config,
            share=share,
            cluster_id=self._data.cluster_id,
            start=self._data.start,
            nodes=self._nodes,
            sockets={
                name: [each.fileno() for each in listed]
                for name, listed in self._sockets[share.index].items()
            },
            http_socket=http,
            topics=self._topics,
            gone=[topic for topic in known if topic.topic_id not in there],
        )

    def _hear(self, worker: WorkerProcess, form: Form) -> None:
        """Take a message of a worker, above all about topics."""
        first, *others = self.workers
        match form["kind"]:
            case "topics":
                self._version += 1
                # What is gone it has forgotten; the next life must not forget it by its name again.
                worker.known = self._topics = tuple(from_form(each) for each in form["topics"])
                for other in others:
                    other.send(self._published())
            case "followed" if form["version"] == self._version:
                worker.known = self._topics
            case "create" if first.is_ready:
                first.send(form)
            case "create":
                for name, partitions in form["topics"]:
                    if len(self._wishes) < MOST_WISHES:
                        self._wishes.setdefault(name, partitions)
            case "ready" if worker is first:
                if self._wishes:
                    first.send({"kind": "create", "topics": [*self._wishes.items()]})
                self._wishes.clear()
            case "ready":
                # What was published while it began.
                worker.send(self._published())

    def _published(self) -> Form:
        topics = [to_form(topic) for topic in self._topics]
        return {"kind": "topics", "version": self._version, "topics": topics}


def _bind_all(
    undo: contextlib.ExitStack, config: Config, index: int
) -> Mapping[str, list[socket.socket]]:
    """The sockets of a worker, by listener. Raises OSError that names the listener."""
    bound = {listener.name: bind(listener) for listener in listeners_of(config, index)}
    for each in (each for listed in bound.values() for each in listed):
        undo.callback(each.close)
    return bound


def _ports(sockets: Mapping[str, list[socket.socket]]) -> Mapping[str, int]:
    return {name: int(listed[0].getsockname()[1]) for name, listed in sockets.items()}


async def serve(config: Config, read: ReadConfig | None = None) -> bool:
    """Serve until SIGTERM or SIGINT; whether everything acknowledged is on disk then.

    Raises CannotStart, OSError.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        supervisor = Supervisor(config)
    except (ValueError, CorruptCatalog, TopicError) as error:
        raise CannotStart(str(error)) from error
    reload = None
    if read is not None:
        reload = Reloader(config, read, supervisor.set_config, supervisor.report)
    handle_hang_up(stopping, reload)
    async with systemd_notifications(
        supervisor.partitions, TaskKeeper(supervisor.report)
    ) as tell_stopping:
        await supervisor.start()
        await stopping.wait()
        tell_stopping()
        supervisor.report("supervisor_stopping")
        skip_cleanup(supervisor, supervisor.report, CUT_OFF_SECONDS)
        await supervisor.stop()
    supervisor.report("supervisor_stopped")
    return supervisor.is_data_kept


def main(config: Config, read: ReadConfig | None = None) -> int:
    """Run workers until told to stop; the exit code. Raises TooFewFiles."""
    import uvloop

    allow_many_files()
    check_files(config)
    freeze_heap()
    return 0 if uvloop.run(serve(config, read)) else 1
