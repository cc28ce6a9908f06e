"""Puts the JSON API's answers into words and tables for a terminal."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

Form = Mapping[str, Any]

MAX_NAMED = 5
"""Members named one by one in a line; more are counted."""


def print_why(group: Form) -> None:
    """A group, whom it waits for, and its rebalances, the latest first."""
    console = _console()
    for line in why_lines(group):
        console.print(Text(line))


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def why_lines(group: Form) -> Iterable[str]:
    """What `groups why` prints."""
    yield _headline(group)
    if group.get("current"):
        current = group["current"]
        yield (
            f"rebalancing since {when(current['started_ms'])}: {cause(current)}"
            f"{_listed('; waits for', group.get('waiting_for', ()))}"
        )
    for finding in group["findings"]:
        yield finding["sentence"]
    if not group["rebalances"]:
        yield "no finished rebalance is known"
    for event in group["rebalances"]:
        yield ""
        yield from _rebalance_lines(event)
    if group["refusals"]:
        yield ""
    for refusal in group["refusals"]:
        yield _refusal(refusal)


def _refusal(refusal: Form) -> str:
    """Why a member got an error, in one line."""
    times = f", {refusal['count']} times since {when(refusal['first_ms'])}"
    return (
        f"{_asker(refusal)} got {refusal['error']} to {refusal['api']} at "
        f"{when(refusal['at_ms'])} because {refusal['detail']}"
        f"{times if refusal['count'] > 1 else ''}"
    )


def _asker(refusal: Form) -> str:
    """Who was refused; requests of operators have names in small letters."""
    member = refusal["member"]
    if member["member_id"] or refusal["api"].islower():
        return member_name(member)
    client, instance = member["client_id"], member["group_instance_id"]
    name = f"client {client}" if client else "a client"
    return name + (f" [{instance}]" if instance else "") + f" at {member['client_host'] or '-'}"


def _headline(group: Form) -> str:
    if group["state"] is None:
        gone = "gone" if group["rebalances"] else "there is no such group"
        return f"group {group['group']}: {gone}"
    count = len(group["members"])
    return (
        f"group {group['group']}: {group['state']}, generation {group['generation']}, "
        f"{count} {'member' if count == 1 else 'members'}, protocol {group['protocol'] or '-'}"
    )


def _rebalance_lines(event: Form) -> Iterable[str]:
    total_ms = event["join_phase_ms"] + event["sync_phase_ms"]
    yield (
        f"{when(event['started_ms'])}  generation {event['generation_before']} -> "
        f"{event['generation_after']}  {event['outcome']} in {total_ms} ms "
        f"(join {event['join_phase_ms']}, sync {event['sync_phase_ms']})  "
        f"members {event['members_before']} -> {event['members_after']}"
    )
    yield f"  because {cause(event)}"
    for entry in event["rounds"][1:]:
        yield f"  then    {cause(entry)}"
    for key in ("joined", "left", "evicted"):
        if event[key]:
            yield f"  {_listed(key, event[key])}"
    if event["waited_for"]:
        yield f"  {_waited(event['waited_for'])}"


def _waited(members: Sequence[Form]) -> str:
    named = [f"{member_name(each)} ({each['waited_ms']} ms)" for each in members[:MAX_NAMED]]
    more = f" and {len(members) - MAX_NAMED} more" if len(members) > MAX_NAMED else ""
    return f"waited for {', '.join(named)}{more}"


def cause(entry: Form) -> str:
    """The reason and the culprit of a rebalance or of a round of it, with the client's words."""
    said = entry.get("client_reason")
    return f"{entry['reason']} by {member_name(entry['culprit'])}" + (
        f' ("{said}")' if said else ""
    )


def member_name(culprit: Form) -> str:
    """A member in a line; the client id is named where the member id does not begin with it."""
    if not culprit["member_id"]:
        return "an operator"
    name, client = str(culprit["member_id"]), culprit["client_id"]
    if instance := culprit["group_instance_id"]:
        name += f" [{instance}]"
    if client and not name.startswith(client):
        name += f" of client {client}"
    return f"{name} at {culprit['client_host'] or '-'}"


def _listed(title: str, members: Iterable[Form]) -> str:
    named = [member_name(member) for member in members]
    if not named:
        return ""
    more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    return f"{title} {', '.join(named[:MAX_NAMED])}{more}"


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
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_ms / 1000))
