"""Puts the JSON API's answers into words and tables for a terminal."""

import time
from collections.abc import Iterable, Mapping
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
    if not group["rebalances"]:
        yield "no finished rebalance since the server started"
    for event in group["rebalances"]:
        yield ""
        yield from _rebalance_lines(event)


def _headline(group: Form) -> str:
    if group["state"] is None:
        return f"group {group['group']}: gone"
    return (
        f"group {group['group']}: {group['state']}, generation {group['generation']}, "
        f"{len(group['members'])} members, protocol {group['protocol'] or '-'}"
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
        yield f"  {_listed('last to come:', event['waited_for'])}"


def cause(entry: Form) -> str:
    """The reason and the culprit of a rebalance or of a round of it, with the client's words."""
    said = entry.get("client_reason")
    return f"{entry['reason']} by {member_name(entry['culprit'])}" + (
        f' ("{said}")' if said else ""
    )


def member_name(culprit: Form) -> str:
    """A member in a line."""
    instance = culprit["group_instance_id"]
    name = culprit["member_id"] or "(no member)"
    return name + (f" [{instance}]" if instance else "") + f" at {culprit['client_host'] or '-'}"


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
