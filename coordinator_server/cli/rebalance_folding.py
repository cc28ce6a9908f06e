"""Folds similar rebalances of a flapping group into one entry.

The page does the same in `observe/web/rebalance_folding.js`; a test compares the two.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator_server.cli.member_names import Party, party_of

Form = Mapping[str, Any]

MIN_FOLDED = 3
"""Fewer similar rebalances stay separate."""
MAX_GAP_MS = 600_000
"""The longest time between the starts of two consecutive rebalances of one entry."""
MAX_RESTARTS = 3
"""Causes of restarts listed per entry."""


class FoldedRebalances(NamedTuple):
    """Rebalances with the same reason, culprit and outcome, the latest first; or a single one."""

    events: Sequence[Form]

    @property
    def reason(self) -> str:
        """The common reason."""
        return str(self.events[0]["reason"])

    @property
    def outcome(self) -> str:
        """The common outcome."""
        return str(self.events[0]["outcome"])

    @property
    def culprit(self) -> Form:
        """The culprit of the latest rebalance."""
        found: Form = self.events[0]["culprit"]
        return found

    @property
    def first_ms(self) -> int:
        """Start of the first rebalance (wall-clock milliseconds)."""
        return int(self.events[-1]["started_ms"])

    @property
    def last_ms(self) -> int:
        """Start of the last rebalance (wall-clock milliseconds)."""
        return int(self.events[0]["started_ms"])

    @property
    def total_ms(self) -> int:
        """Duration of all rebalances together."""
        return sum(event["join_phase_ms"] + event["sync_phase_ms"] for event in self.events)

    def client_reason(self) -> tuple[str, int] | None:
        """The most frequent reason given by the client and its count; None if it gave none."""
        reasons = Counter(e["client_reason"] for e in self.events if e.get("client_reason"))
        return reasons.most_common(1)[0] if reasons else None

    def restarts(self) -> list[tuple[int, str, Form]]:
        """Count, reason and culprit of the rounds that restarted the rebalances."""
        rounds = [entry for event in self.events for entry in event["rounds"][1:]]
        counts = Counter((entry["reason"], party_of(entry["culprit"])) for entry in rounds)
        latest = {(e["reason"], party_of(e["culprit"])): e["culprit"] for e in reversed(rounds)}
        return [(count, key[0], latest[key]) for key, count in counts.most_common(MAX_RESTARTS)]


def fold(events: Iterable[Form]) -> list[FoldedRebalances]:
    """Fold rebalances given the latest first; an entry keeps the position of its latest one.

    Rebalances of two flapping members interleave, so other rebalances may lie between those of one
    entry.
    """
    found: list[list[Form]] = []
    open_entries: dict[tuple[str, str, Party], list[Form]] = {}
    for event in events:
        key = (event["reason"], event["outcome"], party_of(event["culprit"]))
        entry = open_entries.get(key)
        if entry is None or entry[-1]["started_ms"] - event["started_ms"] > MAX_GAP_MS:
            entry = open_entries[key] = []
            found.append(entry)
        entry.append(event)
    single = [[event] for entry in found if len(entry) < MIN_FOLDED for event in entry]
    folded = [entry for entry in found if len(entry) >= MIN_FOLDED]
    entries = sorted((*single, *folded), key=lambda entry: -entry[0]["started_ms"])
    return [FoldedRebalances(entry) for entry in entries]
