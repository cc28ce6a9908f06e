"""Simulated consumers: old and new clients, static, slow, frozen and forgetful ones."""

from dataclasses import replace
from enum import Enum
from functools import cache

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.subscription import Subscription, encode_subscription
from coordinator_server.group.effects import Joined, Refuse, Result, Synced
from coordinator_server.group.events import (
    CommitOffsets,
    Event,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    Sync,
)
from coordinator_server.group.purgatory import NEVER
from tests.simulation.clients import (
    ABANDONED_TOPIC,
    MAX_APPEND_BYTES,
    TOPIC,
    Client,
    ClientEnvironment,
    offset_of,
)
from tests.simulation.consumer_kinds import ConsumerKind
from tests.support.offsets import topics_of

BACKOFF_MS = 100
LONGEST_BACKOFF_MS = 3_200
_TOO_MUCH = b" " * MAX_APPEND_BYTES

_E = ErrorCode
TRY_AGAIN = frozenset(
    {_E.COORDINATOR_NOT_AVAILABLE, _E.NOT_COORDINATOR, _E.COORDINATOR_LOAD_IN_PROGRESS}
)
FATAL = frozenset(
    {_E.FENCED_INSTANCE_ID, _E.INCONSISTENT_GROUP_PROTOCOL, _E.GROUP_MAX_SIZE_REACHED}
)


class Phase(Enum):
    """The state of a consumer, as far as it knows."""

    OUT = "out"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"
    GONE = "gone"


class Consumer(Client):
    """A member of a group, or a client that tries to join it."""

    def __init__(
        self,
        name: str,
        group: str,
        environment: ClientEnvironment,
        kind: ConsumerKind,
        partitions: int,
    ) -> None:
        super().__init__(name, group, environment)
        self.kind = kind
        self.partitions = partitions
        self.phase = Phase.OUT
        self.member_id = ""
        self.generation = -1
        self.assigned: tuple[int, ...] = ()
        self.metadata = 0
        """A number that selects its subscription."""
        self._again_at = 0
        self._beat_at = NEVER
        self._commits_at = NEVER
        self._sync: Sync | None = None
        self._unanswered_commit: CommitOffsets | None = None
        self._failures = 0
        """The number of failed attempts in a row."""
        self._exaggerates = False
        """Whether the next assignment it makes is too large for the log."""
        self._rejoins_at = NEVER
        """The time at which a busy consumer rejoins."""
        self._is_busy = kind.is_busy

    # --- what is due ---

    @property
    def will_join(self) -> bool:
        """Whether it has to rejoin and has not sent the JoinGroup yet."""
        return self.phase is Phase.OUT or self._rejoins_at != NEVER

    def due_at(self) -> int:
        if self.frozen or self.phase is Phase.GONE:
            return NEVER
        timeout_ms = self.kind.rebalance_ms + 5_000
        times = [request.sent_at + timeout_ms for request in self.waiting.values()]
        if self.phase is Phase.OUT and not self.waits_for(Join):
            times.append(self._again_at)
        if self.phase is Phase.SYNCING and not self.waits_for(Sync):
            times.append(self._again_at)
        if self.phase in (Phase.SYNCING, Phase.STABLE) and not self.waits_for(Heartbeat):
            times.append(self._beat_at)
        if self.phase is Phase.STABLE:
            times.append(self._rejoins_at)
        if self.phase is Phase.STABLE and self.assigned and not self.waits_for(CommitOffsets):
            times.append(self._commits_at)
        return min(times, default=NEVER)

    def act(self) -> None:
        now = self.environment.now()
        if self.due_at() > now:
            return
        timeout_ms = self.kind.rebalance_ms + 5_000
        if any(request.sent_at + timeout_ms <= now for request in self.waiting.values()):
            self.environment.hang_up(self)
        elif self.phase is Phase.OUT:
            self.join()
        elif self.phase is Phase.SYNCING and not self.waits_for(Sync) and self._again_at <= now:
            self._send_sync()
        elif self._rejoins_at <= now:
            self.join()
        elif self._beat_at <= now and not self.waits_for(Heartbeat):
            self.heartbeat()
        elif self.phase is Phase.STABLE and self._commits_at <= now:
            self._commit_again_or_anew()

    # --- what it can do ---

    def join(self) -> None:
        self.phase = Phase.JOINING
        self.assigned, self._rejoins_at = (), NEVER
        metadata = _subscription(self.metadata)
        kind = self.kind
        self.send(
            Join(
                token=None,
                member_id=self.member_id,
                group_instance_id=kind.instance,
                client_id=self.name,
                client_host="/127.0.0.1",
                session_timeout_ms=kind.session_ms,
                rebalance_timeout_ms=kind.rebalance_ms,
                protocol_type="consumer",
                protocols=[(protocol, metadata) for protocol in kind.protocols],
                client_reason=None,
                requires_known_member_id=kind.knows_ids and kind.instance is None,
                can_skip_assignment=kind.can_skip,
            )
        )

    def heartbeat(self) -> None:
        self._beat_at = self.environment.now() + self.kind.heartbeat_ms
        self.send(Heartbeat(None, self.member_id, self.kind.instance, self.generation))

    def commit(self, how: int, behind: int = 0) -> None:
        """Commit two partitions; as a zombie if it is a generation behind."""
        self._commits_at = self.environment.now() + 5_000
        owned = self.assigned or (how % self.partitions,)
        first = how % len(owned)
        chosen = owned[first : first + 2]
        topic = ABANDONED_TOPIC if how % 5 == 4 else TOPIC
        self.send(
            CommitOffsets(
                None,
                self.member_id,
                self.kind.instance,
                max(self.generation - behind, 0),
                topics_of(
                    offset_of(topic, partition, self.environment.next_offset())
                    for partition in chosen
                ),
                -1,
                knows_group_id_not_found=False,
            )
        )

    def _commit_again_or_anew(self) -> None:
        lost, self._unanswered_commit = self._unanswered_commit, None
        if lost is not None and lost.generation == self.generation:
            self._commits_at = self.environment.now() + 5_000
            self.send(lost)
        else:
            self.commit(0)

    def leave(self) -> None:
        self.phase = Phase.GONE
        self.send(Leave(None, [LeavingMember(self.member_id, self.kind.instance)]))

    def restart(self) -> None:
        """Start a new process without state; its old requests may still arrive."""
        self.environment.abandon(self)
        self.waiting.clear()
        self.member_id, self.generation, self.assigned = "", -1, ()
        self.phase, self._again_at = Phase.OUT, self.environment.now()

    def take_time(self) -> None:
        """End the busy time."""
        self._is_busy = False
        if self._rejoins_at != NEVER:
            self._rejoins_at = self.environment.now()

    def nudge(self, how: int) -> None:
        """Act at random; a smaller `how` selects a more common action."""
        if self.frozen or self.phase is Phase.GONE:
            return
        choice, how = how % 16, how // 16
        if self.phase is Phase.OUT:
            self.join()
        elif choice < 4 or self.generation < 0:
            self.act()
        elif choice < 6:
            self.heartbeat()
        elif choice < 8:
            self.commit(how)
        elif choice == 8:
            self.commit(how, behind=1)
        elif choice == 9 and how % 2:
            self._exaggerates = True
        elif choice == 9:
            self.send(FetchOffsets(None, [(TOPIC, list(range(self.partitions)))], False))
        elif choice == 10:
            self.join()
        elif choice == 11:
            self.metadata += 1
            self.join()
        elif choice == 12 and self._sync is not None:
            self.send(replace(self._sync))
        elif choice == 13:
            self.leave()
        elif choice == 14:
            self.restart()
        else:
            self.environment.hang_up(self)

    # --- what it hears ---

    def on_response(self, event: Event, result: Result) -> None:
        if self.phase is Phase.GONE:
            return
        if not (isinstance(result, Refuse) and result.error in TRY_AGAIN):
            self._failures = 0
        match result:
            case Joined():
                if isinstance(event, Join):
                    self._joined(result)
            case Synced():
                if isinstance(event, Sync) and event.generation == self.generation:
                    self._synced(result)
            case Refuse():
                self._refused(event, result)
            case _:
                pass

    def on_request_lost(self, event: Event) -> None:
        if self.phase is Phase.GONE:
            return
        self._failures += 1
        match event:
            case Join():
                self._try_again()
            case Sync():
                self._again_at = self.environment.now() + self._backoff_ms
                if not self.kind.repeats_sync:
                    self._try_again()
            case CommitOffsets():
                self._unanswered_commit = replace(event)
                self._commits_at = self.environment.now() + self._backoff_ms
            case _:
                pass

    def _joined(self, result: Joined) -> None:
        if self.phase not in (Phase.JOINING, Phase.OUT):
            return
        self.member_id, self.generation = result.member_id, result.generation
        self.phase = Phase.SYNCING
        self._beat_at = self.environment.now() + self.kind.heartbeat_ms
        leads = result.leader == result.member_id and not result.skip_assignment
        self._sync = Sync(
            None,
            self.member_id,
            self.kind.instance,
            self.generation,
            result.protocol_type,
            result.protocol_name,
            self._assign([member_id for member_id, _, _ in result.members]) if leads else {},
        )
        self._send_sync()

    def _send_sync(self) -> None:
        if self._sync is not None:
            self.send(replace(self._sync))

    def _assign(self, members: list[str]) -> dict[str, bytes]:
        share: dict[str, list[str]] = {member: [] for member in members}
        for partition in range(self.partitions):
            share[members[partition % len(members)]].append(str(partition))
        padding, self._exaggerates = _TOO_MUCH if self._exaggerates else b"", False
        return {member: ",".join(owned).encode() + padding for member, owned in share.items()}

    def _synced(self, result: Synced) -> None:
        if self.phase is Phase.SYNCING:
            self.phase = Phase.STABLE
            self.assigned = partitions_of(result.assignment)
            self._commits_at = self.environment.now() + 1_000

    def _refused(self, event: Event, refusal: Refuse) -> None:
        error = refusal.error
        if error in FATAL:
            self.phase = Phase.GONE
        elif error is _E.MEMBER_ID_REQUIRED:
            if self.phase is Phase.JOINING:
                self.member_id = refusal.member_id
                self._try_again(at_once=True)
        elif error in TRY_AGAIN:
            self.environment.hang_up(self)
            if isinstance(event, Join):
                self._try_again()
            self._again_at = self.environment.now() + self._backoff_ms
        elif self._is_about_me(event):
            self._refused_membership(error)

    def _is_about_me(self, event: Event) -> bool:
        """Whether a response concerns this process and its current generation."""
        generation = getattr(event, "generation", self.generation)
        mine = getattr(event, "member_id", self.member_id) == self.member_id
        joins_already = self.phase is Phase.JOINING and not isinstance(event, Join)
        return mine and generation == self.generation and not joins_already

    def _refused_membership(self, error: ErrorCode) -> None:
        if error is _E.UNKNOWN_MEMBER_ID or (
            error is _E.ILLEGAL_GENERATION and not self.kind.keeps_id
        ):
            self.member_id, self.generation = "", -1
        if error is _E.REBALANCE_IN_PROGRESS and self._is_busy and self.phase is Phase.STABLE:
            late = self.environment.now() + self.kind.rebalance_ms * 6 // 10
            self._rejoins_at = min(self._rejoins_at, late)
        elif error in (
            _E.UNKNOWN_MEMBER_ID,
            _E.ILLEGAL_GENERATION,
            _E.REBALANCE_IN_PROGRESS,
            _E.UNKNOWN_SERVER_ERROR,
        ):
            self._try_again(at_once=True)

    def _try_again(self, *, at_once: bool = False) -> None:
        self.phase = Phase.OUT
        self._again_at = self.environment.now() + (0 if at_once else self._backoff_ms)

    @property
    def _backoff_ms(self) -> int:
        return int(min(BACKOFF_MS << min(self._failures, 10), LONGEST_BACKOFF_MS))


@cache
def _subscription(metadata: int) -> bytes:
    return encode_subscription(Subscription([TOPIC], str(metadata).encode()))


def partitions_of(assignment: bytes) -> tuple[int, ...]:
    """The partitions in an assignment written by a simulated consumer."""
    return tuple(int(partition) for partition in assignment.split(b",") if partition)
