"""Puts the JSON API's answers into words for a terminal: one page about a group."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from coordinator_server.cli.member_names import MemberNames, member_name
from coordinator_server.cli.rebalance_folding import Run, runs
from coordinator_server.clock import within_calendar
from coordinator_server.observe.printable_text import printable

Form = Mapping[str, Any]

MAX_NAMED = 5
"""Members named one by one in a line; more are counted."""
ENTRIES = 10
"""Of refusals and of rebalances, if nobody says how many."""


def print_why(group: Form, limit: int = ENTRIES) -> None:
    """A group, whom it waits for, and its rebalances, the latest first."""
    console = Console(highlight=False, soft_wrap=True)
    for line in why_lines(group, limit):
        console.print(Text(printable(line)))


def why_lines(group: Form, limit: int = ENTRIES) -> Iterable[str]:
    """What `groups why` prints: what was found, then refusals, then at most `limit` rebalances."""
    name = MemberNames(group)
    yield _headline(group)
    if group.get("current"):
        current = group["current"]
        yield (
            f"rebalancing since {when(current['started_ms'])}: {cause(current, name)}"
            f"{_listed('; waits for', group.get('waiting_for', ()), name)}"
        )
    for finding in group["findings"]:
        yield finding["sentence"]
    for finding in group.get("past_findings", ()):
        yield f"until {when(finding['last_ms'])}: {finding['sentence']}"
    if group["refusals"]:
        yield ""
    for refusal in group["refusals"][:limit]:
        yield _refusal(refusal, name)
    if len(group["refusals"]) > limit:
        yield f"{len(group['refusals']) - limit} more kinds of refusals: --limit, --format json"
    yield ""
    yield from _rebalances(group, limit, name)


def _rebalances(group: Form, limit: int, name: MemberNames) -> Iterable[str]:
    if not group["rebalances"]:
        yield "no finished rebalance is known"
    entries = runs(group["rebalances"])
    for entry in entries[:limit]:
        yield from _run_lines(entry, name)
    total = group.get("total", len(group["rebalances"]))
    more = total - sum(len(entry.events) for entry in entries[:limit])
    if more > 0:
        yield f"{more} more: `groups timeline {group['group']} --limit {total}`"


def _refusal(refusal: Form, name: MemberNames) -> str:
    """Why a member got an error, in one line; what all got is the fault of none."""
    error = f"got {refusal['error']} to {refusal['api']}"
    count, first, last = refusal["count"], refusal["first_ms"], refusal["at_ms"]
    times = f" {count} times, {_stretch(first, last)}" if count > 1 else f" at {when(last)}"
    who = _asker(refusal, name)
    if refusal.get("of_all"):
        return f"members {error}{times} (first: {who}) because {refusal['detail']}"
    return f"{who} {error}{times} because {_removal(refusal) or refusal['detail']}"


_REMOVALS = {
    "left": "it had left",
    "session_expired": "its session had expired",
    "join_timeout": "it had been given up: it did not join again in time",
    "sync_timeout": "it had been given up: it did not send SyncGroup in time",
    "pending_expired": "it had not used its member id in time",
    "admin_removed": "an operator had removed it",
    "over_capacity": "it had been turned away from the full group",
}


def _removal(refusal: Form) -> str | None:
    """What had become of a member that is unknown."""
    removed = refusal.get("removed")
    if not removed:
        return None
    told = _REMOVALS.get(removed["reason"], f"it was removed: {removed['reason']}")
    return f"{told} at {time_of_day(removed['at_ms'])}"


def _asker(refusal: Form, name: MemberNames) -> str:
    """Who was refused; requests of operators have names in small letters."""
    member = refusal["member"]
    if member["member_id"] or refusal["api"].islower():
        return name(member)
    client, instance = member["client_id"], member["group_instance_id"]
    known = f"client {client}" if client else "a client"
    return f"{known}{f' [{instance}]' if instance else ''} at {name.host(member)}"


def _headline(group: Form) -> str:
    if group["state"] is None:
        gone = "gone" if group["rebalances"] else "there is no such group"
        return f"group {group['group']}: {gone}"
    count = len(group["members"])
    return (
        f"group {group['group']}: {group['state']}, generation {group['generation']}, "
        f"{count} {'member' if count == 1 else 'members'}, protocol {group['protocol'] or '-'}"
    )


def _run_lines(run: Run, name: MemberNames) -> Iterable[str]:
    """Rebalances that are alike in one line, with what set them back; one alone in full."""
    if len(run.events) == 1:
        yield from _rebalance_lines(run.events[0], name)
        return
    outcome = "" if run.outcome == "completed" else f", {run.outcome}"
    yield (
        f"{len(run.events)} x {run.reason} by {name.party(run.culprit)}{_said(run)}{outcome}, "
        f"{_stretch(run.first_ms, run.last_ms)}, {_cost(run.spent_ms)} of rebalancing in all"
    )
    for count, reason, culprit in run.further():
        yield f"  then {count} x {reason} by {name.party(culprit)}"


def _said(run: Run) -> str:
    """The client's words; how often it said them, unless it always did."""
    if (said := run.said()) is None:
        return ""
    words, times = said
    return f' ("{words}")' if times == len(run.events) else f' ({times} x "{words}")'


def _rebalance_lines(event: Form, name: MemberNames) -> Iterable[str]:
    total_ms = event["join_phase_ms"] + event["sync_phase_ms"]
    yield (
        f"{when(event['started_ms'])}  generation {event['generation_before']} -> "
        f"{event['generation_after']}  {event['outcome']} in {total_ms} ms "
        f"(join {event['join_phase_ms']}, sync {event['sync_phase_ms']})  "
        f"members {event['members_before']} -> {event['members_after']}"
    )
    yield f"  because {cause(event, name)}"
    for entry in event["rounds"][1:]:
        yield f"  then    {cause(entry, name)}"
    # Who is named as a culprit came or went with that; it is not said twice.
    culprits = {entry["culprit"]["member_id"] for entry in (event, *event["rounds"])}
    for key in ("joined", "left", "evicted"):
        others = [member for member in event[key] if member["member_id"] not in culprits]
        if others:
            yield f"  {_listed(key, others, name)}"
    if event["waited_for"]:
        yield f"  {_waited(event['waited_for'], name)}"


def _waited(members: Sequence[Form], name: MemberNames) -> str:
    named = [f"{name(each)} ({each['waited_ms']} ms)" for each in members[:MAX_NAMED]]
    more = f" and {len(members) - MAX_NAMED} more" if len(members) > MAX_NAMED else ""
    return f"waited for {', '.join(named)}{more}"


def cause(entry: Form, name: Callable[[Form], str] = member_name) -> str:
    """The reason and the culprit of a rebalance or of a round of it, with the client's words."""
    said = entry.get("client_reason")
    return f"{entry['reason']} by {name(entry['culprit'])}" + (f' ("{said}")' if said else "")


def _listed(title: str, members: Iterable[Form], name: MemberNames) -> str:
    named = [name(member) for member in members]
    if not named:
        return ""
    more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    return f"{title} {', '.join(named[:MAX_NAMED])}{more}"


def _cost(span_ms: int) -> str:
    return f"{span_ms} ms" if span_ms < 1000 else age(span_ms)


def age(span_ms: float) -> str:
    """A span of time in at most two units."""
    seconds = max(0, int(span_ms / 1000))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def when(wall_ms: int) -> str:
    """A point in time as this machine's clock shows it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(within_calendar(wall_ms) / 1000))


def time_of_day(wall_ms: int) -> str:
    """The same without the day."""
    return when(wall_ms)[-8:]


def _stretch(first_ms: int, last_ms: int) -> str:
    """From when to when; the day is said once if it is the same."""
    first, last = when(first_ms), when(last_ms)
    return f"{first} to {last[-8:] if first[:10] == last[:10] else last}"
