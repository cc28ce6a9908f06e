"""Events and a coordinator's status, made up."""

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from coordinator_server.group.rebalance_events import (
    Counts,
    Culprit,
    Outcome,
    RebalanceEvent,
    RebalanceReason,
    RebalanceStarted,
    Round,
    Waited,
)
from coordinator_server.observe import log
from coordinator_server.observe.status import (
    Census,
    GroupGauges,
    GroupStatus,
    GroupSummary,
    MemberStatus,
    OffsetStatus,
    Unserved,
)
from tests.support.fake_http_server import fake_http_server
from tests.support.http_client import HttpClient

ALICE = Culprit("alice-1", None, "alice", "/10.0.0.1")
BOB = Culprit("bob-1", "bob", "bob", "/10.0.0.2")

EVENT = RebalanceEvent(
    group_id="orders",
    reason=RebalanceReason.MEMBER_JOINED,
    client_reason="rolling upgrade",
    culprit=BOB,
    state_before="Stable",
    outcome=Outcome.COMPLETED,
    generation_before=1,
    generation_after=2,
    started_ms=1_700_000_000_000,
    ended_ms=1_700_000_000_060,
    join_phase_ms=40,
    sync_phase_ms=20,
    members_before=1,
    members_after=2,
    joined=(BOB,),
    left=(),
    evicted=(),
    waited_for=(Waited(ALICE, 35),),
    rounds=(
        Round(RebalanceReason.MEMBER_JOINED, BOB, "rolling upgrade"),
        Round(RebalanceReason.SESSION_EXPIRED, ALICE, None),
    ),
    counts=Counts(joined=1, left=0, evicted=0, waited_for=1, rounds=2),
    sequence=7,
)
STARTED = RebalanceStarted(
    "orders", RebalanceReason.MEMBER_LEFT, None, ALICE, 2, 2, 1_700_000_100_000
)
SUMMARY = GroupSummary("orders", "Stable", "consumer", "range", 2, 2)


@pytest.fixture
def make_event() -> Callable[..., RebalanceEvent]:
    """A finished rebalance of the group `orders`, with whatever is given changed."""
    return lambda **changes: replace(EVENT, **changes)


@pytest.fixture
def started() -> RebalanceStarted:
    """A rebalance of the group `orders` under way."""
    return STARTED


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The two ends of a pipe, the log's reader and its file descriptor."""
    ends = os.pipe()
    yield ends
    log.close()
    for end in ends:
        os.close(end)


class FakeStatus:
    """A coordinator with one group."""

    def __init__(self) -> None:
        self.states: dict[str, int] = {"active": 50}
        self.loads: dict[int, tuple[int, int]] = {}
        self.not_serving: list[Unserved] = []
        self.summaries: dict[str, GroupSummary] = {"orders": SUMMARY}
        self.committed: list[OffsetStatus] = []

    def partitions(self) -> Mapping[str, int]:
        return self.states

    def unserved(self) -> list[Unserved]:
        return self.not_serving

    def max_groups(self) -> int:
        return 1_000_000

    def loading(self) -> Mapping[int, tuple[int, int]]:
        return self.loads

    def census(self) -> Iterator[Census]:
        groups = Counter({("Stable", "consumer"): 1})
        yield Census(groups, Counter(dynamic=1, static=1), offsets=12)

    def gauges(self, group_id: str) -> GroupGauges | None:
        summary = self.summaries.get(group_id)
        if summary is None:
            return None
        waiting = {"join": 1, "sync": 0, "pending": 1}
        return GroupGauges(summary.state, summary.generation, summary.members, waiting, None)

    def group_ids(self) -> Iterator[list[str]]:
        ids = list(self.summaries)
        yield from (sorted(ids[at : at + 7]) for at in range(0, len(ids), 7))

    def each_offset(self, group_id: str, *, only_expiring: bool = False) -> Iterator[OffsetStatus]:
        return iter(self.committed if group_id in self.summaries else ())

    def groups(self) -> Sequence[GroupSummary]:
        return list(self.summaries.values())

    def group(self, group_id: str) -> GroupStatus | None:
        summary = self.summaries.get(group_id)
        members = (MemberStatus(BOB, 45_000, 300_000, "join"),)
        return GroupStatus(summary, ALICE.member_id, members, (ALICE,)) if summary else None


@pytest.fixture
def status() -> Any:
    """The status of a coordinator with the group `orders`; tests change it."""
    return FakeStatus()


@pytest.fixture
async def served() -> AsyncIterator[HttpClient]:
    async with aiohttp.ClientSession() as session, fake_http_server() as side:
        yield HttpClient(side, session)
