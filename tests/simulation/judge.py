"""Looks at everything from outside and finds what must not happen.

It knows requests and answers, what is on the disk, and what the coordinator says of itself. It
never raises: what is wrong is collected, and the world stops at the next step.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coordinator_server.group.classic.state import ClassicGroup, ClassicGroupState
from coordinator_server.group.effects import (
    Committed,
    Done,
    Fetched,
    Joined,
    Refuse,
    Result,
    Rule,
    Synced,
)
from coordinator_server.group.events import (
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    Heartbeat,
    Join,
    Sync,
)
from coordinator_server.group.purgatory import NEVER
from coordinator_server.group.reasons import (
    MemberRemoved,
    Observation,
    RebalanceEvent,
    RebalanceStarted,
    RemovalReason,
)
from protocol.errors import ErrorCode
from tests.simulation.clients import ABANDONED_TOPIC, TOPIC
from tests.simulation.consumer import Consumer, partitions_of
from tests.simulation.ledger import Erasure, Ledger
from tests.simulation.network import Request, describe
from tests.support.offsets import fetched_offsets, offsets_of

if TYPE_CHECKING:
    from tests.simulation.log import Disk
    from tests.simulation.node import Node

_NEW_MEMBER_MS = 300_000
_WRITE_TIMEOUT_MS = 5_000

Member = tuple[int, str, str]
"""Node, group and member id: two nodes may have different views for a while."""


class Judge:
    """One for the whole world and all lives of all nodes."""

    def __init__(
        self,
        disk: "Disk",
        now: Callable[[], int],
        retention_ms: int,
        tell: Callable[[str], None] | None,
    ) -> None:
        self.broken: list[str] = []
        self.transcript: list[str] = []
        """Everything clients and observers could see, in order; filled if wanted."""
        self.keeps_transcript = False
        self.unanswered: dict[int, tuple[Node, Request]] = {}
        self.ledgers = [Ledger(partition) for partition in disk.records]
        self._disk = disk
        self._now = now
        self._tell = tell
        self._retention_ms = retention_ms
        self._owners: dict[tuple[str, int, int], str] = {}
        """Who was assigned a partition: by group, generation and partition."""
        self._floor: defaultdict[str, int] = defaultdict(lambda: -1)
        """The generation of each group's last answered SyncGroup."""
        self._alive_until: dict[Member, int] = {}
        """When a session may end at the earliest."""
        self._first_join: dict[Member, int] = {}
        self._told: set[Member] = set()
        """Who was ever told a generation."""
        self._deletions: defaultdict[str, dict[int, float]] = defaultdict(dict)
        """How long the log was when a request to delete something of a group was answered."""
        self._removed_while_waiting: dict[Member, Request] = {}
        self._under_way: defaultdict[tuple[Node, str], int] = defaultdict(int)
        """Rebalances that were announced and have not ended."""

    # --- what the world and the nodes report ---

    def failed(self, what: str) -> None:
        """Something went wrong in a way that needs no judgement."""
        self.broken.append(what)

    def told(self, line: str) -> None:
        if self._tell is not None:
            self._tell(line)

    def delivered(self, node: "Node", request: Request, partition: int) -> None:
        """A request has reached the coordinator."""
        request.delivered_at = self._now()
        request.mark = len(self._disk.records[partition])
        request.floor = self._floor[request.group]
        request.load_number = node.loads[partition] if node.is_serving(partition) else -1
        self.unanswered[request.number] = (node, request)
        if isinstance(request.event, DeleteGroup | DeleteOffsets):
            self._deletions[request.group][request.number] = math.inf
        if isinstance(request.event, Join):
            key = (node.index, request.group, request.event.member_id)
            self._first_join.setdefault(key, self._now())

    def died(self, node: "Node") -> None:
        """Requests in hand will never be answered, rebalances never end."""
        self.unanswered = {n: (of, r) for n, (of, r) in self.unanswered.items() if of is not node}
        for key in [key for key in self._under_way if key[0] is node]:
            del self._under_way[key]

    def loaded(self, node: "Node", partition: int) -> None:
        """Every member has a full session from now."""
        for group_id, group in node.groups(partition).items():
            if group.durable is not None:
                for member in group.durable.members:
                    key = (node.index, group_id, member.member_id)
                    self._lives(key, member.session_timeout)

    def answered(self, node: "Node", request: Request, result: Result) -> None:
        """The coordinator has answered a request."""
        request.answers += 1
        if request.answers > 1:
            self.failed(f"answered {request.answers} times: {request}")
        request.result = result
        self.unanswered.pop(request.number, None)
        if self.keeps_transcript or self._tell is not None:
            self._note(f"node {node.index} answers {request}: {describe(result)}")
        ledger = self._ledger(node, request.group)
        if request.number in self._deletions[request.group]:
            self._deletions[request.group][request.number] = ledger.length
        match result:
            case Committed():
                self._committed(request, result, ledger)
            case Fetched():
                self._fetched(request, result, ledger)
            case Synced():
                self._synced(node, request, result, ledger)
            case Joined():
                self._has_joined(node, request, result)
            case Done() if isinstance(request.event, Heartbeat):
                self._beat(node, request)
            case Refuse():
                self._refused(node, request, result)
            case _:
                pass

    def observed(self, node: "Node", observation: Observation) -> None:
        """The coordinator says what has happened to a group."""
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
                self._removed(node, observation)

    def _note(self, line: str) -> None:
        self.told(line)
        if self.keeps_transcript:
            self.transcript.append(line)

    # --- answers ---

    def _ledger(self, node: "Node", group: str) -> Ledger:
        return self.ledgers[node.coordinator.partition_for(group)].read()

    def _committed(self, request: Request, result: Committed, ledger: Ledger) -> None:
        event = request.event
        if not isinstance(event, CommitOffsets):
            return
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
        if request.was_parked and self._is_member(node, group, event.member_id):
            self._lives((node.index, group, event.member_id), self._session(request))
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

    def _has_joined(self, node: "Node", request: Request, result: Joined) -> None:
        if isinstance(request.event, DeleteGroup | DeleteOffsets):
            self._deletions[request.group][request.number] = math.inf
        if isinstance(request.event, Join):
            key = (node.index, request.group, result.member_id)
            self._told.add(key)
            # Answers to repeated requests renew nothing, as in Kafka.
            if request.was_parked and self._is_member(node, request.group, result.member_id):
                self._lives(key, self._session(request))

    def _refused(self, node: "Node", request: Request, refusal: Refuse) -> None:
        event = request.event
        if refusal.error is ErrorCode.REBALANCE_IN_PROGRESS and isinstance(event, Heartbeat):
            self._beat(node, request)
        if refusal.rule is Rule.MEMBER_REMOVED and isinstance(event, Join | Sync):
            member_id = event.member_id or self._new_member_of(refusal)
            self._removed_while_waiting[node.index, request.group, member_id] = request

    def _new_member_of(self, refusal: Refuse) -> str:
        """The id that an old client was given and never told of is in the text."""
        return refusal.detail.split("'")[1] if "'" in refusal.detail else ""

    # --- sessions ---

    def _session(self, request: Request) -> int:
        client = request.client
        return client.habits.session_ms if isinstance(client, Consumer) else 0

    def _is_member(self, node: "Node", group_id: str, member_id: str) -> bool:
        """After a standstill longer than its session it may be gone before its answer leaves."""
        group = node.coordinator.group(group_id)
        return (
            group is not None and group.classic is not None and member_id in group.classic.members
        )

    def _lives(self, member: Member, session_ms: int) -> None:
        self._alive_until[member] = self._now() + session_ms

    def _beat(self, node: "Node", request: Request) -> None:
        """A heartbeat counts from when it arrived, if the group itself answered it."""
        event = request.event
        partition = node.coordinator.partition_for(request.group)
        if isinstance(event, Heartbeat) and request.load_number == node.loads[partition]:
            key = (node.index, request.group, event.member_id)
            until = request.delivered_at + self._session(request)
            self._alive_until[key] = max(until, self._alive_until.get(key, 0))

    def _removed(self, node: "Node", removal: MemberRemoved) -> None:
        key = (node.index, removal.group_id, removal.member.member_id)
        waited = self._removed_while_waiting.pop(key, None)
        until = self._alive_until.pop(key, 0)
        if removal.reason is RemovalReason.SESSION_EXPIRED:
            if self._now() < until:
                self.failed(f"expired {until - self._now()} ms early: {removal}")
            if waited is not None and not self._may_expire(key, waited):
                self.failed(f"expired while it waited for {waited}: {removal}")
        elif removal.reason in (RemovalReason.JOIN_TIMEOUT, RemovalReason.SYNC_TIMEOUT):
            if waited is not None:
                self.failed(f"removed although it had done its part, {waited}: {removal}")
            if removal.reason is RemovalReason.JOIN_TIMEOUT and removal.member.group_instance_id:
                self.failed(f"a static member was removed for not joining: {removal}")

    def _may_expire(self, key: Member, waited: Request) -> bool:
        """Only members that never had an answer to JoinGroup, and after five minutes."""
        waits_since = self._first_join.get(key, waited.delivered_at)
        return (
            isinstance(waited.event, Join)
            and key not in self._told
            and self._now() - waits_since >= _NEW_MEMBER_MS
        )

    # --- what is looked at after every step ---

    def inspect(self, nodes: Sequence["Node"]) -> None:
        """Everything that is always true between two callbacks, or whenever a node is idle."""
        self._follow_deletions()
        self._note_parked()
        for node in nodes:
            node.look_at_tenures()
            for partition in range(len(self.ledgers)):
                groups = node.groups(partition)
                for group_id, group in groups.items():
                    for rule in group.broken_rules():
                        self.failed(f"{group_id}: {rule}")
                if node.loop.is_idle and groups:
                    self._inspect_idle(node, partition)

    def _note_parked(self) -> None:
        for node, request in self.unanswered.values():
            token = getattr(request.event, "token", None)
            group = node.coordinator.group(request.group)
            if isinstance(request.event, Join | Sync) and group and group.classic:
                members = group.classic.members.values()
                request.was_parked |= any(token in (m.join_token, m.sync_token) for m in members)

    def _follow_deletions(self) -> None:
        """A group that was deleted begins anew."""
        for ledger in self.ledgers:
            for erasure in ledger.read().take_erased():
                self._erased(erasure)
            for group in ledger.take_deleted():
                self._floor[group] = -1
                for key in [key for key in self._owners if key[0] == group]:
                    del self._owners[key]

    def _erased(self, erasure: Erasure) -> None:
        """A committed offset may go by request, with its topic, or when nobody needs it."""
        group, topic, _ = erasure.place
        asked = any(mark > erasure.committed_at for mark in self._deletions[group].values())
        if asked or topic == ABANDONED_TOPIC:
            return
        if erasure.age_ms < self._retention_ms:
            self.failed(f"forgotten after {erasure.age_ms} ms: {erasure}")
        if erasure.has_members:
            self.failed(f"forgotten although members use it: {erasure}")

    def _inspect_idle(self, node: "Node", partition: int) -> None:
        oldest = self._disk.oldest_write(node.index, partition, node.epoch(partition))
        if oldest is not None and self._now() - oldest >= _WRITE_TIMEOUT_MS:
            self.failed(f"an append of {oldest} is awaited at {self._now()}")
        settled = not self._disk.writes_under_way(node.index, partition)
        current = settled and node.is_current(partition)
        for group_id, group in node.groups(partition).items():
            if group.next_deadline() <= self._now():
                self.failed(f"{group_id}: a deadline has passed and nothing has happened")
            if group.classic is not None and (late := overdue(group.classic, self._now())):
                self.failed(f"{group_id}: {late}")
            if not settled:
                continue
            if group.is_vacant:
                self.failed(f"{group_id} does not exist, and is kept in memory")
            if current:
                for difference in self.ledgers[partition].read().differences(group_id, group):
                    self.failed(f"{group_id}: {difference}")

    def inspect_end(self, nodes: Sequence["Node"]) -> None:
        """With faults off and time passed, nothing may be left over."""
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


def overdue(group: ClassicGroup, now: int) -> str:
    """What should have happened by now, by the group's own deadlines."""
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
    """What keeps a group from being Stable with exactly these members; "" if nothing does."""
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
    owned = sorted(partition for client in live.values() for partition in client.assigned)
    everything = list(range(next(iter(live.values())).partitions))
    return "" if owned == everything else f"{TOPIC} partitions owned: {owned}"
