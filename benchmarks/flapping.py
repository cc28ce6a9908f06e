"""A thousand groups that flap, as a log has them, and a server that looks at all of them.

A row of `benchmarks.tails`. The server looks by itself every ten seconds
(`observe/finding_watch.py`), at groups it has heard of: so each of them refuses a member first.
"""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks import stored
from benchmarks.servers import CannotRun, Running
from benchmarks.turn import frame
from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.batch import LogRecord
from coordinator_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coordinator_protocol.records import encode_key
from coordinator_server.group.rebalance_events import (
    Counts,
    Culprit,
    Outcome,
    RebalanceEvent,
    Round,
)
from coordinator_server.group.rebalance_events import RebalanceReason as Reason
from coordinator_server.group.rebalance_log import key_of, pack
from coordinator_server.observe.finding_watch import INTERVAL_SECONDS, MAX_LINES
from coordinator_server.observe.flapping import MAX_GROUPS, MAX_INCIDENTS

SETTINGS: Final = {"rebalance.flapping.window.ms": "3600000"}
"""As long as the log is made and loaded; 200 rebalances are as many as count in any window."""
GROUPS: Final = MAX_GROUPS
"""As many as are remembered."""
CLIENTS: Final = 10
BEFORE_A_LOOK_SECONDS: Final = INTERVAL_SECONDS - 1.0
"""From the end of one look, when its lines are written, until heartbeats are measured."""
LIMIT_SECONDS: Final = 180.0


def write(data: Path) -> None:
    """The groups, with as many rebalances as are looked at."""
    wall = time.time_ns() // 1_000_000
    parts = stored.spread((group_id, _records(group_id, wall)) for group_id in _ids())
    for partition, records in parts.items():
        stored.write(data, partition, records)


def _ids() -> list[str]:
    return [f"flapping-{number}" for number in range(GROUPS)]


def _records(group_id: str, wall: int) -> Iterator[LogRecord]:
    yield stored.group(group_id, 3, wall)
    for sequence in range(MAX_INCIDENTS):
        raw = pack(_rebalance(group_id, sequence, wall - (MAX_INCIDENTS - sequence) * 100))
        yield LogRecord(encode_key(key_of(group_id, raw)), raw, wall)


def _rebalance(group_id: str, sequence: int, ended_ms: int) -> RebalanceEvent:
    """A member's session expires, and another comes back meanwhile; they have ten clients."""
    lost, back = (_member(sequence + more) for more in (0, CLIENTS // 2))
    rounds = (Round(Reason.SESSION_EXPIRED, lost, None), Round(Reason.MEMBER_JOINED, back, None))
    return RebalanceEvent(
        group_id=group_id,
        reason=Reason.SESSION_EXPIRED,
        client_reason=None,
        culprit=lost,
        state_before="Stable",
        outcome=Outcome.COMPLETED,
        generation_before=sequence,
        generation_after=sequence + 1,
        started_ms=ended_ms - 60,
        ended_ms=ended_ms,
        join_phase_ms=40,
        sync_phase_ms=20,
        members_before=3,
        members_after=3,
        joined=(back,),
        left=(),
        evicted=(lost,),
        waited_for=(),
        rounds=rounds,
        counts=Counts(1, 0, 1, 0, 2),
        sequence=sequence,
    )


def _member(number: int) -> Culprit:
    client = number % CLIENTS
    return Culprit(stored.member_id(number), None, f"app-{client}", f"/10.0.0.{client}")


@contextmanager
def looked_at(server: Running) -> Iterator[None]:
    """Begins a second before a look at all of them. Raises CannotRun."""
    told = _told(server)
    _let_each_be_heard_of(server)
    # Two looks: the first may have begun before all were heard of.
    told = _await_lines(server, told + 2 * MAX_LINES)
    time.sleep(BEFORE_A_LOOK_SECONDS)
    if _told(server) > told:
        raise CannotRun("the look was over before heartbeats were measured")
    yield
    # Most of it was meanwhile: it takes seconds beside heartbeats.
    _await_lines(server, told + 1)


def _await_lines(server: Running, number: int) -> int:
    until = time.monotonic() + LIMIT_SECONDS
    while (told := _told(server)) < number:
        if time.monotonic() > until:
            raise CannotRun("nothing was found of groups that flap")
        time.sleep(0.05)
    return told


def _let_each_be_heard_of(server: Running) -> None:
    """Somebody of another protocol type asks to join each."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    with (
        socket.create_connection(("127.0.0.1", server.port), 60) as connection,
        connection.makefile("rb") as answers,
    ):
        for group_id in _ids():
            stranger = JoinGroupRequest(group_id, 30_000, 30_000, "", None, "connect", protocols)
            connection.sendall(frame(ApiKey.JOIN_GROUP, 3, stranger))
            answers.read(int.from_bytes(answers.read(4), "big"))


def _told(server: Running) -> int:
    """Lines of the server's log that say who flaps, or no longer does, as it was forgotten."""
    lines = Path(f"/proc/{server.pid}/fd/2").read_text(encoding="utf-8").splitlines()
    return sum(json.loads(line)["event"].startswith("flapping_") for line in lines)
