"""Groups of very many members, driven without the checks of `GroupHarness`.

What a step costs is told in executed bytecodes: the same on every machine, and loops inside of
one call count too.
"""

import sys
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

from coordinator_server.group.classic.state import ClassicGroup
from coordinator_server.group.context import Context, Limits
from coordinator_server.group.effects import Effects, Joined, Refuse, Result
from coordinator_server.group.events import Event, Heartbeat, Join, Leave, LeavingMember, Sync, Tick
from coordinator_server.group.group import Group
from coordinator_server.ids import CountingIds
from tests.support.classic import classic_of

SESSION_MS = 45_000
REBALANCE_MS = 300_000


class LargeGroup:
    """A group whose members all send the same requests."""

    def __init__(self, size: int, **limits: Any) -> None:
        """Start without members."""
        self.size = size
        self.group = Group("crowd")
        self.now = 1_000_000
        self.limits = Limits(**limits)
        self.answers: dict[int, Result] = {}
        self.ids = CountingIds()
        self.members: list[str] = []
        self.generation = -1
        self.leader = ""
        self._token = count()

    @property
    def classic(self) -> ClassicGroup:
        """The group, which must exist."""
        return classic_of(self.group)

    @property
    def state(self) -> str:
        """The group's state."""
        return self.classic.state.value

    def handle(self, event: Event) -> Effects:
        """Handle one event at the current time; results are kept by token."""
        context = Context(self.now, 1_700_000_000_000 + self.now, self.ids, self.limits)
        effects = self.group.handle(event, context)
        for reply in effects.replies:
            assert isinstance(reply.token, int)
            assert reply.token not in self.answers
            self.answers[reply.token] = reply.result
        return effects

    def ask(self, kind: type[Any], *args: Any, **fields: Any) -> int:
        """Send a request; returns its token."""
        token = next(self._token)
        self.handle(kind(token, *args, **fields))
        return token

    def advance(self, ms: int) -> int:
        """Advance the time and tick at each deadline; returns the number of ticks."""
        until, looks = self.now + ms, 0
        while (deadline := self.group.next_deadline()) <= until:
            self.now = max(deadline, self.now)
            self.handle(Tick())
            looks += 1
        self.now = until
        return looks

    # --- what members do ---

    def join(self, member_id: str, name: str = "", **changes: Any) -> int:
        """JoinGroup of one member."""
        fields: dict[str, Any] = {
            "group_instance_id": None,
            "client_id": name,
            "client_host": "/host",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": (("range", b"r"), ("sticky", b"s")),
            "client_reason": None,
            "requires_known_member_id": True,
            "can_skip_assignment": True,
        }
        return self.ask(Join, member_id, **{**fields, **changes})

    def get_ids(self) -> None:
        """All members request a member id, one each millisecond."""
        for number in range(self.size):
            refusal = self.answers[self.join("", f"client-{number}")]
            assert isinstance(refusal, Refuse)
            self.members.append(refusal.member_id)
            self.now += 1

    def join_all(self) -> None:
        """All members join and the join phase ends."""
        tokens = [self.join(member_id, member_id) for member_id in self.members]
        while self.state == "PreparingRebalance":
            self.advance(self.limits.initial_rebalance_delay_ms or 1)
        joined = self.answers[tokens[0]]
        assert isinstance(joined, Joined)
        self.generation, self.leader = joined.generation, joined.leader

    def sync_all(self) -> None:
        """All members sync, the leader in the middle."""
        assignments = {member_id: member_id.encode() for member_id in self.members}
        for member_id in self.members:
            given = assignments if member_id == self.leader else {}
            self.ask(Sync, member_id, None, self.generation, "consumer", None, given)

    def settle(self) -> None:
        """All members join and sync; the group is Stable."""
        self.get_ids()
        self.join_all()
        self.sync_all()
        assert self.state == "Stable"

    def heartbeat_all(self, spread_ms: int) -> None:
        """All members heartbeat once, evenly spread over a time in which deadlines tick."""
        for number, member_id in enumerate(self.members):
            self.ask(Heartbeat, member_id, None, self.generation)
            self.advance(spread_ms * (number + 1) // self.size - spread_ms * number // self.size)

    def leave_one_by_one(self) -> None:
        """All members leave in the order of joining."""
        for member_id in self.members:
            self.ask(Leave, [LeavingMember(member_id, None)])


def bytecodes(action: Callable[[], object]) -> int:
    """Count the Python bytecodes that an action executes."""
    executed = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal executed
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        executed += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return executed
