"""The composition root: the only module that knows every part, and the order of start and stop."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from random import uniform
from typing import TYPE_CHECKING, Final

from coordinator_server import __version__
from coordinator_server.api.services import Services
from coordinator_server.clock import PauseAwareClock
from coordinator_server.config import Config
from coordinator_server.group.rebalance_events import RebalanceEvent
from coordinator_server.ids import SystemIds
from coordinator_server.loop.batching import SoonInLoop
from coordinator_server.loop.deadline import Deadline
from coordinator_server.loop.task_keeper import TaskKeeper
from coordinator_server.net.auth import AllowAll, Anonymous
from coordinator_server.net.context import SessionContext
from coordinator_server.net.listener import SocketServer
from coordinator_server.observe import log
from coordinator_server.observe.counters import Counters
from coordinator_server.observe.fanout import Fanout, Observer
from coordinator_server.observe.finding_watch import FindingWatch
from coordinator_server.observe.flapping import Flapping
from coordinator_server.observe.group_lines import GroupLines
from coordinator_server.observe.group_series import GroupTallies, TopicSource
from coordinator_server.observe.loop_lag import LoopLag
from coordinator_server.observe.refusals import Refusals
from coordinator_server.observe.sources import Sources
from coordinator_server.observe.sse import EventStream
from coordinator_server.observe.timeline import Timeline
from coordinator_server.ports import Ids, TopicInfo
from coordinator_server.runtime.admin import CoordinatorAdmin
from coordinator_server.runtime.coordinator import Coordinator
from coordinator_server.runtime.dependencies import RuntimeDependencies
from coordinator_server.runtime.failures import Failure
from coordinator_server.runtime.pauses import PauseWatch
from coordinator_server.runtime.status import CoordinatorStatus
from coordinator_server.runtime.sweeper import Sweeper
from coordinator_server.runtime.timers import LoopTimers
from coordinator_server.runtime.watchdog import PartitionWatchdog
from coordinator_server.server.component_settings import (
    admin_token,
    cleaner_settings,
    client_memory,
    flapping_limits,
    group_choice,
    limits,
)
from coordinator_server.server.descriptors import file_budget, open_file_limit
from coordinator_server.server.failure_log import FailureLines
from coordinator_server.server.node_resources import NodeResources, single_process
from coordinator_server.server.storage_setup import (
    close_storage,
    make_flusher,
    make_topics,
    open_journal,
    storage_figures,
)
from coordinator_server.server.substitutes import Substitutes
from coordinator_server.server.warm_imports import import_apis, import_http
from coordinator_server.storage.base import Node
from coordinator_server.storage.segments.cleaner import Cleaner
from coordinator_server.storage.segments.directory_watch import DirectoryWatch
from coordinator_server.storage.segments.guard import DirectoryLost, GuardedFiles
from coordinator_server.storage.segments.pool import DescriptorPool, PooledFiles, ReservedFiles
from coordinator_server.storage.segments.reporting import Report
from coordinator_server.storage.segments.storage import MAX_APPEND_BYTES, TOPIC, SegmentStorage

if TYPE_CHECKING:
    from coordinator_server.observe.http import HttpServer


STOP_SECONDS: Final = 5.0
"""How long a stop may take in all."""
STORAGE_SECONDS: Final = 2.0
"""Of these, what is kept for connections and files; requests not answered before are cut off."""


class App:
    """A server: built and started on the running event loop, stopped on it."""

    def __init__(
        self,
        config: Config,
        substitutes: Substitutes | None = None,
        take: Callable[[Config, Ids, Report], NodeResources] = single_process,
    ) -> None:
        """Take the data directory, or the share of it that `take` says, and put the parts together.

        Raises OSError; ValueError, CorruptCatalog, TopicError for data of another node, a broken
        catalog or declared topics that cannot be.
        """
        self._config = config
        given = substitutes or Substitutes()
        self._logger = log.get_logger(config.log_level)
        self._ids = given.ids or SystemIds()
        self.counters = Counters()
        # Of the same time as deadlines; what tests move by hand must not age connections.
        self._net_clock = PauseAwareClock()
        self._clock = given.clock or self._net_clock
        self._pauses = PauseWatch(self._net_clock, self.counters, self.report)
        self._failures = FailureLines(self._logger, self.counters)
        self.broken = asyncio.Event()  # a task has failed without which the server cannot go on
        self.tasks = TaskKeeper(self.report, self.counters.task_failures, self.broken.set)
        self._soon = SoonInLoop()
        self.timeline = Timeline(self._past)
        self.refusals = Refusals(self._clock.wall_ms)
        self.events = EventStream()
        self._admin_token = admin_token(config)
        limits = flapping_limits(config)
        self.flapping = Flapping(self._clock.wall_ms, limits, self._past, self._is_elsewhere)
        self._watch = FindingWatch(self.flapping.each, self.report)
        self._cleaner: Cleaner | None = None
        self._loads: Callable[[], Mapping[int, tuple[int, int]]] = dict
        self._log_sizes: Callable[[], Mapping[int, tuple[int, int]]] = dict
        self._choice = group_choice(config)
        self._group_lines = GroupLines(config.log_level)
        self._tallies = GroupTallies(self._choice)
        self._loop_lag = LoopLag()
        partitions, http = config.offsets_topic_num_partitions, config.http_max_connections
        self._budget = file_budget(open_file_limit(), partitions, http, config.workers)
        self._pool = DescriptorPool(self._budget.topics)
        self._resources = resources = take(config, self._ids, self.report)
        guarded = GuardedFiles(resources.data.guard, given.files)
        self._files = ReservedFiles(self._pool, guarded)
        self._topic_files = PooledFiles(self._pool, guarded)
        self._catalog, self.directory = resources.catalog, resources.directory
        with contextlib.ExitStack() as undo:
            undo.callback(resources.data.close)
            self._open(given)
            undo.pop_all()
        self.status = CoordinatorStatus(self.coordinator, self._loads)
        self.admin = CoordinatorAdmin(self.coordinator)
        self._http: HttpServer | None = None
        self._warming: asyncio.Task[None] | None = None

    def _open(self, given: Substitutes) -> None:
        """Open the storage, and put together what is on it. Raises OSError."""
        config, resources = self._config, self._resources
        self._journal = open_journal(config, resources, self._files, self.report)
        self._flusher = make_flusher(config, self._journal, self._soon, self.report)
        self._directory_watch = DirectoryWatch(
            resources.data.guard, self._journal, self._directory_lost, self.report
        )
        self.is_data_kept = True
        """Whether a stop has left everything that was acknowledged on disk."""
        self.counters.storage = storage_figures(self._pool, self._flusher)
        self.topics = make_topics(
            config, resources, self._journal, self._topic_files, self._flusher, self._clock
        )
        self.coordinator = self._make_coordinator(given)
        self.server = self._make_server(given)

    def _directory_lost(self, name: str, error: OSError) -> None:
        """End the tenure of a partition whose directory is gone, so that it counts as failed."""
        topic, _, index = name.rpartition("-")
        if topic == TOPIC and int(index) < len(self.coordinator.partitions):
            tenure = self.coordinator.partitions[int(index)].tenure
            if tenure is not None:
                tenure.end(Failure.APPEND_FAILED, error)

    def _make_coordinator(self, given: Substitutes) -> Coordinator:
        config = self._config
        loop = asyncio.get_running_loop()
        storage = given.storage or self._make_storage()
        make_timers = given.timers or LoopTimers
        world = RuntimeDependencies(
            clock=self._clock,
            ids=self._ids,
            timers=make_timers(loop, self._clock),
            limits=limits(config, storage.max_append_bytes),
            observe=self._make_fanout(given.observer).publish,
            log_bug=self._failures.turn_failed,
            write_timeout_ms=config.offsets_commit_timeout_ms,
            counters=self.counters,
            soon=self._soon,
            fold_refusal=self.refusals.fold,
            jitter=lambda: uniform(0.8, 1.2),  # noqa: S311 - spreads retries, guards nothing
            log_failure=self._failures.step_failed,
        )
        partitions, ours = config.offsets_topic_num_partitions, self._resources.share.has
        coordinator = Coordinator(partitions, storage, world, self.report, ours)
        self._sweeper = Sweeper(
            coordinator, world, config.offsets_retention_check_interval_ms, self.report
        )
        real = self._net_clock
        timers = world.timers if self._clock is real else LoopTimers(loop, real)
        self._watchdog = PartitionWatchdog(
            coordinator, world, self.report, clock=real, timers=timers
        )
        self._catalog.on_change(self._topic_changed)
        return coordinator

    async def topics_deleted(self, topics: Sequence[TopicInfo]) -> None:
        """Another worker has deleted topics: forget offsets of theirs, and remove our records."""
        for topic in topics:
            self._sweeper.topic_deleted(topic.name)
        await self.topics.drop(topics)

    def _past(self, group_id: str) -> Sequence[RebalanceEvent]:
        return self.status.past(group_id)

    def _is_elsewhere(self, group_id: str, host: str) -> bool:
        return self.status.is_elsewhere(group_id, host)

    def _topic_changed(self, topic: str) -> None:
        if self._catalog.get(topic) is None:
            self._sweeper.topic_deleted(topic)

    def _make_storage(self) -> SegmentStorage:
        topic = self._catalog.topics()[TOPIC]
        storage = SegmentStorage(
            self._resources.data,
            self._flusher,
            partitions=topic.partitions,
            segment_bytes=self._config.offsets_topic_segment_bytes,
            topic_id=topic.topic_id,
            report=self.report,
            segment_ms=self._config.log_roll_ms,
            journal=self._journal,
            max_append_bytes=MAX_APPEND_BYTES,
            files=self._files,
            share=self._resources.share,
        )
        self._log_sizes = storage.sizes
        self.topics.serve_coordinator_logs(storage)
        self._loads = storage.progress.loads
        if self._config.log_cleaner_enable:
            self._cleaner = Cleaner(
                storage.open_logs,
                cleaner_settings(self._config),
                self._clock.wall_ms,
                self.report,
                self.counters.compacted,
                self._resources.share.name,
                self._files,
            )
        return storage

    def _make_fanout(self, observer: Observer | None) -> Fanout:
        observers: list[Observer] = [
            self.counters.observe,
            self.timeline.observe,
            self.refusals.observe,
            self.flapping.observe,
            self.events.observe,
            self._group_lines.observe,
        ]
        if self._choice.allow is not None:
            observers.append(self._tallies.observe)
        if observer is not None:
            observers.append(observer)
        return Fanout(observers, self._failures.observer_failed)

    def _make_server(self, given: Substitutes) -> SocketServer:
        services = Services(
            config=self._config,
            coordinator=self.coordinator,
            topics=self.topics,
            image=self._catalog,
            directory=self.directory,
            authorizer=AllowAll(),
            clock=self._clock,
            ids=self._ids,
        )
        self.session_context = SessionContext(
            services, self.counters, self.report, given.faults, client_memory(self._config)
        )
        self.counters.client_memory = self.session_context.memory.figures
        sockets = self._resources.sockets
        server = SocketServer(
            self.session_context, Anonymous(), self._net_clock, self._soon, sockets
        )
        server.limit_by_files(self._budget.connections)
        return server

    # --- start and stop ---

    async def start(self) -> None:
        """Open the listeners and load the partitions, which are served as they come.

        Raises OSError; nothing is left open then.
        """
        try:
            for name, port in self.server.bind().items():
                self.directory.bound(name, port)
            await self.coordinator.start()
            if self._clock is self._net_clock:
                # Else deadlines follow another clock, which no pause stops.
                self._pauses.start()
            self._sweeper.start()
            self._watchdog.start()
            self._watch.start(self.tasks)
            self._directory_watch.start()
            if self._cleaner is not None:
                self._cleaner.start()
            await self.server.serve()
            await self._start_http()
            self._warming = self.tasks.once("warming", import_apis)
        except BaseException:
            await self.stop()
            raise
        self.report(
            "server_started",
            version=__version__,
            node_id=self._resources.node_id,
            cluster_id=self.directory.cluster_id,
            listeners={name: f"{n.host}:{n.port}" for name, n in self._advertised().items()},
            data=str(self._config.log_dirs),
        )
        self.report("file_limit", **self._budget._asdict())

    async def _start_http(self) -> None:
        address = self._config.http_listener
        if address is None:
            return
        await import_http()
        from coordinator_server.server.http_setup import make_http
        from coordinator_server.server.metrics_setup import Figures

        figures = Figures(
            counters=self.counters,
            status=self.status,
            timeline=self.timeline,
            wall_ms=self._clock.wall_ms,
            log_sizes=self._log_sizes,
            cleaner_lag=self._cleaner.lag if self._cleaner is not None else lambda: (0.0, 0.0),
            loop_lag=self._loop_lag,
            flapping=self.flapping,
            choice=self._choice,
            tallies=self._tallies,
            topics=TopicSource(self._topic_sizes, self.topics.known_end),
        )
        given = self._config, self._resources, self._sources(), figures, self.events
        most = self._budget.http
        self._http = make_http(*given, self._admin_token, self.report, most)
        await self._http.start()
        self._loop_lag.start()
        if (
            self._admin_token is None
            and not address.is_loopback
            and not self._resources.http_socket
        ):
            self.report("http_readable_from_elsewhere_unasked", address=str(address))

    def _topic_sizes(self) -> Mapping[str, int]:
        return {name: topic.partitions for name, topic in self._catalog.topics().items()}

    def _sources(self) -> Sources:
        seen = (self.status, self.timeline, self.refusals, self.flapping)
        return Sources(*seen, self._clock.wall_ms, self.admin, self.counters.client_memory)

    @property
    def http_port(self) -> int | None:
        """Where HTTP is served, if it is."""
        return None if self._http is None else self._http.port

    def groups_in_memory(self) -> Sequence[object]:
        """The groups of all partitions; they are not freed as long as this is kept."""
        tenures = [partition.tenure for partition in self.coordinator.partitions]
        return [tenure.actors for tenure in tenures if tenure is not None]

    def set_log_level(self, level: str) -> None:
        """Log lines from this level on."""
        log.set_level(level)
        self._logger = log.get_logger(level)
        self._group_lines.set_level(level)

    async def create_topic(self, name: str, partitions: int) -> None:
        """Make a topic. Raises TopicError, OSError."""
        await self._catalog.create_reserved([self._catalog.reserve(name, partitions)])

    def port(self, listener: str = "PLAINTEXT") -> int:
        """The port of a listener, known from `start` on."""
        return self.server.ports[listener]

    def _advertised(self) -> dict[str, Node]:
        return {name: self.directory.this_node(name) for name in self.server.ports}

    async def stop(self) -> None:
        """Let nobody in, answer who waits, flush, close, in time; members stay members."""
        deadline = Deadline(STOP_SECONDS, self.report)
        await deadline.keep("answering requests", self._drain(), STORAGE_SECONDS)
        await deadline.keep("closing connections", self.server.close(1.0), 1.0)
        self._loop_lag.stop()
        if self._http is not None:
            await deadline.keep("closing HTTP", self._http.stop(), 1.0)
        await deadline.keep("writing the topics", self._catalog.settle(), 0.6)
        is_closed = await close_storage(deadline, self._flusher, self.topics, self._journal)
        self._check_data_kept()
        if is_closed:
            self._resources.data.close()

    def _check_data_kept(self) -> None:
        try:
            self._resources.data.guard.check()
        except DirectoryLost as error:
            self.is_data_kept = False
            self.report(
                "data_directory_lost",
                directory=str(self._config.log_dirs),
                error=str(error),
                consequence="what was written since is not in that directory",
            )

    async def _drain(self) -> None:
        self.server.stop_accepting()
        if self._warming is not None:
            self._warming.cancel()
        self._sweeper.stop()
        self._watchdog.stop()
        self._pauses.stop()
        self._watch.stop()
        await self._directory_watch.stop()
        self.topics.release()
        if self._cleaner is not None:
            await self._cleaner.stop()
        await self.coordinator.stop()
        self.server.begin_drain()

    # --- what parts report ---

    def report(self, event: str, **fields: object) -> None:
        """Write a line to the log; what went wrong is a warning."""
        self.counters.reported(event)
        log.report(self._logger, event, fields)
