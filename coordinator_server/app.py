"""The composition root: the only module that knows every part, and the order of start and stop."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from random import uniform
from typing import TYPE_CHECKING, Final

from coordinator_server import __version__
from coordinator_server.api.registry import import_all
from coordinator_server.api.services import Services
from coordinator_server.clock import Clock, SystemClock
from coordinator_server.config import Config
from coordinator_server.group.machine import TurnFailed
from coordinator_server.group.reasons import RebalanceEvent
from coordinator_server.ids import SystemIds
from coordinator_server.net.auth import AllowAll, Anonymous
from coordinator_server.net.context import Faults, SessionContext
from coordinator_server.net.listener import SocketServer
from coordinator_server.observe import log
from coordinator_server.observe.counters import Counters
from coordinator_server.observe.fanout import Fanout, Observer
from coordinator_server.observe.findingwatch import FindingWatch
from coordinator_server.observe.flapping import Flapping
from coordinator_server.observe.grouplines import GroupLines
from coordinator_server.observe.groupseries import GroupTallies, TopicSource
from coordinator_server.observe.looplag import LoopLag
from coordinator_server.observe.refusals import Refusals
from coordinator_server.observe.sources import Sources
from coordinator_server.observe.sse import EventStream
from coordinator_server.observe.timeline import Timeline
from coordinator_server.ports import Ids, TopicInfo
from coordinator_server.runtime.admin import CoordinatorAdmin
from coordinator_server.runtime.coordinator import Coordinator
from coordinator_server.runtime.status import CoordinatorStatus
from coordinator_server.runtime.sweeper import Sweeper
from coordinator_server.runtime.tenure import World
from coordinator_server.runtime.timers import LoopTimers, Timers
from coordinator_server.settings import (
    admin_token,
    cleaner_settings,
    flapping_limits,
    group_choice,
    limits,
)
from coordinator_server.site import Site, alone
from coordinator_server.soon import SoonInLoop
from coordinator_server.storage.base import Node, Storage
from coordinator_server.storage.segments.cleaner import Cleaner
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.journal import Journal, Report
from coordinator_server.storage.segments.replay import replay_all
from coordinator_server.storage.segments.storage import MAX_APPEND_BYTES, TOPIC, SegmentStorage
from coordinator_server.topics.directories import Directories
from coordinator_server.topics.service import Topics
from coordinator_server.topics.validation import BatchRules

if TYPE_CHECKING:
    from coordinator_server.observe.http import HttpServer


_HTTP: Final = "coordinator_server.observe.http"
_BEFORE_HTTP_SECONDS: Final = 0.05
_BEFORE_APIS_SECONDS: Final = 0.2

STOP_SECONDS: Final = 5.0
"""How long a stop may take; what is not answered by then is cut off."""


async def _import_apis() -> None:
    """Those nobody has asked for yet, when who waits for the start is served."""
    await asyncio.sleep(_BEFORE_APIS_SECONDS)
    await asyncio.to_thread(import_all)


@dataclass(frozen=True, slots=True)
class Substitutes:
    """What tests put in the place of the real parts; None takes the real one."""

    clock: Clock | None = None
    ids: Ids | None = None
    timers: Callable[[asyncio.AbstractEventLoop, Clock], Timers] | None = None
    storage: Storage | None = None
    faults: Faults | None = None
    observer: Observer | None = None


class App:
    """A server: built and started on the running event loop, stopped on it."""

    def __init__(
        self,
        config: Config,
        substitutes: Substitutes | None = None,
        take: Callable[[Config, Ids, Report], Site] = alone,
    ) -> None:
        """Take the data directory, or the share of it that `take` says, and put the parts together.

        Raises OSError; ValueError, CorruptCatalog, TopicError for data of another node, a broken
        catalog or declared topics that cannot be.
        """
        self._config = config
        given = substitutes or Substitutes()
        self._logger = log.get_logger(config.log_level)
        self._clock = given.clock or SystemClock()
        self._ids = given.ids or SystemIds()
        self.counters = Counters()
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
        self._tallies = GroupTallies(self._choice)
        self._loop_lag = LoopLag()
        self._site = site = take(config, self._ids, self.report)
        self._catalog, self.directory = site.catalog, site.directory
        with contextlib.ExitStack() as undo:
            undo.callback(site.data.close)
            policy = FlushPolicy(config.log_flush)
            self._journal = self._open_journal(policy)
            self._flusher = Flusher(
                policy, config.log_flush_interval_ms, self._journal, soon=self._soon
            )
            self.topics = self._make_topics()
            self.coordinator = self._make_coordinator(given)
            self.server = self._make_server(given)
            undo.pop_all()
        self.status = CoordinatorStatus(self.coordinator, self._loads)
        self.admin = CoordinatorAdmin(self.coordinator)
        self._http: HttpServer | None = None
        self._warming: asyncio.Task[None] | None = None

    def _open_journal(self, policy: FlushPolicy) -> Journal:
        """The journal, replayed: whatever the policy is now, it may not have been before."""
        config = self._config
        journal = Journal(
            config.log_dirs,
            owner=self._site.share.name,
            capacity=config.log_journal_bytes,
            writes=config.log_journal_bytes > 0,
            syncs=policy is FlushPolicy.COMMIT,
            report=self.report,
        )
        replay_all(journal, config.log_dirs, self.report)
        return journal

    def _make_topics(self) -> Topics:
        config = self._config
        return Topics(
            self._catalog,
            Directories(
                config.log_dirs,
                segment_bytes=config.log_segment_bytes,
                segment_ms=config.log_roll_ms,
                journal=self._journal,
                share=self._site.share,
            ),
            self._flusher,
            self._clock,
            BatchRules(max_message_bytes=config.message_max_bytes),
            auto_create_max=config.auto_create_topics_max,
        )

    def _make_coordinator(self, given: Substitutes) -> Coordinator:
        config = self._config
        loop = asyncio.get_running_loop()
        storage = given.storage or self._make_storage()
        make_timers = given.timers or LoopTimers
        world = World(
            clock=self._clock,
            ids=self._ids,
            timers=make_timers(loop, self._clock),
            limits=limits(config, storage.max_append_bytes),
            observe=self._make_fanout(given.observer).publish,
            log_bug=self._log_bug,
            write_timeout_ms=config.offsets_commit_timeout_ms,
            counters=self.counters,
            soon=self._soon,
            fold_refusal=self.refusals.fold,
            jitter=lambda: uniform(0.8, 1.2),  # noqa: S311 - spreads retries, guards nothing
        )
        partitions, ours = config.offsets_topic_num_partitions, self._site.share.has
        coordinator = Coordinator(partitions, storage, world, self.report, ours)
        self._sweeper = Sweeper(
            coordinator, world, config.offsets_retention_check_interval_ms, self.report
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
            self._site.data,
            self._flusher,
            partitions=topic.partitions,
            segment_bytes=self._config.offsets_topic_segment_bytes,
            topic_id=topic.topic_id,
            report=self.report,
            segment_ms=self._config.log_roll_ms,
            journal=self._journal,
            max_append_bytes=MAX_APPEND_BYTES,
            share=self._site.share,
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
                self._site.share.name,
            )
        return storage

    def _make_fanout(self, observer: Observer | None) -> Fanout:
        observers: list[Observer] = [
            self.counters.observe,
            self.timeline.observe,
            self.refusals.observe,
            self.flapping.observe,
            self.events.observe,
            GroupLines(self._config.log_level).observe,
        ]
        if self._choice.allow is not None:
            observers.append(self._tallies.observe)
        if observer is not None:
            observers.append(observer)
        return Fanout(observers, self._observer_failed)

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
        self.session_context = SessionContext(services, self.counters, self.report, given.faults)
        sockets = self._site.sockets
        return SocketServer(self.session_context, Anonymous(), SystemClock(), self._soon, sockets)

    # --- start and stop ---

    async def start(self) -> None:
        """Open the listeners and load the partitions, which are served as they come.

        Raises OSError; nothing is left open then.
        """
        try:
            for name, port in self.server.bind().items():
                self.directory.bound(name, port)
            await self.coordinator.start()
            self._sweeper.start()
            self._watch.start()
            if self._cleaner is not None:
                self._cleaner.start()
            await self.server.serve()
            await self._start_http()
            self._warming = asyncio.create_task(_import_apis())
        except BaseException:
            await self.stop()
            raise
        self.report(
            "server_started",
            version=__version__,
            node_id=self._site.node_id,
            cluster_id=self.directory.cluster_id,
            listeners={name: f"{n.host}:{n.port}" for name, n in self._advertised().items()},
            data=str(self._config.log_dirs),
        )

    async def _start_http(self) -> None:
        address = self._config.http_listener
        if address is None:
            return
        if _HTTP not in sys.modules:
            # Takes 200 ms of the interpreter: who waits for Kafka comes first.
            await asyncio.sleep(_BEFORE_HTTP_SECONDS)
            await asyncio.to_thread(import_module, _HTTP)
        from coordinator_server.observe.http import HttpServer
        from coordinator_server.scraping import Figures, make_exposition

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
        self._http = HttpServer(
            address.host,
            address.port,
            sources=self._sources(),
            exposition=make_exposition(self._config, figures),
            events=self.events,
            token=self._admin_token,
            given=self._site.http_socket,
            max_connections=self._config.http_max_connections,
            report=self.report,
        )
        await self._http.start()
        self._loop_lag.start()
        if self._admin_token is None and not address.is_loopback and not self._site.http_socket:
            self.report("http_readable_from_elsewhere_unasked", address=str(address))

    def _topic_sizes(self) -> Mapping[str, int]:
        return {name: topic.partitions for name, topic in self._catalog.topics().items()}

    def _sources(self) -> Sources:
        status, wall_ms = self.status, self._clock.wall_ms
        return Sources(status, self.timeline, self.refusals, self.flapping, wall_ms, self.admin)

    @property
    def http_port(self) -> int | None:
        """Where HTTP is served, if it is."""
        return None if self._http is None else self._http.port

    def create_topic(self, name: str, partitions: int) -> None:
        """Make a topic. Raises TopicError, OSError."""
        self._catalog.create([(name, partitions)])

    def port(self, listener: str = "PLAINTEXT") -> int:
        """The port of a listener, known from `start` on."""
        return self.server.ports[listener]

    def _advertised(self) -> dict[str, Node]:
        return {name: self.directory.this_node(name) for name in self.server.ports}

    async def stop(self) -> None:
        """Let nobody in, answer who waits, flush, close; members stay members."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                self.server.stop_accepting()
                if self._warming is not None:
                    self._warming.cancel()
                self._sweeper.stop()
                self._watch.stop()
                self.topics.release()
                if self._cleaner is not None:
                    await self._cleaner.stop()
                await self.coordinator.stop()
                self.server.begin_drain()
        except TimeoutError:
            self.report("stop_took_too_long", seconds=STOP_SECONDS)
        await self.server.close(1.0)
        self._loop_lag.stop()
        if self._http is not None:
            await self._http.stop()
        await self.topics.removals()
        await self._flusher.close()
        self.topics.close()
        await asyncio.to_thread(self._journal.close)
        self._site.data.close()

    # --- what parts report ---

    def report(self, event: str, **fields: object) -> None:
        """Write a line to the log; what went wrong is a warning."""
        log.report(self._logger, event, fields)

    def _log_bug(self, group_id: str, bug: TurnFailed) -> None:
        self._logger.error(
            "group_turn_failed",
            group=group_id,
            request=type(bug.event).__name__,
            exc_info=bug.__context__,
        )

    def _observer_failed(self, observer: Observer, error: Exception) -> None:
        self.counters.observer_failures += 1
        self._logger.error("observer_failed", observer=repr(observer), error=repr(error))
