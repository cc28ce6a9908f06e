"""Simulates nodes, clients, network, disk and time, with faults, from a seed.

`play` executes one step of a script; the invariant checker runs after each step. The same setup
and steps give the same transcript. The runtime is the shipped code, on a loop that runs only when
a step requests it, so that requests, responses of the log, crashes and the passing of time fall
between any two callbacks.
"""

import random
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Self

from coordinator_server.group.context import Limits
from coordinator_server.group.events import Event
from coordinator_server.group.purgatory import NEVER
from coordinator_server.ids import CountingIds
from tests.simulation import faults
from tests.simulation.clients import MAX_APPEND_BYTES, Admin, Client
from tests.simulation.consumer import Consumer, Phase
from tests.simulation.consumer_kinds import kind_of
from tests.simulation.disk_behavior import DiskBehavior
from tests.simulation.history import transactions_of
from tests.simulation.invariants import InvariantChecker, unsettled
from tests.simulation.log import Disk
from tests.simulation.loop import VirtualClock
from tests.simulation.network import Connection, Network, Request
from tests.simulation.node import Node
from tests.simulation.script import Act, Setup, Step
from tests.simulation.watched_actors import watched_runtime
from tests.support.classic import classic_or_none

MAX_CONSUMERS = 8
SETTLES_WITHIN_MS = 40 * 60 * 1000
"""Longer than any chain of timeouts of the simulated clients."""

_SPANS_MS = (1, 10, 100, 1_000, 3_000, 5_500, 12_000, 31_000, 61_000, 301_000)
_LIVES_MS = (100, 1_000, 5_000, 20_000)
_LATENCIES_MS = (0, 0, 20, 4_000)
_ROUNDS = 2_000
_HALF_HOUR_MS = 30 * 60 * 1000
_DAY_MS = 24 * 60 * 60 * 1000
_JUMPS_MS = (-_DAY_MS, _DAY_MS, -_HALF_HOUR_MS, _HALF_HOUR_MS)


class Broken(AssertionError):
    """The checker has found a broken rule."""


class Simulator:
    """Executes steps; a context manager, which patches the actors meanwhile."""

    def __init__(self, setup: Setup, *, telling: bool = False) -> None:
        self.setup = setup
        self.steps: list[str] = []
        self.telling = telling
        self.clock = VirtualClock()
        self.disk = Disk(setup.partitions, MAX_APPEND_BYTES)
        self.checker = InvariantChecker(
            self.disk, self.now, setup.retention_ms, self.tell if telling else None
        )
        self.network = Network()
        limits = Limits(
            setup.initial_delay_ms,
            group_max_size=setup.group_max_size,
            offsets_retention_ms=setup.retention_ms,
        )
        ids = CountingIds()
        jitter = partial(random.Random(0).uniform, 0.8, 1.2)
        self.nodes = [
            Node(index, self.disk, self.clock, ids, limits, self.checker, jitter)
            for index in range(setup.nodes)
        ]
        self.groups = [f"group-{index}" for index in range(setup.groups)]
        self.consumers: list[Consumer] = []
        self.admins = [
            Admin(f"admin-{index}", group, self, setup.topic_partitions, ["static-0", "static-1"])
            for index, group in enumerate(self.groups)
        ]
        self._offsets = count(1)
        checker = self.checker
        self._runtime = watched_runtime(checker.turned, checker.failed, mailbox=setup.mailbox)
        self._acts: dict[Act, Callable[[int, int], None]] = {
            Act.DELIVER: self._deliver,
            Act.RUN: self._run_one,
            Act.IDLE: self._run_all,
            Act.DISK: self._disk,
            Act.TIME: self._time,
            Act.LIVE: self._live,
            Act.NUDGE: self._nudge,
            Act.ARRIVE: self._arrive,
            Act.KILL: partial(faults.kill, self),
            Act.FREEZE: partial(faults.freeze, self),
            Act.DROP: partial(faults.drop, self),
            Act.FAIL: partial(faults.fail, self),
            Act.CRASH: partial(faults.crash, self),
            Act.STOP: partial(faults.stop, self),
            Act.START: partial(faults.start, self),
            Act.MOVE: partial(faults.move, self),
            Act.STALL: self._stall,
            Act.WALL: self._wall,
            Act.TOPIC: partial(faults.delete_topic, self),
        }

    def __enter__(self) -> Self:
        self._runtime.__enter__()
        for partition in range(self.setup.partitions):
            self.disk.owners[partition] = partition % self.setup.nodes
        if self.setup.open_transactions:
            for group in self.groups:
                history = transactions_of(group, self.clock.wall_ms())
                self.disk.write(self._partition(group), 0, history)
        for node in self.nodes:
            node.start()
        for number, kind in enumerate(self.setup.kinds):
            self._arrive(number, kind)
        return self

    def __exit__(self, *_error: object) -> None:
        for node in self.nodes:
            node.loop.kill()
        self._runtime.__exit__(None, None, None)

    # --- steps ---

    def play(self, step: Step) -> None:
        """Execute one step. Raises Broken."""
        self._acts[step.act](step.who, step.how)
        self._refuse_connections()
        if self.setup.lockstep:
            self._run_all(0, 0)
        self.check()

    def check(self) -> None:
        """Check the invariants. Raises Broken."""
        self.checker.inspect([node for node in self.nodes if node.accepts])
        self._raise_if_broken()

    def _raise_if_broken(self) -> None:
        if self.checker.broken:
            for what in self.checker.broken:
                self.tell(f"BROKEN: {what}")
            raise Broken(self.checker.broken[0])

    def tell(self, line: str) -> None:
        if self.telling:
            self.steps.append(f"{(self.now() - 1_000_000) / 1000:10.3f}  {line}")

    # --- what clients can do ---

    def now(self) -> int:
        return self.clock.monotonic_ms()

    def send(self, client: Client, event: Event) -> Request:
        if client.connection is None:
            owner = self.disk.owners[self._partition(client.group)]
            client.connection = self.network.connect(client, self.nodes[max(owner, 0)])
        request = self.network.request(client.connection, client.group, event, self.now())
        if self.telling:
            self.tell(f"{client.name} sends {request}")
        return request

    def abandon(self, client: Client) -> None:
        client.connection = None

    def hang_up(self, client: Client) -> None:
        if client.connection is not None:
            self.tell(f"{client.name} hangs up")
            self.network.drop(client.connection)

    def next_offset(self) -> int:
        return next(self._offsets)

    def _partition(self, group: str) -> int:
        return self.nodes[0].coordinator.partition_for(group)

    # --- ordinary life ---

    def _deliver(self, who: int, _how: int) -> None:
        deliverable = self.network.deliverable()
        if deliverable:
            self._deliver_one(*deliverable[who % len(deliverable)])

    def _deliver_one(self, connection: Connection, is_answer: bool) -> None:
        if is_answer:
            request = connection.to_client.popleft()
            self.tell(f"{connection.client.name} hears of #{request.number}")
            assert request.result is not None
            connection.client.receive(request, request.result)
        else:
            self.tell(f"#{connection.to_server[0].number} arrives at node {connection.node.index}")
            connection.deliver_request(connection.node.serve)

    def _refuse_connections(self) -> None:
        """Drop connections to nodes that do not accept requests."""
        if all(node.accepts for node in self.nodes):
            return
        for connection in [c for c in self.network.connections if not c.node.accepts]:
            if connection.to_server and not connection.in_progress:
                self.network.drop(connection)

    def _run_one(self, who: int, _how: int) -> None:
        self.nodes[who % len(self.nodes)].loop.run_one()

    def _run_all(self, _who: int, _how: int) -> None:
        for node in self.nodes:
            node.loop.run()

    def _disk(self, who: int, _how: int) -> None:
        operations = self.disk.next_operations()
        if self.setup.late_news and who % 8:
            operations = [operation for operation in operations if not operation.is_loss]
        if operations:
            operation = operations[who % len(operations)]
            self.tell(f"the disk has done the {operation}")
            self.disk.complete(operation)

    def _nudge(self, who: int, how: int) -> None:
        clients = [*self.consumers, *self.consumers, *self.admins]
        client = clients[who % len(clients)]
        client.nudge(how)
        client.changed()

    def _arrive(self, who: int, how: int) -> None:
        if len(self.consumers) >= MAX_CONSUMERS:
            return
        number = len(self.consumers)
        group = self.groups[who % len(self.groups)]
        consumer = Consumer(
            f"consumer-{number}", group, self, kind_of(how), self.setup.topic_partitions
        )
        self.tell(f"{consumer.name} arrives in {group}: {consumer.kind}")
        self.consumers.append(consumer)

    # --- time ---

    def _time(self, who: int, how: int) -> None:
        """Advance the time; timers fire when due, clients and disk do nothing."""
        span = _SPANS_MS[min(who % len(_SPANS_MS), how % len(_SPANS_MS))]
        target = self.now() + span
        self.tell(f"{span} ms pass")
        while (due := self._next_timer()) <= target:
            self.clock.advance_to(due)
            self._run_all(0, 0)
            self.check()
        self.clock.advance_to(target)
        self._run_all(0, 0)

    def _stall(self, who: int, how: int) -> None:
        """Advance the time without running anything, like a paused machine or a long GC."""
        span = _SPANS_MS[min(who % len(_SPANS_MS), how % len(_SPANS_MS))]
        self.tell(f"the machine stands still for {span} ms")
        self.clock.advance_to(self.now() + span)

    def _wall(self, _who: int, how: int) -> None:
        """Jump by a day, which delays the sweep, or by half an hour, which does not."""
        jump = _JUMPS_MS[how % len(_JUMPS_MS)]
        self.tell(f"the wall clock jumps by {jump} ms")
        self.clock.jump_wall(jump)
        self.checker.retention.clock_jumped(jump)

    def _next_timer(self) -> int:
        return min((node.loop.next_timer() or NEVER for node in self.nodes), default=NEVER)

    def _live(self, who: int, how: int) -> None:
        late = self.setup.late_news or who // 4 % 2 == 1
        disk_behavior = DiskBehavior(random.Random(how), _LATENCIES_MS[who % 4], late_news=late)
        self.live(_LIVES_MS[how % len(_LIVES_MS)], disk_behavior)

    def live(
        self, span: int, disk_behavior: DiskBehavior, until: Callable[[], bool] = lambda: False
    ) -> None:
        """Run clients, network, disk and timers whenever they are due."""
        self.tell(f"life goes on for {span} ms, the disk takes {disk_behavior.latency_ms} ms")
        end = self.now() + span
        while not until():
            for _ in range(_ROUNDS):
                if not self._live_for_a_moment(disk_behavior):
                    break
            else:
                self.checker.failed(f"much happens and time stands still at {self.now()}")
            self.check()
            dues = [client.due for client in (*self.consumers, *self.admins)]
            dues += [
                o.begun + disk_behavior.latency_ms for o in disk_behavior.operations(self.disk)
            ]
            due = min(self._next_timer(), *dues, NEVER)
            if due > end:
                self.clock.advance_to(end)
                self._run_all(0, 0)
                return
            self.clock.advance_to(due)

    def _live_for_a_moment(self, disk_behavior: DiskBehavior) -> bool:
        self._raise_if_broken()
        self._refuse_connections()
        ran = sum(node.loop.run() for node in self.nodes if not node.loop.is_idle)
        deliverable = self.network.deliverable()
        if deliverable:
            self._deliver_one(*disk_behavior.chance.choice(deliverable))
            return True
        latest = self.now() - disk_behavior.latency_ms
        operations = [o for o in disk_behavior.operations(self.disk) if o.begun <= latest]
        if operations:
            self.disk.complete(disk_behavior.chance.choice(operations))
            return True
        now = self.now()
        ready = [c for c in (*self.consumers, *self.admins) if c.due <= now]
        if ready:
            client = disk_behavior.chance.choice(ready)
            client.act()
            client.changed()
            return True
        return ran > 0

    # --- the end ---

    def settle(self) -> None:
        """Switch faults off; every group must settle in bounded time. Raises Broken."""
        self.tell("--- faults are off ---")
        disk_behavior = DiskBehavior(random.Random(0))
        for consumer in self.consumers:
            consumer.frozen = False
            consumer.changed()
        self.live(10_000, disk_behavior)
        for node in self.nodes:
            faults.start(self, node.index, 0)
        self.live(SETTLES_WITHIN_MS, disk_behavior, lambda: not self._unsettled())
        if any(consumer.kind.forgets_its_id for consumer in self.consumers):
            self._settle_without_busy_consumers(disk_behavior)
        for what in self._unsettled():
            self.checker.failed(f"not settled after {SETTLES_WITHIN_MS} ms: {what}")
        self.live(0, disk_behavior)
        self.checker.inspect_end(self.nodes)
        self._raise_if_broken()

    def _settle_without_busy_consumers(self, disk_behavior: DiskBehavior) -> None:
        """Let busy consumers act: a client that loses its id can miss every generation."""
        for consumer in self.consumers if self._unsettled() else ():
            consumer.take_time()
            consumer.changed()
        self.live(SETTLES_WITHIN_MS, disk_behavior, lambda: not self._unsettled())

    def restart_all(self) -> None:
        """Restart all nodes; the durable records must suffice."""
        for node in self.nodes:
            faults.crash(self, node.index, 0)
            faults.start(self, node.index, 0)
        disk_behavior = DiskBehavior(random.Random(0))
        self.live(0, disk_behavior)
        # A group that was loaded with more members than it may have rebalances.
        if self.checker.rebalances_are_under_way:
            self.live(
                SETTLES_WITHIN_MS, disk_behavior, lambda: not self.checker.rebalances_are_under_way
            )
        self.live(1_000, disk_behavior)
        self.checker.inspect_end(self.nodes)
        self._raise_if_broken()

    def _unsettled(self) -> list[str]:
        return [f"{name}: {what}" for name in self.groups if (what := self._unsettled_group(name))]

    def _unsettled_group(self, name: str) -> str:
        node = self.nodes[self.disk.owners[self._partition(name)]]
        group = node.coordinator.group(name)
        live = {
            consumer.member_id: consumer
            for consumer in self.consumers
            if consumer.group == name and consumer.phase is not Phase.GONE
        }
        return unsettled(None if group is None else classic_or_none(group), live)
