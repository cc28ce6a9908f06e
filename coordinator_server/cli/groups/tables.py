"""Prints tables of groups; the columns have their names in kafka-consumer-groups.sh and rpk."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from coordinator_server.cli.group_report import age, cause, when
from coordinator_server.cli.member_names import member_name
from coordinator_server.observe.printable_text import printable

Form = Mapping[str, Any]

NO_VALUE = "-"
UNWRAPPED_WIDTH = 10_000
"""Characters, more than any line has."""


def console() -> Console:
    """A console as wide as the terminal; output to a pipe or file has no line breaks."""
    width = None if sys.stdout.isatty() else UNWRAPPED_WIDTH
    return Console(highlight=False, soft_wrap=True, width=width)


def _text(line: str) -> Text:
    """A line or cell in which control characters from client ids are escaped."""
    return Text(printable(line))


def print_table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; `>` before a column's name aligns it to the right, None becomes `-`."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        is_number = column.startswith(">")
        table.add_column(
            column.lstrip(">"), justify="right" if is_number else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(_text(NO_VALUE if cell in (None, "") else str(cell)) for cell in row))
    console().print(table)


def print_groups(groups: Iterable[Form]) -> None:
    """Print groups with the reason of their last rebalance."""
    columns = ("GROUP", "STATE", "PROTOCOL", ">GENERATION", ">MEMBERS", "LAST REBALANCE")
    print_table(columns, ((*_summary(group), _last(group["last_rebalance"])) for group in groups))


def print_findings(findings: Sequence[Form]) -> None:
    """Print flapping members and rebalance storms below the list."""
    out = console()
    for number, finding in enumerate(findings):
        if not number:
            out.print()
        out.print(_text(finding["sentence"]))


def _summary(group: Form) -> tuple[object, ...]:
    return tuple(group[key] for key in ("group", "state", "protocol", "generation", "members"))


def _last(event: Form | None) -> str:
    return f"{when(event['started_ms'])} {event['reason']}" if event else ""


def print_kafka_groups(groups: Iterable[Form]) -> None:
    """Print groups with the fields of ListGroups."""
    keys = ("coordinator", "group", "protocol_type", "state")
    columns = ("BROKER", "GROUP", "TYPE", "STATE")
    print_table(columns, ([group[key] for key in keys] for group in groups))


def print_group(group: Form) -> None:
    """Print a group's header as rpk does."""
    lags = [entry["lag"] for entry in group["offsets"] if entry.get("lag") is not None]
    lines = {
        "GROUP": group["group"],
        "COORDINATOR": group.get("coordinator"),
        "STATE": group["state"],
        "BALANCER": group["protocol"] or NO_VALUE,
        "GENERATION": group.get("generation"),
        "MEMBERS": len(group["members"]),
        "TOTAL-LAG": sum(lags) if lags else None,
    }
    out = console()
    for title, value in lines.items():
        if value is not None:
            out.print(_text(f"{title:<12} {value}"))
    out.print()


def print_offsets(group: Form) -> None:
    """Print offsets with the member that reads each partition."""
    has_ends = any("end_offset" in entry for entry in group["offsets"])
    owners = {
        (topic, number): member
        for member in group["members"]
        for topic, numbers in member["assigned"].items()
        for number in numbers
    }
    columns = ["TOPIC", ">PARTITION", ">CURRENT-OFFSET"]
    columns += [">LOG-END-OFFSET", ">LAG"] if has_ends else ["COMMITTED", "EXPIRES"]
    rows = []
    for entry in group["offsets"]:
        owner = owners.get((entry["topic"], entry["partition"]), {})
        row = [entry["topic"], entry["partition"], entry["offset"]]
        row += [entry["end_offset"], entry["lag"]] if has_ends else _times(entry)
        rows.append([*row, *(owner.get(key) for key in ("member_id", "client_host", "client_id"))])
    print_table([*columns, "CONSUMER-ID", "HOST", "CLIENT-ID"], rows)


def _times(entry: Form) -> list[str]:
    expires = entry["expire_ms"]
    return [when(entry["commit_ms"]), when(expires) if expires is not None else "in use"]


def print_members(group: Form) -> None:
    """Print members with their partitions."""
    columns = ("CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", ">#PARTITIONS")
    print_table((*columns, "ASSIGNMENT"), map(_member_row, group["members"]))


def _member_row(member: Form) -> list[object]:
    keys = ("member_id", "group_instance_id", "client_host", "client_id")
    assigned = member["assigned"].items()
    parts = [f"{topic}({','.join(map(str, numbers))})" for topic, numbers in assigned]
    count = sum(len(numbers) for _, numbers in assigned)
    return [*(member[key] for key in keys), count, ", ".join(parts)]


def print_waiting(waiting: Form) -> None:
    """Print the members that a rebalance waits for."""
    out = console()
    if waiting["phase"] is None:
        out.print(_text(f"group {waiting['group']}: {waiting['state']}, it waits for no member"))
        return
    out.print(
        _text(
            f"group {waiting['group']}: {waiting['state']}, {waiting['joined']} of "
            f"{waiting['expected']} members have completed the {waiting['phase']} phase"
        )
    )
    now = time.time() * 1000
    rows = [
        (
            entry["member_id"],
            entry["group_instance_id"],
            entry["client_id"],
            entry["client_host"],
            entry["kind"],
            entry["for"],
            age(now - entry["since_ms"]) if entry["since_ms"] is not None else None,
            age(entry["deadline_ms"] - now) if entry["deadline_ms"] is not None else None,
        )
        for entry in waiting["waiting"]
    ]
    columns = ("CONSUMER-ID", "GROUP-INSTANCE-ID", "CLIENT-ID", "HOST", "KIND", "FOR")
    print_table((*columns, ">SINCE", ">GIVEN UP IN"), rows)


def print_timeline(timeline: Form) -> None:
    """Print rebalances, one per line."""
    columns = ("STARTED", ">GENERATION", "REASON", "CULPRIT", ">JOIN MS", ">SYNC MS", ">MEMBERS")
    rows = [
        (
            when(event["started_ms"]),
            f"{event['generation_before']}->{event['generation_after']}",
            event["reason"],
            member_name(event["culprit"]),
            event["join_phase_ms"],
            event["sync_phase_ms"],
            f"{event['members_before']}->{event['members_after']}",
            event["outcome"],
        )
        for event in timeline["rebalances"]
    ]
    if timeline["current"]:
        current = timeline["current"]
        since = when(current["started_ms"])
        console().print(_text(f"rebalancing since {since} because {cause(current)}"))
    print_table((*columns, "OUTCOME"), rows)


def print_plan(group: str, planned: Iterable[tuple[str, int, int | None, int]]) -> None:
    """Print a reset as kafka-consumer-groups.sh does, with the current offset."""
    columns = ("GROUP", "TOPIC", ">PARTITION", ">CURRENT-OFFSET", ">NEW-OFFSET")
    print_table(columns, ((group, *entry) for entry in planned))
