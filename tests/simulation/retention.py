"""Checks removals of offsets: by request, with their topic, or by Kafka's rules of expiry."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator_server.group.effects import Refuse, Rule
from coordinator_server.group.events import DeleteGroup, DeleteOffsets
from coordinator_server.runtime.partition import PartitionState
from coordinator_server.runtime.sweeper import LONGEST_CLOCK_JUMP_MS
from tests.simulation.clients import TOPIC
from tests.simulation.ledger import Erasure, Ledger
from tests.simulation.network import Request

if TYPE_CHECKING:
    from tests.simulation.node import Node

_UNKNOWN = (Rule.TIMED_OUT, Rule.TENURE_ENDED, Rule.NOT_AVAILABLE, Rule.SHUTTING_DOWN)
_NOT_OURS = (PartitionState.INITIAL, PartitionState.CLOSED)


@dataclass(slots=True, eq=False)
class Deletion:
    """A deleted topic, for one partition of a running node."""

    node: "Node"
    partition: int
    topic: str
    before: int
    """The length of the log at the deletion: older offsets must be removed."""
    until: float = math.inf
    """The length of the log when all were removed: younger offsets must stay."""
    is_owed: bool = True
    """Whether the node still has to remove offsets; False once its process has ended."""


class Retention:
    """Tracks requested removals and the jumps of the wall clock."""

    def __init__(
        self, ledgers: Sequence[Ledger], retention_ms: int, failed: Callable[[str], None]
    ) -> None:
        self._ledgers = ledgers
        self._retention_ms = retention_ms
        self._failed = failed
        self._asked: defaultdict[str, dict[int, float]] = defaultdict(dict)
        """The length of the log when a deletion in a group was answered."""
        self._deletions: defaultdict[int, list[Deletion]] = defaultdict(list)
        """Deleted topics by partition."""
        self._jumped: dict[Node, int] = {}
        """The jump of the wall clock since the last sweep of each node."""

    # --- requests ---

    def asked(self, request: Request) -> None:
        if isinstance(request.event, DeleteGroup | DeleteOffsets):
            self._asked[request.group][request.number] = math.inf

    def answered(self, request: Request, ledger: Ledger) -> None:
        """A deletion refused with an unknown append result may still take effect."""
        result = request.result
        if isinstance(result, Refuse) and result.rule in _UNKNOWN:
            return
        if request.number in self._asked[request.group]:
            self._asked[request.group][request.number] = ledger.length

    # --- topics ---

    def topics_deleted(self, node: "Node", topics: frozenset[str]) -> None:
        """Called when a running node is notified; a stopped one keeps the offsets, as in Kafka."""
        for index, partition in enumerate(node.coordinator.partitions):
            if partition.state not in _NOT_OURS:
                length = self._ledgers[index].length
                self._deletions[index] += [Deletion(node, index, t, length) for t in topics]

    def died(self, node: "Node") -> None:
        """Called when a process ends: its pending appends may still reach the disk."""
        for deletions in self._deletions.values():
            for deletion in deletions:
                deletion.is_owed &= deletion.node is not node

    def assigned(self, node: "Node", partition: int) -> None:
        """Called when a partition changes its owner; the other node may have removed more."""
        for deletion in self._deletions[partition]:
            deletion.is_owed &= deletion.node is not node

    def loaded(self, node: "Node", partition: int) -> None:
        """Called for a new tenure; another node or process does not know the deletion."""
        for deletion in self._deletions[partition]:
            if deletion.until == math.inf and not (deletion.is_owed and deletion.node is node):
                deletion.is_owed, deletion.until = False, self._ledgers[partition].length

    def settled(self, node: "Node", partition: int) -> None:
        """Called when the node and its log are idle: the deletion must be complete."""
        for deletion in self._deletions[partition]:
            if deletion.is_owed and deletion.node is node:
                ledger = self._ledgers[partition].read()
                for place in ledger.older_than(deletion.topic, deletion.before):
                    self._failed(f"the topic is gone, its offset is not: {place}")
                deletion.is_owed, deletion.until = False, ledger.length

    # --- the sweep ---

    def started(self, node: "Node") -> None:
        self._jumped[node] = 0

    def clock_jumped(self, ms: int) -> None:
        for node in self._jumped:
            self._jumped[node] += ms

    def swept(self, node: "Node", skipped: int) -> None:
        """Check a sweep; `skipped` is the increase of its counter."""
        jumped, self._jumped[node] = self._jumped[node], 0
        if skipped != (abs(jumped) > LONGEST_CLOCK_JUMP_MS):
            what = "left out" if skipped else "made"
            self._failed(f"a sweep was {what} after the wall clock had jumped by {jumped} ms")

    # --- what went ---

    def erased(self, partition: int, erasure: Erasure) -> None:
        """Check that an offset was allowed to be removed."""
        group, topic, _ = erasure.place
        asked = any(mark > erasure.committed_at for mark in self._asked[group].values())
        if asked or self._is_gone(partition, topic, erasure.committed_at):
            return
        if erasure.is_pending:
            self._failed(f"forgotten although a transaction is open: {erasure}")
        if erasure.age_ms < self._retention_ms:
            self._failed(f"forgotten after {erasure.age_ms} ms: {erasure}")
        if erasure.has_members and topic == TOPIC:
            self._failed(f"forgotten although members use it: {erasure}")

    def _is_gone(self, partition: int, topic: str, committed_at: int) -> bool:
        return any(
            deletion.topic == topic and committed_at < deletion.until
            for deletion in self._deletions[partition]
        )
