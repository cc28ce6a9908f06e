"""Checks all invariants from outside the coordinator.

The checker sees requests, responses, the disk and the coordinator's observations. It does not
raise: it collects broken rules, and the simulator stops at the next step.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.classic.state import ClassicGroup, ClassicGroupState
from coordinator_server.group.effects import (
    Committed,
    Done,
    Effects,
    Fetched,
    Joined,
    Refuse,
    Result,
    Rule,
    Synced,
)
from coordinator_server.group.events import (
    CommitOffsets,
    Event,
    FetchOffsets,
    Heartbeat,
    Join,
    Sync,
)
from coordinator_server.group.group import Group
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.rebalance_events import (
    MemberRemoved,
    Observation,
    RebalanceEvent,
    RebalanceStarted,
)
from coordinator_server.observe.status import Census
from coordinator_server.runtime.status import CoordinatorStatus
from tests.simulation.clients import TOPIC
from tests.simulation.consumer import Consumer, partitions_of
from tests.simulation.ledger import Ledger
from tests.simulation.network import Request, describe
from tests.simulation.removal_rules import RemovalRules
from tests.simulation.retention import Retention
from tests.support.classic import classic_of, classic_or_none
from tests.support.offsets import fetched_offsets, offsets_of

if TYPE_CHECKING:
    from tests.simulation.log import Disk
    from tests.simulation.node import Node
    from tests.simulation.watched_actors import WatchedActor

_WRITE_TIMEOUT_MS = 5_000
_REBALANCING = (ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.COMPLETING_REBALANCE)


class InvariantChecker:
    """The checker for all nodes over all their processes."""

    def __init__(
        self,
        disk: "Disk",
        now: Callable[[], int],
        retention_ms: int,
        tell: Callable[[str], None] | None,
    ) -> None:
        self.broken: list[str] = []
        self.transcript: list[str] = []
        """Everything visible to clients and observers, in order; filled on request."""
        self.keeps_transcript = False
        self.unanswered: dict[int, tuple[Node, Request]] = {}
        self.ledgers = [Ledger(partition) for partition in disk.records]
        self._disk = disk
        self._now = now
        self._tell = tell
        self.removal_rules = RemovalRules(now, self.failed)
        self.retention = Retention(self.ledgers, retention_ms, self.failed)
        self._owners: dict[tuple[str, int, int], str] = {}
        """The member that owns a partition, by group, generation and partition."""
        self._floor: defaultdict[str, int] = defaultdict(lambda: -1)
        """The generation of each group's last answered SyncGroup."""
        self._told: dict[tuple[Node, str, int], int] = {}
        """The epoch of the tenure that issued it, by node, group and generation."""
        self._commits: defaultdict[Node, int] = defaultdict(int)
        """The number of offsets that a node has acknowledged in its current process."""
        self._under_way: defaultdict[tuple[Node, str], int] = defaultdict(int)
        """Rebalances that were announced and have not ended."""
        self._touched: set[WatchedActor] = set()
        """Nodes whose groups have had a turn since the last check."""
        self._turns: defaultdict[int, int] = defaultdict(int)
        self._seen: dict[tuple[Node, int], object] = {}
        """The state of a partition of a node at the last check."""

    # --- what the world and the nodes report ---

    def failed(self, what: str) -> None:
        """Record a failure."""
        self.broken.append(what)

    def told(self, line: str) -> None:
        if self._tell is not None:
            self._tell(line)

    def delivered(self, node: "Node", request: Request, partition: int) -> None:
        """Called when a request reaches the coordinator."""
        request.delivered_at = self._now()
        request.mark = len(self._disk.records[partition])
        request.floor = self._floor[request.group]
        request.load_number = node.loads[partition] if node.is_serving(partition) else -1
        self.unanswered[request.number] = (node, request)
        self.removal_rules.asked(node, request)
        self.retention.asked(request)

    def turned(self, actor: "WatchedActor", event: Event, effects: Effects) -> None:
        """Called after a group's turn, before any of its replies or records leave."""
        self._touched.add(actor)
        self._turns[actor.node] += 1
        self.removal_rules.turned(actor.group, effects)
        classic = classic_or_none(actor.group)
        if classic is not None and isinstance(event, Join | Sync):
            token: Any = event.token
            if any(token in (m.join_token, m.sync_token) for m in classic.members.values()):
                token.request.was_parked = True

    def topics_deleted(self, node: "Node", topics: frozenset[str]) -> None:
        """Called when a running node is notified of deleted topics."""
        self._turns[node.index] += 1
        self.retention.topics_deleted(node, topics)

    def started(self, node: "Node") -> None:
        """Called when a process starts."""
        self._commits[node] = 0
        self._told = {key: tenure for key, tenure in self._told.items() if key[0] is not node}
        self.retention.started(node)

    def died(self, node: "Node") -> None:
        """Called when a process ends: its parked requests get no answer."""
        self.unanswered = {n: (of, r) for n, (of, r) in self.unanswered.items() if of is not node}
        for key in [key for key in self._under_way if key[0] is node]:
            del self._under_way[key]
        self.retention.died(node)

    def loaded(self, node: "Node", partition: int) -> None:
        """Called when a partition has been loaded."""
        self.removal_rules.loaded(node, partition)
        self.retention.loaded(node, partition)

    def answered(self, node: "Node", request: Request, result: Result) -> None:
        """Called when the coordinator has answered a request."""
        request.answers += 1
        if request.answers > 1:
            self.failed(f"answered {request.answers} times: {request}")
        request.result = result
        self.unanswered.pop(request.number, None)
        if self.keeps_transcript or self._tell is not None:
            self._note(f"node {node.index} answers {request}: {describe(result)}")
        ledger = self._ledger(node, request.group)
        self.retention.answered(request, ledger)
        match result:
            case Committed():
                self._committed(node, request, result, ledger)
            case Fetched():
                self._fetched(request, result, ledger)
            case Synced():
                self._synced(node, request, result, ledger)
            case Joined():
                self.removal_rules.joined(node, request, result)
                self._joined(node, request, result, ledger)
            case Done() if isinstance(request.event, Heartbeat):
                self.removal_rules.beat(node, request)
            case Refuse():
                self._refused(node, request, result)
            case _:
                pass

    def observed(self, node: "Node", observation: Observation) -> None:
        """Called for each observation of the coordinator."""
        if self.keeps_transcript or self._tell is not None:
            self._note(f"node {node.index} observes {observation}")
        key = (node, observation.group_id)
        match observation:
            case RebalanceStarted():
                self._under_way[key] += 1
            case RebalanceEvent():
                self._under_way[key] -= 1
                if self._under_way[key] < 0:
                    self.failed(f"a rebalance ended that never began: {observation}")
            case MemberRemoved():
                self.removal_rules.removed(node, observation)

    def _note(self, line: str) -> None:
        self.told(line)
        if self.keeps_transcript:
            self.transcript.append(line)

    # --- answers ---

    def _ledger(self, node: "Node", group: str) -> Ledger:
        return self.ledgers[node.coordinator.partition_for(group)].read()

    def _committed(self, node: "Node", request: Request, result: Committed, ledger: Ledger) -> None:
        event = request.event
        if not isinstance(event, CommitOffsets):
            return
        self._commits[node] += result.errors.count(ErrorCode.NONE)
        if 0 <= event.generation < request.floor:
            self.failed(f"generation {request.floor} had begun, yet accepted: {request}")
        for offset, error in zip(offsets_of(event), result.errors, strict=True):
            place = (request.group, offset.topic, offset.partition)
            if error is ErrorCode.NONE and not ledger.has(place, offset.offset):
                self.failed(f"acknowledged, but not in the log: {request}")

    def _fetched(self, request: Request, result: Fetched, ledger: Ledger) -> None:
        if not isinstance(request.event, FetchOffsets):
            return
        for topic, fetched in fetched_offsets(result):
            place = (request.group, topic, fetched.partition)
            possible = ledger.since(place, request.mark)
            if fetched.error is ErrorCode.NONE and fetched.offset not in possible:
                self.failed(f"fetched {fetched.offset} of {possible}: {request}")

    def _synced(self, node: "Node", request: Request, result: Synced, ledger: Ledger) -> None:
        event, group = request.event, request.group
        if not isinstance(event, Sync):
            return
        self.removal_rules.synced(node, request, event.member_id)
        self._follow_deletions()
        written = ledger.assignments.get((group, event.generation), {})
        if written.get(event.member_id) != result.assignment:
            self.failed(f"assigned {result.assignment!r}, the log says {written}: {request}")
        if event.generation < self._floor[group]:
            self.failed(f"generation {self._floor[group]} was answered before: {request}")
        self._floor[group] = event.generation
        owner = event.group_instance_id or event.member_id
        for partition in partitions_of(result.assignment):
            key = (group, event.generation, partition)
            if self._owners.setdefault(key, owner) != owner:
                self.failed(f"partition {partition} belongs to {self._owners[key]}: {request}")

    def _joined(self, node: "Node", request: Request, result: Joined, ledger: Ledger) -> None:
        """The number of a lost generation is not reused in the same process."""
        self._follow_deletions()
        group, generation = request.group, result.generation
        tenure = node.epoch(node.coordinator.partition_for(group))
        if not ledger.has_record_of(group):
            self._begins_anew(node, group, tenure)
        told = self._told.setdefault((node, group, generation), tenure)
        if told != tenure and (group, generation) not in ledger.assignments:
            self.failed(f"generation {generation} was lost, and is used again: {request}")

    def _begins_anew(self, node: "Node", group: str, tenure: int) -> None:
        """A group the log does not have begins anew, with members nobody has told of before.

        Offsets alone do not say whether it did: they may have been committed since.
        """
        self._told = {
            of: told for of, told in self._told.items() if of[:2] != (node, group) or told == tenure
        }

    def _refused(self, node: "Node", request: Request, refusal: Refuse) -> None:
        event = request.event
        if refusal.error is ErrorCode.REBALANCE_IN_PROGRESS and isinstance(event, Heartbeat):
            self.removal_rules.beat(node, request)
        if refusal.rule is Rule.MEMBER_REMOVED and isinstance(event, Join | Sync):
            member_id = event.member_id or self._new_member_of(refusal)
            self.removal_rules.removed_while_waiting(node, request, member_id)

    def _new_member_of(self, refusal: Refuse) -> str:
        """Parse the id of an old client, which never received it, from the text."""
        return refusal.detail.split("'")[1] if "'" in refusal.detail else ""

    # --- what is looked at after every step ---

    def inspect(self, nodes: Sequence["Node"]) -> None:
        """Everything that is always true between two callbacks, or whenever a node is idle.

        What has not changed since the last look is not looked at again.
        """
        self._follow_deletions()
        while self._touched:
            actor = self._touched.pop()
            for rule in () if actor.is_over else actor.group.broken_rules():
                self.failed(f"{actor.group.group_id}: {rule}")
        for node in nodes:
            node.look_at_tenures()
            if node.loop.is_idle:
                self._inspect_idle(node)

    def _follow_deletions(self) -> None:
        """A deleted group starts again without assignments."""
        for partition, ledger in enumerate(self.ledgers):
            if not ledger.read().has_news:
                continue
            for what in ledger.take_broken():
                self.failed(what)
            for erasure in ledger.take_erased():
                self.retention.erased(partition, erasure)
            for group in ledger.take_deleted():
                self._floor[group] = -1
                self._owners = {of: who for of, who in self._owners.items() if of[0] != group}
                self._told = {of: tenure for of, tenure in self._told.items() if of[1] != group}

    def _inspect_idle(self, node: "Node") -> None:
        for partition in range(len(self.ledgers)):
            oldest = self._disk.oldest_write(node.index, partition, node.epoch(partition))
            if oldest is not None and self._now() - oldest >= _WRITE_TIMEOUT_MS:
                self.failed(f"an append of {oldest} is awaited at {self._now()}")
            groups = node.groups(partition)
            for group_id, group in groups.items():
                if group.next_deadline() <= self._now():
                    self.failed(f"{group_id}: a deadline has passed and nothing has happened")
            is_settled = oldest is None and not self._disk.writes_under_way(node.index, partition)
            is_current = is_settled and node.is_current(partition)
            seen = (
                self._turns[node.index],
                node.loads[partition],
                self._disk.epochs[partition],
                len(self._disk.records[partition]),
                is_settled,
            )
            if self._seen.get((node, partition)) != seen:
                self._seen[node, partition] = seen
                self._inspect_changed(node, partition, groups, is_settled, is_current)

    def _inspect_changed(
        self,
        node: "Node",
        partition: int,
        groups: dict[str, Group],
        is_settled: bool,
        is_current: bool,
    ) -> None:
        """Check groups that may have changed on an idle node; its log may be idle, too."""
        if is_current and node.is_serving(partition):
            self.retention.settled(node, partition)
        if node.counters.offset_commits != self._commits[node]:
            counted, answered = node.counters.offset_commits, self._commits[node]
            self.failed(f"{counted} commits were counted, {answered} acknowledged")
        for group_id, group in groups.items():
            if group.kind is not None and (late := overdue(classic_of(group), self._now())):
                self.failed(f"{group_id}: {late}")
            if is_settled and group.is_vacant:
                self.failed(f"{group_id} does not exist, and is kept in memory")
            if is_settled and is_rebalancing(group) != (
                node.timeline.current(group_id) is not None
            ):
                self.failed(f"{group_id}: the gauge of rebalances does not agree with its state")
            if is_current:
                for difference in self.ledgers[partition].read().differences(group_id, group):
                    self.failed(f"{group_id}: {difference}")

    @property
    def rebalances_are_under_way(self) -> bool:
        """Whether an announced rebalance has not ended."""
        return any(self._under_way.values())

    def inspect_end(self, nodes: Sequence["Node"]) -> None:
        """Check the final state: no open requests, rebalances or appends."""
        for _, request in self.unanswered.values():
            self.failed(f"never answered: {request}")
        for (node, group), number in self._under_way.items():
            if number:
                self.failed(f"node {node.index}: {number} rebalances of {group} never ended")
        for node in nodes:
            for partition, ledger in enumerate(self.ledgers):
                missing = ledger.read().groups() - node.groups(partition).keys()
                if node.is_serving(partition) and missing:
                    self.failed(f"in the log, but not in memory: {missing}")
            self._inspect_gauges(node)

    def _inspect_gauges(self, node: "Node") -> None:
        status = CoordinatorStatus(node.coordinator)
        served = [ledger for p, ledger in enumerate(self.ledgers) if node.is_serving(p)]
        offsets = sum(ledger.offset_count() for ledger in served)
        counted = Census.whole(status.census()).offsets
        if counted != offsets:
            self.failed(f"the gauge of offsets is {counted}, not {offsets}")


def is_rebalancing(group: Group) -> bool:
    return group.kind is not None and classic_of(group).state in _REBALANCING


def overdue(group: ClassicGroup, now: int) -> str:
    """Deadlines of the group that have passed without effect."""
    for member in group.members.values():
        if member.session_deadline <= now and not member.waits:
            return f"the session of {member.member_id!r} ended at {member.session_deadline}"
        if member.is_new and member.session_deadline == NEVER:
            return f"the new member {member.member_id!r} may wait for ever"
    late = [member_id for member_id, p in group.pending.items() if p.session_deadline <= now]
    if late:
        return f"pending ids {late} were not forgotten"
    return ""


def unsettled(group: ClassicGroup | None, live: dict[str, Consumer]) -> str:
    """The reason for which a group is not Stable with exactly these members; "" if it is."""
    members = set() if group is None else set(group.members)
    if not live:
        return f"nobody is there, members are {members}" if members else ""
    if group is None or group.state is not ClassicGroupState.STABLE:
        return f"the group is {group.state if group else 'unknown'}"
    if members != live.keys():
        return f"members are {members}, clients are {set(live)}"
    for member_id, client in live.items():
        if client.phase.value != "stable" or client.generation != group.generation:
            return f"{member_id} is {client.phase.value} in generation {client.generation}"
        if client.will_join:
            return f"{member_id} was told to join again, and will"
    owned = sorted(partition for client in live.values() for partition in client.assigned)
    everything = list(range(next(iter(live.values())).partitions))
    return "" if owned == everything else f"{TOPIC} partitions owned: {owned}"
