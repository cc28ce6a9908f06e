"""Folds the rebalances of a flapping group: those that are alike, and close, are one entry."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator_server.cli.member_names import Party, party_of

Form = Mapping[str, Any]

LEAST = 3
"""Fewer that are alike are told one by one."""
APART_MS = 600_000
"""What is further apart than this is not the same story."""
FURTHER = 3
"""Causes of further rounds that are told of a run."""


class Run(NamedTuple):
    """Rebalances with the same reason, culprit and outcome, the latest first; or one alone."""

    events: Sequence[Form]

    @property
    def reason(self) -> str:
        """Of each, as `outcome`."""
        return str(self.events[0]["reason"])

    @property
    def outcome(self) -> str:
        """How they ended."""
        return str(self.events[0]["outcome"])

    @property
    def culprit(self) -> Form:
        """The latest."""
        found: Form = self.events[0]["culprit"]
        return found

    @property
    def first_ms(self) -> int:
        """When the first began, as `last_ms`."""
        return int(self.events[-1]["started_ms"])

    @property
    def last_ms(self) -> int:
        """When the last began."""
        return int(self.events[0]["started_ms"])

    @property
    def spent_ms(self) -> int:
        """What they took together."""
        return sum(event["join_phase_ms"] + event["sync_phase_ms"] for event in self.events)

    def said(self) -> tuple[str, int] | None:
        """What the client gave as its reason most often, and how often; None if it gave none."""
        words = Counter(e["client_reason"] for e in self.events if e.get("client_reason"))
        return words.most_common(1)[0] if words else None

    def further(self) -> list[tuple[int, str, Form]]:
        """What set them back while they were under way: how often, reason and culprit."""
        rounds = [entry for event in self.events for entry in event["rounds"][1:]]
        counts = Counter((entry["reason"], party_of(entry["culprit"])) for entry in rounds)
        latest = {(e["reason"], party_of(e["culprit"])): e["culprit"] for e in reversed(rounds)}
        return [(count, key[0], latest[key]) for key, count in counts.most_common(FURTHER)]


def runs(events: Iterable[Form]) -> list[Run]:
    """The rebalances, the latest first; a run stands where its latest stood.

    Two that flap make each other's rebalances follow no order: a run may have others in between.
    """
    found: list[list[Form]] = []
    open_runs: dict[tuple[str, str, Party], list[Form]] = {}
    for event in events:
        key = (event["reason"], event["outcome"], party_of(event["culprit"]))
        run = open_runs.get(key)
        if run is None or run[-1]["started_ms"] - event["started_ms"] > APART_MS:
            run = open_runs[key] = []
            found.append(run)
        run.append(event)
    alone = [[event] for run in found if len(run) < LEAST for event in run]
    folded = [run for run in found if len(run) >= LEAST]
    entries = sorted((*alone, *folded), key=lambda run: -run[0]["started_ms"])
    return [Run(run) for run in entries]
