"""The table of states and events against the group itself."""

from collections.abc import Callable, Iterator
from typing import get_args

import pytest
from _pytest.mark.structures import ParameterSet

from coordinator_server.group.classic.state import VALID_PREVIOUS_STATES, ClassicGroupState
from coordinator_server.group.events import Event
from coordinator_server.group.purgatory import NEVER
from tests.specification.table import TABLE, Row, Situation
from tests.support.state_table_groups import MemberOptions, SituationHarness
from tests.support.state_table_triggers import MEMBER_OPTIONS, TRIGGERS

PREPARING = ClassicGroupState.PREPARING_REBALANCE


def pairs(*, possible: bool) -> list[ParameterSet]:
    return [
        pytest.param(row, situation, id=f"{row.key}-{situation.name.lower()}")
        for row in TABLE
        for situation, entry in row.entries.items()
        if situation is not Situation.DEAD and possible != bool(entry.never)
    ]


def harness_for(row: Row, situation: Situation) -> SituationHarness:
    return SituationHarness(situation, MEMBER_OPTIONS.get(row.key, MemberOptions()))


@pytest.mark.parametrize(("row", "situation"), pairs(possible=True))
def test_a_group_does_what_the_table_says(row: Row, situation: Situation) -> None:
    harness = harness_for(row, situation)
    request = TRIGGERS[row.key](harness)
    assert harness.outcome(request) == row.entries[situation]


def everybody_waits(harness: SituationHarness) -> bool:
    return all(member.waits for member in harness.classic.members.values())


def has_no_join_deadline(harness: SituationHarness) -> bool:
    return not harness.has_members or harness.classic.purgatory.join is None


WHY_NEVER: dict[str, Callable[[SituationHarness], bool]] = {
    "there are no members": lambda harness: not harness.has_members,
    "there is no history": lambda harness: not harness.driver.group.past,
    "there are no offsets": lambda harness: not harness.driver.group.offsets,
    "only a group hands out member ids": lambda harness: harness.driver.group.kind is None,
    "no record names members": lambda harness: not harness.driver.durable.members,  # type: ignore[union-attr]
    "nobody is waited for": has_no_join_deadline,
    "the delay waits for nobody": everybody_waits,
    "all who are members have joined": everybody_waits,
    "something of every member is parked": everybody_waits,
    "nobody has been answered": lambda harness: not harness.classic.pending_sync,
    "nothing is parked": lambda harness: not harness.driver.parked,
    "this is no initial delay": lambda harness: not harness.classic.purgatory.join.initial,  # type: ignore[union-attr]
    "no SyncGroup is waited for": lambda harness: harness.classic.purgatory.sync is None,
    "every member has had an answer": lambda harness: all(
        not member.is_new and member.session_deadline < NEVER
        for member in harness.classic.members.values()
    ),
}


@pytest.mark.parametrize(("row", "situation"), pairs(possible=False))
def test_what_cannot_happen_cannot_for_the_reason_given(row: Row, situation: Situation) -> None:
    assert WHY_NEVER[row.entries[situation].never](harness_for(row, situation))


def test_every_pair_of_state_and_event_has_an_outcome() -> None:
    assert {row.event for row in TABLE} == set(get_args(Event))
    assert {situation.state for situation in Situation} == {None, *ClassicGroupState}
    for row in TABLE:
        assert row.entries.keys() == set(Situation), row.key


def test_every_row_is_tried() -> None:
    assert [row.key for row in TABLE] == list(TRIGGERS)
    assert MEMBER_OPTIONS.keys() <= TRIGGERS.keys()


def transitions() -> Iterator[tuple[ClassicGroupState, ClassicGroupState]]:
    """Each change of state in the table, step by step; loads and deletions are none."""
    for row in TABLE:
        for situation, entry in row.entries.items():
            before = situation.state
            after = None if entry.then is None else entry.then.state
            if row.key.startswith("loaded") or before is None or after in (None, before):
                continue
            if before not in VALID_PREVIOUS_STATES[after] and entry.reason is not None:
                yield before, PREPARING
                before = PREPARING
            yield before, after


def test_the_table_has_every_legal_transition_and_no_other() -> None:
    legal = {
        (before, after)
        for after, previous in VALID_PREVIOUS_STATES.items()
        for before in previous
        if ClassicGroupState.DEAD not in (before, after)
    }
    assert set(transitions()) == legal


def test_no_group_is_ever_dead() -> None:
    assert all(entry.then is not Situation.DEAD for row in TABLE for entry in row.entries.values())
