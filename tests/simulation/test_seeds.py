"""Worlds made from seeds: no rule is broken, and the same seed makes the same world."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.simulation.run import play, report
from tests.simulation.script import Act, Script, script_of

pytestmark = pytest.mark.sim

SEEDS = 160
PORTION = 40


@pytest.mark.parametrize("first", range(0, SEEDS, PORTION))
def test_no_seed_breaks_a_rule(first: int) -> None:
    for seed in range(first, first + PORTION):
        if play(script_of(seed)).broken:
            pytest.fail(report(seed), pytrace=False)


def test_a_seed_makes_the_same_world_every_time() -> None:
    for seed in range(10):
        once, again = (play(script_of(seed), transcript=True) for _ in range(2))
        assert once.transcript == again.transcript


def lockstep(script: Script, *, mailbox: bool) -> Script:
    setup = replace(script.setup, lockstep=True, mailbox=mailbox)
    # Single callbacks mean different things in the two worlds; everything runs in both anyway.
    return Script(setup, [step for step in script.steps if step.act is not Act.RUN])


def by_speaker(transcript: Sequence[str]) -> dict[str, list[str]]:
    """What each client heard and each group was said to have done; between them, any order."""
    on_response: dict[str, list[str]] = {}
    for line in transcript:
        if "observes Refused" in line:
            # Whoever was refused has heard it; who is named for several at once is not settled.
            continue
        speaker = re.search(r" of (\S+ in \S+):|(observes \w+)", line)
        assert speaker is not None
        on_response.setdefault(speaker[0], []).append(line)
    return on_response


def test_inline_turns_and_the_mailbox_give_the_same_answers() -> None:
    for seed in range(40):
        inline, mailbox = (
            play(lockstep(script_of(seed), mailbox=mailbox), transcript=True)
            for mailbox in (False, True)
        )
        assert not inline.broken
        assert by_speaker(inline.transcript) == by_speaker(mailbox.transcript), f"seed {seed}"


def test_the_worlds_are_rich() -> None:
    """Everything the rules are about does happen, or the rules would say nothing."""
    seen: Counter[str] = Counter()
    for seed in range(80):
        for line in play(script_of(seed), transcript=True).transcript:
            seen.update(word for word in WORDS if word in line)
    assert [word for word in WORDS if not seen[word]] == []


WORDS = (
    "Joined",
    "Synced",
    "Committed",
    "Fetched",
    "Left",
    "UNKNOWN_MEMBER_ID",
    "ILLEGAL_GENERATION",
    "REBALANCE_IN_PROGRESS",
    "MEMBER_ID_REQUIRED",
    "assignment_too_large",
    "'topic_deleted'",
    "FENCED_INSTANCE_ID",
    "NON_EMPTY_GROUP",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "session_expired",
    "join_timeout",
    "sync_timeout",
    "pending_expired",
    "static_replaced",
    "'aborted'",
    "'emptied'",
    "'expired'",
)
