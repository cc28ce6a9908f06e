"""A server process without the network layer: the real coordinator on a virtual loop."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coordinator_server.group.context import Limits
from coordinator_server.group.effects import DONE, Fetched, Result
from coordinator_server.group.events import CommitOffsets, Event, FetchOffsets, Heartbeat
from coordinator_server.group.group import Group, TurnFailed
from coordinator_server.group.rebalance_events import Observation
from coordinator_server.ids import CountingIds
from coordinator_server.observe.counters import Counters
from coordinator_server.observe.timeline import Timeline
from coordinator_server.runtime.coordinator import Coordinator
from coordinator_server.runtime.dependencies import RuntimeDependencies
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.runtime.sweeper import Sweeper
from coordinator_server.runtime.ticket import CallbackTicket, Ticket
from tests.simulation.log import Disk, VirtualStorage
from tests.simulation.loop import VirtualClock, VirtualLoop, VirtualTimers
from tests.simulation.network import Connection, Request

if TYPE_CHECKING:
    from tests.simulation.invariants import InvariantChecker

INJECTED = ("OSError:", "OutcomeUnknown:", "Fenced:", "TimeoutError:")
"""Errors that the simulation injects; any other error is a bug."""

SWEEP_MS = 15_000


class RequestTicket(CallbackTicket):
    """A ticket that knows its request."""

    __slots__ = ("request",)

    def __init__(self, deliver: Callable[[Result], None], request: Request) -> None:
        super().__init__(deliver)
        self.request = request


class ObservedCoordinator(Coordinator):
    """Reports assigned partitions and deleted topics to the checker."""

    def __init__(self, node: "Node", checker: "InvariantChecker", *parts: Any) -> None:
        super().__init__(*parts)
        self._node = node
        self._judge = checker

    async def _on_assigned(self, partition: int) -> None:
        if self.partitions[partition].state in (PartitionState.INITIAL, PartitionState.CLOSED):
            self._judge.retention.assigned(self._node, partition)
        await super()._on_assigned(partition)

    def forget_topics(self, topics: frozenset[str]) -> None:
        self._judge.topics_deleted(self._node, topics)
        super().forget_topics(topics)


class ObservedSweeper(Sweeper):
    """Reports each sweep, and whether its counter says that it was skipped."""

    def __init__(self, node: "Node", checker: "InvariantChecker", *parts: Any) -> None:
        super().__init__(*parts)
        self._node = node
        self._judge = checker

    def sweep(self) -> None:
        before = self._node.counters.sweeps_skipped
        super().sweep()
        self._judge.retention.swept(self._node, self._node.counters.sweeps_skipped - before)


class Node:
    """A node that can start, crash and stop; its durable state is on the disk."""

    def __init__(
        self,
        index: int,
        disk: Disk,
        clock: VirtualClock,
        ids: CountingIds,
        limits: Limits,
        checker: "InvariantChecker",
        jitter: Callable[[], float],
    ) -> None:
        self.index = index
        self.accepts = False
        """Whether the process runs and accepts connections and requests."""
        self.loads: list[int] = [0] * len(disk.records)
        """The number of tenures of each partition, over all processes of the node."""
        self._disk = disk
        self._clock = clock
        self._ids = ids
        self._limits = replace(limits, max_append_bytes=disk.max_append_bytes)
        self._judge = checker
        self._jitter = jitter
        self._life = 0
        self.is_new = True
        """Whether this process was never started."""
        self._start_over()

    def _start_over(self) -> None:
        self._life += 1
        self.is_new = True
        self.loop = VirtualLoop(self._clock, self._judge.failed)
        self.storage = VirtualStorage(self._disk, self.index, self.loop)
        self.counters = Counters()
        self.timeline = Timeline()
        surroundings = RuntimeDependencies(
            clock=self._clock,
            ids=self._ids,
            timers=VirtualTimers(self.loop),
            limits=self._limits,
            observe=self._while_alive(self._observe),
            log_bug=self._log_bug,
            counters=self.counters,
            jitter=self._jitter,
        )
        checker, report = self._judge, self._report
        self.coordinator = ObservedCoordinator(
            self, checker, len(self._disk.records), self.storage, surroundings, report
        )
        self.sweeper = ObservedSweeper(
            self, checker, self.coordinator, surroundings, SWEEP_MS, report
        )
        self._tenures: list[object] = [None] * len(self._disk.records)

    # --- life and death ---

    def start(self) -> None:
        self.accepts, self.is_new = True, False
        self._judge.started(self)
        self.loop.spawn(self.coordinator.start())
        self.loop.enter(self.sweeper.start)

    def start_again(self) -> None:
        """Start a new process after a stop or a crash."""
        if not self.is_new:
            self.crash(0)
        self.start()

    def crash(self, survive: int) -> None:
        """Lose power: memory is lost, and all appends in progress except `survive`."""
        self.accepts = False
        self._disk.power_off(self.index, survive)
        self._life += 1
        self.loop.kill()
        self._disk.power_off(self.index, 0)
        self._start_over()

    def stop(self) -> None:
        """Handle SIGTERM: accept no new requests, finish the current ones."""
        self.accepts = False
        self.sweeper.stop()
        self.loop.spawn(self.coordinator.stop())

    @property
    def has_stopped(self) -> bool:
        return not self.accepts and all(
            partition.state in (PartitionState.CLOSED, PartitionState.INITIAL)
            for partition in self.coordinator.partitions
        )

    # --- work ---

    def serve(self, connection: Connection, request: Request) -> None:
        """Submit a decoded request as the session and the API handler do."""
        life = self._life

        def deliver(result: Result) -> None:
            if life == self._life:
                self._judge.answered(self, request, result)
                connection.answered(request)
                connection.go_on(self.serve)

        partition = self.coordinator.partition_for(request.group)
        self._judge.delivered(self, request, partition)
        if hasattr(request.event, "token"):
            request.event.token = RequestTicket(deliver, request)
        self.loop.enter(self._submit, request.group, request.event)

    def _submit(self, group: str, event: Event) -> None:
        """Use the fast paths of heartbeats and fetches, and every other time that of commits."""
        now = self._clock.monotonic_ms()
        if isinstance(event, FetchOffsets):
            found = self.coordinator.fetched(group, event)
            if found is not None:
                assert isinstance(event.token, Ticket)
                event.token.resolve(Fetched(found))
                return
        if isinstance(event, CommitOffsets) and self._commit_again(group, event, now):
            return
        if isinstance(event, Heartbeat) and self.coordinator.renew(
            group, event.member_id, event.group_instance_id, event.generation, now
        ):
            assert isinstance(event.token, Ticket)
            event.token.resolve(DONE)
        else:
            self.coordinator.submit(group, event)

    def _commit_again(self, group: str, event: CommitOffsets, now: int) -> bool:
        offsets = [p.committed_offset for topic in event.topics for p in topic.partitions]
        if sum(offsets) % 2 or event.retention_ms != -1:
            return False
        read = [offset.to_bytes(8, "big", signed=True) for offset in offsets]
        return self.coordinator.recommittal(group, event).make(read, event.token, now)

    def topic_deleted(self, topic: str) -> None:
        """Notify a running node; a stopped one is not notified later, as in Kafka."""
        if self.accepts:
            self.loop.enter(self.sweeper.topic_deleted, topic)

    def groups(self, partition: int) -> dict[str, Group]:
        """The groups of a partition that is being served, vacant ones included."""
        tenure = self.coordinator.partitions[partition].tenure
        if tenure is None or tenure.ended:
            return {}
        return {group_id: actor.group for group_id, actor in tenure.actors.items()}

    def look_at_tenures(self) -> None:
        """Report partitions that have been loaded since the last call."""
        for index, partition in enumerate(self.coordinator.partitions):
            if partition.tenure is not self._tenures[index]:
                self._tenures[index] = partition.tenure
                if partition.tenure is not None:
                    self.loads[index] += 1
                    self._judge.loaded(self, index)

    def is_serving(self, partition: int) -> bool:
        return self.coordinator.partitions[partition].state is PartitionState.ACTIVE

    def is_current(self, partition: int) -> bool:
        tenure = self.coordinator.partitions[partition].tenure
        return tenure is not None and tenure.log.is_current()

    def epoch(self, partition: int) -> int:
        """The epoch of the tenure, 0 if there is none."""
        tenure = self.coordinator.partitions[partition].tenure
        return 0 if tenure is None else tenure.log.epoch

    # --- what the coordinator says ---

    def _while_alive(self, hear: Callable[[Observation], None]) -> Callable[[Observation], None]:
        life = self._life

        def hear_if_alive(observation: Observation) -> None:
            if life == self._life:
                hear(observation)

        return hear_if_alive

    def _observe(self, observation: Observation) -> None:
        self.counters.observe(observation)
        self.timeline.observe(observation)
        self._judge.observed(self, observation)

    def _log_bug(self, group_id: str, bug: TurnFailed) -> None:
        cause = bug.__context__
        self._judge.failed(f"a turn of {group_id} raised {type(cause).__name__}: {cause}")

    def _report(self, event: str, **fields: object) -> None:
        self._judge.told(f"node {self.index}: {event} {fields}")
        error = str(fields.get("error", ""))
        if error and not (error.startswith(INJECTED) or error == "injected"):
            self._judge.failed(f"{event}: {error}")
