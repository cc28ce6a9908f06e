"""Prints one page about a group in a terminal, from an answer of the JSON API."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from coordinator_server.cli.member_names import MemberNames, member_name
from coordinator_server.cli.rebalance_folding import FoldedRebalances, fold
from coordinator_server.cli.rebalance_sentences import cause_clause, removal_clause
from coordinator_server.clock import within_calendar
from coordinator_server.observe.printable_text import printable

Form = Mapping[str, Any]

MAX_NAMED = 5
"""Members named in one line; the line counts the others."""
DEFAULT_ENTRIES = 10
"""Refusals and rebalances without --limit."""

_OUTCOMES = {
    "completed": "completed in",
    "emptied": "left the group empty after",
    "aborted": "was aborted after",
}
_FOLDED_OUTCOMES = {
    "completed": "",
    "emptied": " and left the group empty",
    "aborted": " and were aborted",
}


def print_why(group: Form, limit: int = DEFAULT_ENTRIES) -> None:
    """Print the state of a group, its refused requests and its rebalances, the latest first."""
    console = Console(highlight=False, soft_wrap=True)
    for line in why_lines(group, limit):
        console.print(Text(printable(line)))


def why_lines(group: Form, limit: int = DEFAULT_ENTRIES) -> Iterable[str]:
    """The lines of `groups why`: findings, then at most `limit` refusals and rebalances each."""
    name = MemberNames(group)
    yield _headline(group)
    if group.get("current"):
        current = group["current"]
        yield (
            f"rebalancing since {when(current['started_ms'])} because {cause(current, name)}"
            f"{_listed('; it waits for', group.get('waiting_for', ()), name)}"
        )
    for finding in group["findings"]:
        yield finding["sentence"]
    for finding in group.get("past_findings", ()):
        yield f"until {when(finding['last_ms'])}: {finding['sentence']}"
    if group["refusals"]:
        yield ""
    for refusal in group["refusals"][:limit]:
        yield _refusal(refusal, name)
    if (more := len(group["refusals"]) - limit) > 0:
        yield f"{more} more kinds of refusals are known: use a higher --limit or --format json"
    yield ""
    yield from _rebalances(group, limit, name)


def _rebalances(group: Form, limit: int, name: MemberNames) -> Iterable[str]:
    if not group["rebalances"]:
        yield "no finished rebalance is known"
    entries = fold(group["rebalances"])
    for entry in entries[:limit]:
        yield from _entry_lines(entry, name)
    total = group.get("total", len(group["rebalances"]))
    more = total - sum(len(entry.events) for entry in entries[:limit])
    if more > 0:
        yield f"{more} more are known: `groups timeline {group['group']} --limit {total}` lists all"


def _refusal(refusal: Form, name: MemberNames) -> str:
    count, first, last = refusal["count"], refusal["first_ms"], refusal["at_ms"]
    sender, is_of_all = _sender(refusal, name), refusal.get("of_all")
    noun = "heartbeat" if refusal["api"] == "Heartbeat" else f"{refusal['api']} request"
    answered = f"{refusal['error']}{_normality(refusal['error'])}"
    requests = f"{count} {noun}{'' if count == 1 else 's'}{'' if is_of_all else f' of {sender}'}"
    times = f"{'was' if count == 1 else 'were'} answered {answered} {_stretch(first, last)}"
    if count == 1:
        times = f"was answered {answered} at {when(last)}"
    first_sender = f" (the first came from {sender})" if is_of_all else ""
    return f"{requests} {times}{first_sender} because {_removal(refusal) or refusal['detail']}"


def _normality(error: str) -> str:
    return " (normal during a rebalance)" if error == "REBALANCE_IN_PROGRESS" else ""


def _removal(refusal: Form) -> str | None:
    removed = refusal.get("removed")
    if not removed:
        return None
    return f"{removal_clause(removed['reason'])} at {time_of_day(removed['at_ms'])}"


def _sender(refusal: Form, name: MemberNames) -> str:
    member = refusal["member"]
    # The names of an operator's requests are in lower case, those of Kafka's APIs are not.
    if member["member_id"] or refusal["api"].islower():
        return name(member)
    client, instance = member["client_id"], member["group_instance_id"]
    known = f"client {client}" if client else "a client"
    return f"{known}{f' [{instance}]' if instance else ''} at {name.host(member)}"


def _headline(group: Form) -> str:
    if group["state"] is None:
        if group["rebalances"]:
            return f"group {group['group']}: it no longer exists"
        return f"group {group['group']}: there is no such group"
    count = len(group["members"])
    return (
        f"group {group['group']}: {group['state']}, generation {group['generation']}, "
        f"{count} {'member' if count == 1 else 'members'}, protocol {group['protocol'] or '-'}"
    )


def _entry_lines(entry: FoldedRebalances, name: MemberNames) -> Iterable[str]:
    if len(entry.events) == 1:
        yield from _rebalance_lines(entry.events[0], name)
        return
    outcome = _FOLDED_OUTCOMES.get(entry.outcome, f" and ended {entry.outcome}")
    yield (
        f"{len(entry.events)} rebalances {_stretch(entry.first_ms, entry.last_ms)} took "
        f"{_duration(entry.total_ms)} in all{outcome}, each because "
        f"{cause_clause(entry.reason, name.party(entry.culprit))}{_client_reason(entry)}"
    )
    for count, reason, culprit in entry.restarts():
        times = "once" if count == 1 else f"{count} times"
        yield f"  restarted {times} because {cause_clause(reason, name.party(culprit))}"


def _client_reason(entry: FoldedRebalances) -> str:
    if (found := entry.client_reason()) is None:
        return ""
    reason, count = found
    times = "" if count == len(entry.events) else " once" if count == 1 else f" {count} times"
    return f' (reason given{times}: "{reason}")'


def _rebalance_lines(event: Form, name: MemberNames) -> Iterable[str]:
    total_ms = event["join_phase_ms"] + event["sync_phase_ms"]
    yield (
        f"{when(event['started_ms'])}: generation {event['generation_before']} -> "
        f"{event['generation_after']} {_OUTCOMES.get(event['outcome'], event['outcome'])} "
        f"{total_ms} ms (join {event['join_phase_ms']} ms, sync {event['sync_phase_ms']} ms), "
        f"members {event['members_before']} -> {event['members_after']}"
    )
    yield f"  because {cause(event, name)}"
    for entry in event["rounds"][1:]:
        yield f"  restarted because {cause(entry, name)}"
    # The lines above name the culprits, most of which also joined, left or were evicted.
    culprits = {entry["culprit"]["member_id"] for entry in (event, *event["rounds"])}
    for key in ("joined", "left", "evicted"):
        others = [member for member in event[key] if member["member_id"] not in culprits]
        if others:
            yield f"  {_listed(f'{key}:', others, name)}"
    if event["waited_for"]:
        yield f"  {_waited(event['waited_for'], name)}"


def _waited(members: Sequence[Form], name: MemberNames) -> str:
    named = [f"{name(each)} ({each['waited_ms']} ms)" for each in members[:MAX_NAMED]]
    more = f" and {len(members) - MAX_NAMED} more" if len(members) > MAX_NAMED else ""
    return f"waited for {', '.join(named)}{more}"


def cause(entry: Form, name: Callable[[Form], str] = member_name) -> str:
    """The clause after "because" for a rebalance or one of its rounds."""
    return cause_clause(entry["reason"], name(entry["culprit"]), entry.get("client_reason"))


def _listed(title: str, members: Iterable[Form], name: MemberNames) -> str:
    named = [name(member) for member in members]
    if not named:
        return ""
    more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    return f"{title} {', '.join(named[:MAX_NAMED])}{more}"


def _duration(span_ms: int) -> str:
    return f"{span_ms} ms" if span_ms < 1000 else age(span_ms)


def age(span_ms: float) -> str:
    """A duration in at most two units."""
    seconds = max(0, int(span_ms / 1000))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def when(wall_ms: int) -> str:
    """The local date and time of wall-clock milliseconds."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(within_calendar(wall_ms) / 1000))


def time_of_day(wall_ms: int) -> str:
    """The local time of day of wall-clock milliseconds."""
    return when(wall_ms)[-8:]


def _stretch(first_ms: int, last_ms: int) -> str:
    """A stretch of time; the end has no date if it is on the first day."""
    first, last = when(first_ms), when(last_ms)
    return f"from {first} to {last[-8:] if first[:10] == last[:10] else last}"
