import json
from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator_server.group.rebalance_events import (
    Counts,
    Culprit,
    Outcome,
    RebalanceEvent,
    RebalanceReason,
    Round,
    Waited,
)
from coordinator_server.observe.forms import rebalance_form
from coordinator_server.observe.rebalance_lines import rebalance_fields, rebalance_line

TEXTS = st.text(st.characters(), max_size=20)
NUMBERS = st.integers(-1, 2**63 - 1)
CULPRITS = st.builds(Culprit, TEXTS, st.none() | TEXTS, TEXTS, TEXTS)
REASONS = st.sampled_from(RebalanceReason)


def some(entries: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(entries, max_size=3).map(tuple)


EVENTS = st.builds(
    RebalanceEvent,
    reason=REASONS,
    group_id=TEXTS,
    client_reason=st.none() | TEXTS,
    culprit=CULPRITS,
    state_before=TEXTS,
    outcome=st.sampled_from(Outcome),
    joined=some(CULPRITS),
    left=some(CULPRITS),
    evicted=some(CULPRITS),
    waited_for=some(st.builds(Waited, CULPRITS, NUMBERS)),
    rounds=some(st.builds(Round, REASONS, CULPRITS, st.none() | TEXTS)),
    counts=st.builds(Counts, *[NUMBERS] * 5),
    **{each.name: NUMBERS for each in fields(RebalanceEvent) if each.type is int},
)


@given(EVENTS, st.none() | st.integers(0, 4))
def test_the_fields_of_a_rebalance_are_its_form(event: RebalanceEvent, limit: int | None) -> None:
    assert f"{{{rebalance_fields(event, limit)}}}" == json.dumps(rebalance_form(event, limit))


@given(EVENTS)
def test_a_line_has_time_level_and_event_first_and_the_node_last(event: RebalanceEvent) -> None:
    line = json.loads(rebalance_line(event, 20, node_id=3))
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert list(line.items())[-1] == ("node_id", 3)
    assert line.keys() - rebalance_form(event).keys() == {"timestamp", "level", "event", "node_id"}
    assert "node_id" not in json.loads(rebalance_line(event, 20, node_id=None))
