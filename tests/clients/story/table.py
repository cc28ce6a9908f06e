"""The table of a story: each row of the script beside what every surface said of it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.clients.story.script import NOTHING, Row, Story
from tests.clients.story.surfaces import Told

AGREED = "yes"


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the script and what was said, by surface."""

    row: Row
    told: Mapping[str, str]
    """`yes` where it is what the script says, else what was said."""


def lines(story: Story, told: Mapping[str, Told]) -> list[Line]:
    """The script's rows, then what surfaces say beyond the script."""
    at: Counter[str] = Counter()
    made = []
    for row, metric in zip(story.rows, story.metric, strict=True):
        cells = {"metric": metric if metric != (row.reason or NOTHING) else AGREED}
        for surface, groups in told.items():
            found = _at(groups, row.group, at[row.group]) if row.reason else NOTHING
            cells[surface] = AGREED if found == (row.said) else found
        at[row.group] += 1 if row.reason else 0
        made.append(Line(row, cells))
    return made + [_beyond(group, told, count) for group, count in at.items()]


def _at(groups: Told, group: str, index: int) -> str:
    told = groups.get(group, [])
    return told[index] if index < len(told) else "says nothing"


def _beyond(group: str, told: Mapping[str, Told], count: int) -> Line:
    """A last row for what is more than the script has."""
    cells = {"metric": AGREED}
    for surface, groups in told.items():
        cells[surface] = "; ".join(groups.get(group, [])[count:]) or AGREED
    return Line(Row(group, "nothing else", ""), cells)


def disagreements(made: list[Line]) -> list[Line]:
    """Rows of which something else was said."""
    return [line for line in made if set(line.told.values()) != {AGREED}]


def markdown(made: list[Line]) -> Iterator[str]:
    """The table."""
    surfaces = list(made[0].told)
    yield f"| group | what was done | reason and culprit | {' | '.join(surfaces)} |"
    yield "|---|---|---|" + "---|" * len(surfaces)
    for line in made:
        cells = " | ".join(line.told.values())
        yield f"| {line.row.group} | {line.row.done} | {line.row.said} | {cells} |"
