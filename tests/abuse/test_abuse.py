"""Attacks are measured: a sound server holds, and every kind of failure is reported."""

import time
from collections import Counter
from typing import Any

import pytest

from tests.abuse.__main__ import measured
from tests.abuse.attack import MEBIBYTE, Attack
from tests.abuse.attacks.all import ATTACKS
from tests.abuse.bench import OVERTIME, Bench, Options, Outcome
from tests.abuse.observers import Asker, Tally, at_share
from tests.abuse.report import BEGIN, END, Limits, problems, rendered, with_table
from tests.support.client_processes import ROOT

MS = 1_000_000

GENEROUS = Limits(p99_ms=5_000.0, memory_bytes=1 << 30, health_ms=10_000.0, stop_seconds=30.0)
"""What a busy machine does is no failure here."""
SHORT = Options(quiet_seconds=0.5, seconds=1.0)


def figures(**changed: Any) -> dict[str, Any]:
    same: dict[str, Any] = Tally([1.0] * 100, Counter()).report()
    return same | changed


def outcome(attack: Attack = ATTACKS["pipelining"], **changed: Any) -> Outcome:
    under = {"heartbeat": figures(), "commit": figures(), "late": {"count": 0, "max": 0.0}}
    memory = {"idle_bytes": 50 * MEBIBYTE, "peak_bytes": 90 * MEBIBYTE, "after_bytes": MEBIBYTE}
    given: dict[str, Any] = {"under": under, "quiet": under, "exit_code": 0, **memory}
    return Outcome(attack, **(given | changed))


def members(**changed: Any) -> dict[str, Any]:
    return {"under": outcome().under | {"heartbeat": figures(**changed)}}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (members(p99=51.0), "p99 51 ms"),
        (members(count=3), "only 3 heartbeats"),
        (members(errors={"25": 2, "27": 1}), "3 heartbeats of evicted"),
        (members(errors={"15": 1}), "heartbeat errors [15]"),
        (members(lost=1), "1 connections of others lost"),
        ({"under": outcome().under | {"commit": figures(errors={"7": 1})}}, "commit errors"),
        ({"peak_bytes": 3 << 30}, "memory 3,072 MiB"),
        ({"was_killed": True, "peak_bytes": 5 << 30}, "server killed"),
        ({"after_bytes": 300 * MEBIBYTE}, "250 MiB not returned"),
        ({"log_bytes": 9 * MEBIBYTE}, "9.0 MiB of log"),
        ({"unhealthy": 2}, "/healthz failed 2 times"),
        ({"health_max_ms": 2_500.0}, "/healthz after 2,500 ms"),
        ({"done": {OVERTIME: 1}}, "did not end in time"),
        ({"exit_code": -9}, "exit code -9"),
        ({"stop_seconds": 11.0}, "stopped after 11 s"),
    ],
)
def test_every_broken_limit_is_reported(changed: dict[str, Any], words: str) -> None:
    (problem,) = problems(outcome(**changed), Limits())
    assert words in problem
    assert words in rendered([outcome(**changed)], Limits())


def test_an_outcome_within_all_limits_has_held() -> None:
    assert problems(outcome(), Limits()) == []
    assert "| held   |" in rendered([outcome()], Limits())


def test_a_table_replaces_the_one_between_the_marks_of_a_page() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    written = with_table(page, "new")
    assert written == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert with_table(written, "new") == written
    with pytest.raises(ValueError, match="begin"):
        with_table("no marks", "new")


def test_operations_has_the_marks_and_every_attack() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    assert with_table(page, "new") != page
    missing = [name for name in ATTACKS if f"`{name}`" not in page]
    assert missing == []


def test_a_pause_excuses_latency_and_health_but_no_eviction() -> None:
    paused = ATTACKS["paused"]
    assert problems(outcome(paused, **members(p99=9_000.0), unhealthy=5), Limits()) == []
    assert problems(outcome(paused, **members(errors={"25": 1})), Limits()) != []


class Line:
    """Takes the place of a connection."""

    def setsockopt(self, *_: int) -> None: ...

    def setblocking(self, _: bool) -> None: ...

    def send(self, request: bytes) -> int:
        return len(request)


def asker(first_ns: int) -> Asker:
    line: Any = Line()
    return Asker(line, b"", 50, first_ns, "heartbeat")


def test_heartbeats_that_an_unanswered_one_held_up_count_from_when_they_were_due() -> None:
    due = time.time_ns()
    member = asker(due)
    member.step(due)
    sent = member.sent_ns
    member.step(due + 120 * MS)
    assert member.due_ns == due + 150 * MS
    assert member.ended(sent + 130 * MS) == [130.0, pytest.approx(80, 0.1), pytest.approx(30, 0.3)]
    assert member.sent_ns == 0


def test_heartbeats_that_the_observer_was_late_to_send_are_left_out() -> None:
    due = time.time_ns()
    member = asker(due)
    member.step(due + 220 * MS)
    assert member.due_ns == due + 250 * MS
    assert member.ended(member.sent_ns + MS) == [1.0]


def test_heartbeats_due_after_the_response_arrived_are_left_out() -> None:
    due = time.time_ns()
    member = asker(due)
    member.step(due)
    member.step(due + 220 * MS)
    assert len(member.ended(due + 70 * MS)) == 2


class Attempts(Bench):
    """Returns given outcomes, one after the other."""

    def __init__(self, *outcomes: Outcome) -> None:
        super().__init__(SHORT)
        self.left = list(outcomes)

    def run(self, _attack: Attack) -> Outcome:
        return self.left.pop(0)


def late(milliseconds: float, **changed: Any) -> Outcome:
    found = outcome(**changed)
    found.under = found.under | {"late": {"count": 1, "max": milliseconds}}
    return found


def test_a_broken_limit_is_looked_at_again_only_while_the_machine_is_disturbed() -> None:
    attack = ATTACKS["pipelining"]
    bench = Attempts(late(90.0, **members(p99=80.0)), late(1.0, **members(p99=70.0)), outcome())
    found = measured(bench, attack, Limits())
    assert found is not None
    assert "p99 70 ms" in problems(found, Limits())
    assert len(bench.left) == 1


def test_shares_of_nothing_are_zero() -> None:
    assert at_share([], 0.99) == 0.0
    assert at_share([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pipelining", "accept-storm"])
def test_a_server_holds_out_against_a_short_attack(name: str) -> None:
    found = Bench(SHORT).run(ATTACKS[name])
    assert problems(found, GENEROUS) == []
    assert found.under["heartbeat"]["count"] > 50
    assert found.done["connections"] >= 4


@pytest.mark.slow
@pytest.mark.interpreted
def test_a_server_whose_event_loop_is_blocked_is_reported() -> None:
    planted = Options(planted=["--block-loop=1.0"], quiet_seconds=0.5, seconds=2.0)
    found = Bench(planted).run(ATTACKS["limits-list-groups"])
    assert found.quiet["heartbeat"]["count"] > 50
    assert found.under["heartbeat"]["max"] > 500.0
    assert any(problem.startswith("p99") for problem in problems(found, Limits()))
