"""Renders the eight views of the report as HTML; escapes all ids and texts of clients."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Any

from coordinator_pipeline import svg
from coordinator_pipeline.report_data import ReportData, Rows


def text(value: Any) -> str:
    """Escape a value for HTML; None is empty."""
    return "" if value is None else escape(str(value))


def clock(at: datetime | None) -> str:
    """Format a time in UTC, to the second."""
    return at.strftime("%Y-%m-%d %H:%M:%S") if at else ""


def lasting(millis: float | None) -> str:
    """Format a duration with a suitable unit."""
    if millis is None:
        return "?"
    seconds = millis / 1000
    if seconds < 1:
        return f"{millis:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def number(value: float | None) -> str:
    """Format a count with thousands separators."""
    return "?" if value is None else f"{value:,.0f}"


def cost(partition_seconds: float) -> str:
    """Format partition-seconds, from ten on without decimals."""
    return f"{partition_seconds:,.{0 if partition_seconds >= 10 else 1}f}"


def _part(value: float | None, most: float) -> str:
    """Return a bar for a value; none for None."""
    return "" if value is None else svg.meter(value / most)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> str:
    """Return a table of HTML cells; each cell has its column's name for narrow screens."""
    if not rows:
        return f'<p class="none">{escape(empty)}</p>'
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-label="{escape(name)}">{cell}</td>'
            for name, cell in zip(heads, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    inner = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide"><table>{inner}</table></div>'


def reason_tag(reason: str | None, source: str | None = None) -> str:
    """Return a reason with its colour; an inferred one has a note."""
    name = (reason or "unknown").replace("_", " ")
    note = f' <small title="the log does not record the reason">{text(source)}</small>'
    inferred = note if source == "inferred" else ""
    return (
        f'<span class="tag"><i class="{svg.reason_class(reason)}"></i>{text(name)}</span>{inferred}'
    )


def stops(data: ReportData) -> str:
    """1: the longest times without commits around a rebalance."""
    rows = data.rows["stops"]
    most = max((row["commit_gap_ms"] or 0 for row in rows), default=0) or 1
    return table(
        ["Group", "Ended (UTC)", "No commits for", "Rebalance", "Reason", "Culprit", "Members"],
        [
            [
                (
                    f"<b>{text(row['group_id'])}</b>"
                    f"<small>generation {text(row['generation'])}</small>"
                ),
                clock(row["ended_at"]),
                lasting(row["commit_gap_ms"]) + _part(row["commit_gap_ms"], most),
                lasting(row["duration_ms"]),
                reason_tag(row["reason"], row["reason_source"]) + _quoted(row["client_reason"]),
                _culprit(row),
                f"{text(row['members_before'])} &rarr; {text(row['members_after'])}",
            ]
            for row in rows
        ],
        "No rebalance is recorded with a duration or a time without commits.",
    )


def _quoted(words: str | None) -> str:
    return f"<small>&ldquo;{text(words)}&rdquo;</small>" if words else ""


def _culprit(row: dict[str, Any]) -> str:
    name = row["cause_client"] or row["cause_member"]
    if not name:
        return '<span class="none">unknown</span>'
    host = f"<small>{text(row['cause_host'])}</small>"
    return f'<span title="{text(row["cause_member"])}">{text(name)}</span>{host}'


def timelines(data: ReportData) -> str:
    """2: rebalances and commits of the groups with most time in rebalances."""
    total = data.totals
    if not data.rows["timeline"]:
        return '<p class="none">No rebalances.</p>'
    span = svg.TimeSpan(total["first"], total["last"])
    bars, lines = _by_group(data.rows["timeline"]), _by_group(data.rows["commits"])
    parts = []
    for group in data.rows["busiest"]:
        name = group["group_id"]
        found = [_rebalance_bar(span, row) for row in bars[name]]
        rates = [_rate(data, row) for row in lines[name]]
        drawing = svg.svg(64, [*found, svg.area(span, rates, 34, 28)], f"rebalances of {name}")
        stalled = lasting((group["stalled_s"] or 0) * 1000)
        parts.append(
            f'<div class="lane"><div><b>{text(name)}</b><small>{group["rebalances"]} rebalances, '
            f"{stalled}</small></div>{drawing}</div>"
        )
    return "".join(parts) + f'<div class="lane"><div></div>{svg.time_axis(span)}</div>'


def _by_group(rows: Rows) -> defaultdict[str, Rows]:
    found: defaultdict[str, Rows] = defaultdict(list)
    for row in rows:
        found[row["group_id"]].append(row)
    return found


def _step(data: ReportData, at: datetime, value: float) -> svg.Step:
    """Return a step from `at` on, within the times of the log."""
    first, last = data.totals["first"], data.totals["last"]
    end = at + timedelta(seconds=data.step)
    return svg.Step(max(at, first), max(first, min(end, last)), value)


def _rate(data: ReportData, row: dict[str, Any]) -> svg.Step:
    """Return commits per second; the first and last step of the log may be short."""
    step = _step(data, row["at"], float(row["commits"]))
    seconds = max((step.end - step.begin).total_seconds(), 1)
    return step._replace(value=step.value / seconds)


def _rebalance_bar(span: svg.TimeSpan, row: dict[str, Any]) -> str:
    begin = span.x(row["started_at"] or row["ended_at"])
    label = (
        f"{clock(row['ended_at'])}: {row['reason']} by {row['cause_client'] or 'unknown'}, "
        f"{lasting(row['duration_ms'])}, generation {row['generation']}, "
        f"{row['members_after']} members"
    )
    return svg.bar(
        begin, 2, span.x(row["ended_at"]) - begin, 28, svg.reason_class(row["reason"]), label
    )


def heat(data: ReportData) -> str:
    """3: the number of rebalances by group and reason."""
    counts = {(row["group_id"], row["reason"]): row["n"] for row in data.rows["heat"]}
    if not counts:
        return '<p class="none">No rebalances.</p>'
    groups = sorted({name for name, _ in counts})
    reasons = [name for name in svg.REASONS if any(key[1] == name for key in counts)]
    reasons += sorted({name for _, name in counts if name not in svg.REASONS}, key=str)
    most = max(counts.values())

    def cell(group: str, reason: str) -> str:
        n = counts.get((group, reason), 0)
        return f'<span class="heat" style="--heat:{(n / most) ** 0.5:.2f}">{n or ""}</span>'

    rows = [[f"<b>{text(group)}</b>", *(cell(group, name) for name in reasons)] for group in groups]
    return table(["Group", *(str(name).replace("_", " ") for name in reasons)], rows, "")


def culprits(data: ReportData) -> str:
    """4: the culprits with the highest cost."""
    rows = data.rows["culprits"]
    most = max((row["cost"] or 0 for row in rows), default=0) or 1
    return table(
        ["Culprit", "Host", "Partition-seconds", "Rebalances", "Groups", "Main reason"],
        [
            [
                f"<b>{text(row['culprit'])}</b>",
                text(row["host"]),
                cost(row["cost"]) + _part(row["cost"], most),
                number(row["rebalances"]),
                number(row["groups"]),
                reason_tag(row["reason"]),
            ]
            for row in rows
        ],
        "The log names no culprits: another server wrote it, or no group rebalanced.",
    )


def restarts(data: ReportData) -> str:
    """5: series of rebalances in which members left and joined."""
    return table(
        ["Group", "From", "To", "Rebalances", "Clients", "Left / joined", "In rebalances", "Cost"],
        [
            [
                f"<b>{text(row['group_id'])}</b>",
                clock(row["began"]),
                clock(row["ended"]),
                number(row["rebalances"]),
                number(row["clients"]),
                f"{number(row['gone'])} / {number(row['came'])}",
                lasting((row["stalled_s"] or 0) * 1000),
                f"{cost(row['cost'])} partition-seconds",
            ]
            for row in data.rows["restarts"]
        ],
        "No rolling restart found.",
    )


def lifetimes(data: ReportData) -> str:
    """6: the lifetimes of members in the groups that lost most."""
    rows = data.rows["lifetimes"]
    span = svg.span_of(at for row in rows for at in (row["first_seen"], row["until"]))
    if span is None:
        return '<p class="none">No members.</p>'
    last = data.totals["last"]
    span = svg.TimeSpan(span.begin, max(span.end, last))
    parts = []
    for group, members in _by_group(rows).items():
        bars = []
        ordered = sorted(members, key=lambda row: row["first_seen"])
        for place, row in enumerate(ordered):
            begin, end = span.x(row["first_seen"]), span.x(last if row["alive"] else row["until"])
            how = "active" if row["alive"] else f"{row['end_reason']} {clock(row['until'])}"
            label = f"{row['name']} ({row['member_id']}): {clock(row['first_seen'])}, {how}"
            css_class = "alive" if row["alive"] else svg.reason_class(row["end_reason"])
            bars.append(svg.bar(begin, place * 14 + 2, end - begin, 10, css_class, label))
        drawing = svg.svg(len(ordered) * 14 + 4, bars, f"members of {group}")
        parts.append(
            f'<div class="lane"><div><b>{text(group)}</b>'
            f"<small>{len(ordered)} members</small></div>"
            f'<div style="height:{len(ordered) * 14 + 4}px">{drawing}</div></div>'
        )
    return "".join(parts) + f'<div class="lane"><div></div>{svg.time_axis(span)}</div>'


def lag(data: ReportData) -> str:
    """7: lag over time, with the rebalances as marks."""
    lines = _by_group(data.rows["lag"])
    if not lines:
        return (
            '<p class="none">The end offsets of the topics are unknown: the data directory has '
            "no logs of them, and the run did not use --bootstrap.</p>"
        )
    span = svg.TimeSpan(data.totals["first"], data.totals["last"])
    marks = _by_group(data.rows["lag_marks"])
    parts = []
    for name, rows in lines.items():
        drawn = [
            svg.mark(
                span.x(row["ended_at"]), 0, 90, svg.reason_class(row["reason"]), str(row["reason"])
            )
            for row in marks[name]
        ]
        steps = [_step(data, row["at"], float(row["lag"])) for row in rows]
        drawing = svg.svg(90, [svg.area(span, steps, 4, 84), *drawn], f"lag of {name}")
        most = number(max(step.value for step in steps))
        parts.append(
            f'<div class="lane tall"><div><b>{text(name)}</b><small>at most {most} records</small>'
            f"</div>{drawing}</div>"
        )
    return "".join(parts) + f'<div class="lane"><div></div>{svg.time_axis(span)}</div>'


def coordinator(data: ReportData) -> str:
    """8: the load of the coordinator."""
    rates = [_rate(data, row) for row in data.rows["load"]]
    chart = ""
    if rates:
        span = svg.TimeSpan(data.totals["first"], data.totals["last"])
        most = max(step.value for step in rates)
        drawing = svg.svg(90, [svg.area(span, rates, 4, 84)], "commits per second")
        chart = (
            f'<div class="lane tall"><div><b>commits/s</b><small>at most {most:,.1f}</small></div>'
            f'{drawing}</div><div class="lane"><div></div>{svg.time_axis(span)}</div>'
        )
    return chart + _hot(data.rows["hot"]) + _flapping(data.rows["flapping"]) + _rewinds(data)


def _hot(rows: Rows) -> str:
    most = max((row["share"] for row in rows), default=0) or 1
    return "<h3>Hot partitions</h3>" + table(
        ["Log partition", "Records", "Share", "Busiest group", "Its largest share"],
        [
            [
                str(row["log_partition"]),
                number(row["records"]),
                f"{row['share']:.1%}{svg.meter(row['share'] / most)}",
                text(row["top_group"]),
                f"{row['top_group_share'] or 0:.0%}",
            ]
            for row in rows
        ],
        "No records.",
    )


def _flapping(rows: Rows) -> str:
    return "<h3>Flapping groups</h3>" + table(
        ["Group", "Ten minutes from", "Rebalances", "Duration", "Main reason", "By", "Short-lived"],
        [
            [
                f"<b>{text(row['group_id'])}</b>",
                clock(row["window_start"]),
                number(row["rebalances"]),
                lasting(row["stalled_ms"]),
                reason_tag(row["top_reason"]),
                f"{text(row['top_client'])}<small>{text(row['top_host'])}</small>",
                number(row["members_short_lived"]),
            ]
            for row in rows
        ],
        "No group rebalanced five times within ten minutes.",
    )


def _rewinds(data: ReportData) -> str:
    return "<h3>Offsets that went back</h3>" + table(
        ["Group", "Partition", "When (UTC)", "Records back", "New offset"],
        [
            [
                f"<b>{text(row['group_id'])}</b>",
                f"{text(row['topic'])}-{row['partition']}",
                clock(row["ts"]),
                number(None if row["advance"] is None else -row["advance"]),
                number(row["committed_offset"]),
            ]
            for row in data.rows["rewinds"]
        ],
        "No offset went back.",
    )
