"""Prints `docs/states.md` from the table of states and events."""

from collections.abc import Iterator

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.classic.state import VALID_PREVIOUS_STATES, ClassicGroupState
from coordinator_server.group.events import Loaded
from tests.specification.table import TABLE, Answer, Entry, Row, Situation

COLUMNS = [situation for situation in Situation if situation is not Situation.DEAD]
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE

INTRODUCTION = """\
What every event does to a classic group, wherever the group stands. The table is
`tests/specification`; `tests/unit/group/test_states.py` puts a group into each
situation, lets each event happen, and compares. A pair without an outcome is an error there.

A cell says, in this order:

- what whoever asked is answered: an error, `NONE` for success, or *parked*: the answer comes with
  a later event. Time, loads and sweeps ask for nothing
- → the state the group is in afterwards, if it is another one
- **why** a rebalance begins, or a further round of the one under way
- what is removed, for what reason
- what requests that were parked before are answered
- which records are written; answers wait until they are durable
- whether the session of the member in question starts anew

*absent* is a group id without a group: it was never used, or the group has ended. Kafka calls the
moment between Dead; here a group that ends is absent at once, and no group is ever Dead. Generated
member ids that were handed out and not yet used are called handed out (Kafka: pending).
"""


def states_page(note: str) -> str:
    """The whole page."""
    lines = ["# States and events", "", note, "", INTRODUCTION, *_diagram()]
    for event in dict.fromkeys(row.event for row in TABLE):
        lines += ["", f"## {event.__name__}", ""]
        lines += _table([row for row in TABLE if row.event is event])
    return "\n".join(lines) + "\n"


def _table(rows: list[Row]) -> Iterator[str]:
    yield f"| of, or because | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    for row in rows:
        cells = (_cell(row.entries[situation]) for situation in COLUMNS)
        yield f"| {row.occasion} | {' | '.join(cells)} |"


def _cell(entry: Entry) -> str:
    if entry.never:
        return f"*never: {entry.never}*"
    return "<br>".join(_parts(entry)) or "nothing"


def _parts(entry: Entry) -> Iterator[str]:
    match entry.answer:
        case ErrorCode():
            yield f"`{entry.answer.name}`"
        case Answer.PARKED:
            yield "*parked*"
    if entry.then is not None:
        yield f"→ {entry.then}"
    if entry.reason is not None:
        yield f"**{entry.reason}**"
    if entry.removes is not None:
        yield f"removed: {entry.removes}"
    if entry.releases:
        yield "parked before: " + ", ".join(f"`{error.name}`" for error in sorted(entry.releases))
    if entry.writes:
        yield "writes " + ", ".join(sorted(entry.writes))
    if entry.renews:
        yield "session renewed"


# --- the diagram ---


def _diagram() -> Iterator[str]:
    """Every legal transition with what brings it about."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield "    [*] --> Empty: first JoinGroup, or a simple consumer's commit"
    for before, after in _edges():
        yield f"    {before} --> {after}: {'<br>'.join(_labels(before, after))}"
    yield "    Empty --> [*]: DeleteGroups, or the last offset expires"
    yield "```"


def _edges() -> list[tuple[ClassicGroupState, ClassicGroupState]]:
    """The legal transitions, in the order of the states' lives; nothing becomes Dead."""
    order = [s for s in ClassicGroupState if s is not ClassicGroupState.DEAD]
    return [
        (before, after)
        for before in order
        for after in order
        if before in VALID_PREVIOUS_STATES[after]
    ]


def _labels(before: ClassicGroupState, after: ClassicGroupState) -> list[str]:
    """The reasons of a rebalance; of the other transitions, what ends a phase."""
    if after is PREPARING:
        return sorted({str(entry.reason) for entry in _leading(before) if entry.reason})
    return [_ENDS_OF_PHASES[before, after]]


def _leading(before: ClassicGroupState) -> Iterator[Entry]:
    """The entries that begin a rebalance in a state, even if it is over in the same turn."""
    for row in TABLE:
        for situation, entry in row.entries.items():
            # A load restores an Empty or a Stable group, whatever the group was before.
            restored = row.event is Loaded and situation is not Situation.STABLE
            if situation.state is before and entry.then is not None and not restored:
                yield entry


_ENDS_OF_PHASES = {
    (PREPARING, COMPLETING): "everybody has joined, or the time to join is over",
    (PREPARING, ClassicGroupState.EMPTY): "nobody is left",
    (COMPLETING, ClassicGroupState.STABLE): "the leader's SyncGroup",
}
