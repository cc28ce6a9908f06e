"""The HTTP server over a fake coordinator, for tests of the API and of the page."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from coordinator_server.group.rebalance_events import (
    NOBODY,
    Counts,
    Culprit,
    Outcome,
    RebalanceEvent,
    RebalanceReason,
    RebalanceStarted,
    Refused,
    Round,
    Waited,
)
from coordinator_server.observe.counters import ClientMemory, Counters
from coordinator_server.observe.exposition import Exposition
from coordinator_server.observe.findings import FlappingLimits
from coordinator_server.observe.flapping import Flapping
from coordinator_server.observe.http import HttpServer
from coordinator_server.observe.http_hosts import AllowedHosts
from coordinator_server.observe.loop_lag import LoopLag
from coordinator_server.observe.metrics import CoordinatorCollector, Names, make_registry
from coordinator_server.observe.refusals import Refusals
from coordinator_server.observe.sources import Sources
from coordinator_server.observe.sse import EventStream
from coordinator_server.observe.status import (
    AdminResult,
    Awaited,
    Census,
    GroupGauges,
    GroupStatus,
    GroupSummary,
    MemberStatus,
    OffsetStatus,
    Unserved,
    WaitingStatus,
)
from coordinator_server.observe.timeline import Timeline

NOW = 1_700_000_000_000
TOKEN = "s3cret"

ALICE = Culprit("alice-1", None, "alice", "/10.0.0.1")
BOB = Culprit("bob-1", "bob", "bob", "/10.0.0.2")
CAROL = Culprit("carol-1", None, "carol", "/10.0.0.3")


def rebalance(
    reason: RebalanceReason, culprit: Culprit, ended_ms: int, /, **changes: object
) -> RebalanceEvent:
    """A finished rebalance of `orders` that took 60 ms; keywords replace fields."""
    event = RebalanceEvent(
        group_id="orders",
        reason=reason,
        client_reason=None,
        culprit=culprit,
        state_before="Stable",
        outcome=Outcome.COMPLETED,
        generation_before=1,
        generation_after=2,
        started_ms=ended_ms - 60,
        ended_ms=ended_ms,
        join_phase_ms=40,
        sync_phase_ms=20,
        members_before=2,
        members_after=2,
        joined=(),
        left=(),
        evicted=(),
        waited_for=(),
        rounds=(Round(reason, culprit, None),),
        counts=Counts(0, 0, 0, 0, 1),
        sequence=1,
    )
    return replace(event, **changes)  # type: ignore[arg-type]


def rebalance_history() -> list[RebalanceEvent]:
    """Rebalances of `orders`, oldest first: one per kind of reason."""
    reasons = RebalanceReason
    return [
        rebalance(
            reasons.MEMBER_JOINED, ALICE, NOW - 900_000, sequence=1, joined=(ALICE,),
            members_before=0, members_after=1, generation_before=0, generation_after=1,
        ),
        rebalance(
            reasons.MEMBER_JOINED, BOB, NOW - 800_000, sequence=2, joined=(BOB,), members_before=1,
            client_reason="rolling upgrade", waited_for=(Waited(ALICE, 35),),
        ),
        rebalance(
            reasons.SESSION_EXPIRED, ALICE, NOW - 700_000, sequence=3, evicted=(ALICE,),
            members_after=1, generation_before=2, generation_after=3,
            rounds=(
                Round(reasons.SESSION_EXPIRED, ALICE, None),
                Round(reasons.MEMBER_JOINED, CAROL, None),
            ),
        ),
        rebalance(
            reasons.METADATA_CHANGED, CAROL, NOW - 400_000, sequence=4, joined=(CAROL,),
            generation_before=3, generation_after=4,
        ),
        rebalance(
            reasons.MEMBER_LEFT, CAROL, NOW - 300_000, sequence=5, left=(CAROL,), members_after=1,
            generation_before=4, generation_after=5,
        ),
        rebalance(
            reasons.ADMIN_REBALANCE, NOBODY, NOW - 200_000, sequence=6, members_before=1,
            members_after=1, generation_before=5, generation_after=6, client_reason="a deploy",
        ),
    ]  # fmt: skip


STARTED = RebalanceStarted("orders", RebalanceReason.MEMBER_JOINED, None, ALICE, 6, 2, NOW - 4_000)
REFUSED = Refused(
    at_ms=NOW - 30_000,
    group_id="orders",
    api="Heartbeat",
    error="ILLEGAL_GENERATION",
    rule="generation_old",
    detail="it sent generation 4, the group is at 5",
    member=BOB,
)


@dataclass
class FakeStatus:
    """A coordinator with the group `orders`; tests add others."""

    states: dict[str, int] = field(default_factory=lambda: {"active": 50})
    summaries: dict[str, GroupSummary] = field(
        default_factory=lambda: {
            "orders": GroupSummary("orders", "PreparingRebalance", "consumer", "range", 6, 2)
        }
    )
    events: list[RebalanceEvent] = field(default_factory=list)
    now: int = NOW
    """When ages and deadlines count from."""
    loads: dict[int, tuple[int, int]] = field(default_factory=dict)
    not_serving: list[Unserved] = field(default_factory=list)

    def partitions(self) -> Mapping[str, int]:
        """See the port."""
        return self.states

    def unserved(self) -> list[Unserved]:
        """The partitions set by the test."""
        return self.not_serving

    def max_groups(self) -> int:
        """A limit that no test reaches."""
        return 1_000_000

    def loading(self) -> Mapping[int, tuple[int, int]]:
        """Bytes read and in all, by partition."""
        return self.loads

    def census(self) -> Iterator[Census]:
        """One that is whole at once."""
        groups = Counter({("Stable", "consumer"): len(self.summaries)})
        yield Census(groups, Counter(dynamic=1, static=1), offsets=2)

    def gauges(self, group_id: str) -> GroupGauges | None:
        """One in numbers."""
        summary = self.summaries.get(group_id)
        if summary is None:
            return None
        waiting = {"join": 1, "sync": 0, "pending": 1}
        return GroupGauges(summary.state, summary.generation, summary.members, waiting, None)

    def each_offset(self, group_id: str, *, only_expiring: bool = False) -> Iterator[OffsetStatus]:
        """One by one."""
        return iter(self.offsets(group_id))

    def groups(self) -> Sequence[GroupSummary]:
        """All."""
        return list(self.summaries.values())

    def group_ids(self) -> Iterator[list[str]]:
        """Sorted."""
        yield sorted(self.summaries)

    def summary(self, group_id: str) -> GroupSummary | None:
        """One."""
        return self.summaries.get(group_id)

    def group(self, group_id: str) -> GroupStatus | None:
        """One with its members."""
        summary = self.summaries.get(group_id)
        members = (
            MemberStatus(BOB, 45_000, 300_000, "join", ("orders",), {"orders": (0, 1)}),
            MemberStatus(ALICE, 45_000, 300_000, None, ("orders",), {"orders": (2, 3)}),
        )
        if summary is None:
            return None
        return GroupStatus(summary, BOB.member_id, members, (ALICE,), NOW - 4_000)

    def waiting(self, group_id: str) -> WaitingStatus | None:
        """For Alice and for somebody who never came back."""
        if group_id not in self.summaries:
            return None
        stranger = Culprit("dave-1", None, "dave", "/10.0.0.4")
        waiting = (
            Awaited(ALICE, "dynamic", "join", self.now - 4_000, self.now + 296_000),
            Awaited(stranger, "pending", "join", self.now - 1_000, self.now + 44_000),
        )
        state = self.summaries[group_id].state
        return WaitingStatus(
            group_id,
            state,
            "join",
            self.now - 4_000,
            self.now + 296_000,
            waiting,
            joined=1,
            expected=3,
        )

    def offsets(self, group_id: str) -> Sequence[OffsetStatus]:
        """One in use, one that expires."""
        if group_id not in self.summaries:
            return ()
        return (
            OffsetStatus("orders", 0, 1_234_567, 0, "", NOW - 5_000, None),
            OffsetStatus("gone", 3, 12, -1, "note", NOW - 86_400_000, NOW + 518_400_000),
        )

    def past(self, group_id: str) -> Sequence[RebalanceEvent]:
        """What the log has."""
        return [event for event in self.events if event.group_id == group_id]


@dataclass
class FakeAdmin:
    """Records its calls and returns `result`."""

    result: AdminResult = field(default_factory=lambda: AdminResult("NONE"))
    asked: list[tuple[object, ...]] = field(default_factory=list)

    async def kick(
        self, group_id: str, member_id: str, group_instance_id: str | None, reason: str
    ) -> AdminResult:
        """See the port."""
        self.asked.append(("kick", group_id, member_id, group_instance_id, reason))
        return self.result

    async def force_rebalance(self, group_id: str, reason: str) -> AdminResult:
        """Record the call."""
        self.asked.append(("rebalance", group_id, reason))
        return self.result

    async def delete_group(self, group_id: str) -> AdminResult:
        """Record the call."""
        self.asked.append(("delete", group_id))
        return self.result

    async def reset_offsets(
        self, group_id: str, offsets: Sequence[tuple[str, int, int]]
    ) -> AdminResult:
        """Record the call."""
        self.asked.append(("reset", group_id, list(offsets)))
        return self.result


class FakeHttpServer:
    """An HTTP server with fake dependencies, which tests may change."""

    def __init__(self, token: str | None = TOKEN) -> None:
        """Prepare the server; it does not listen yet."""
        self.status = FakeStatus()
        self.admin = FakeAdmin()
        self.memory = ClientMemory(3 << 20, 96 << 20)
        self.events = EventStream()
        self.timeline = Timeline(self.status.past)
        self.refusals = Refusals(lambda: NOW)
        self.flapping = Flapping(lambda: NOW, FlappingLimits(window_ms=10**9, max_by_one=1))
        sources = Sources(
            self.status,
            self.timeline,
            self.refusals,
            self.flapping,
            lambda: NOW,
            self.admin,
            lambda: self.memory,
        )
        names = Names({}, {})
        collector = CoordinatorCollector(
            Counters(),
            self.status,
            self.timeline,
            lambda: NOW,
            names,
            "1",
            log_sizes=dict,
            cleaner_lag=lambda: (0.0, 0.0),
            loop_lag=LoopLag(),
            findings=self.flapping.each,
        )
        exposition = Exposition(make_registry(collector), collector.prepare)
        self.server = HttpServer(
            "127.0.0.1",
            0,
            sources=sources,
            exposition=exposition,
            events=self.events,
            token=token,
            hosts=AllowedHosts(),
        )

    def add_rebalance_history(self) -> None:
        """Give `orders` past rebalances, one in progress, and a refusal."""
        self.status.events += rebalance_history()
        for event in rebalance_history():
            self.flapping.observe(event)
        self.timeline.observe(STARTED)
        self.refusals.observe(REFUSED)

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server.port}"


@asynccontextmanager
async def fake_http_server(token: str | None = TOKEN) -> AsyncIterator[FakeHttpServer]:
    """A server that listens."""
    side = FakeHttpServer(token)
    await side.server.start()
    try:
        yield side
    finally:
        await side.server.stop()
