"""Draws small charts as SVG; escapes all text. Colours are classes of report.css."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 1000

REASONS: Final = (
    "member_joined",
    "member_left",
    "session_expired",
    "sync_timeout",
    "pending_expired",
    "static_replaced",
    "leader_rejoined",
    "follower_rejoined",
    "metadata_changed",
    "assignment_append_failed",
    "admin_removed",
    "admin_rebalance",
    "over_capacity",
    "member_gone",
    "members_changed",
)
"""The reasons with a colour: report.css has a class `r-REASON` for each."""


def reason_class(reason: str | None) -> str:
    """Return the CSS class of a reason's colour."""
    return f"r-{reason}" if reason in REASONS else "r-unknown"


class TimeSpan(NamedTuple):
    """The first and last time of a chart."""

    begin: datetime
    end: datetime

    def x(self, at: datetime) -> float:
        """Return the horizontal position of a time, 0 to WIDTH."""
        whole = (self.end - self.begin).total_seconds() or 1.0
        return max(0.0, min(1.0, (at - self.begin).total_seconds() / whole)) * WIDTH


def span_of(times: Iterable[datetime | None]) -> TimeSpan | None:
    """Return the span of the times that are not None; None if all are."""
    known = [at for at in times if at is not None]
    return TimeSpan(min(known), max(known)) if known else None


def svg(height: float, parts: Iterable[str], label: str) -> str:
    """Return a chart that fills the width of its element."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(label)}" '
        f'preserveAspectRatio="none">{"".join(parts)}</svg>'
    )


def title(text: str) -> str:
    """Return a tooltip."""
    return f"<title>{escape(text)}</title>"


def bar(x: float, y: float, width: float, height: float, css_class: str, text: str) -> str:
    """Return a rectangle at least 3 units wide."""
    left = min(x, WIDTH - 3)
    return (
        f'<rect x="{left:.1f}" y="{y:.1f}" width="{max(width, 3):.1f}" height="{height:.1f}" '
        f'class="{css_class}">{title(text)}</rect>'
    )


class Step(NamedTuple):
    """A value that holds from `begin` to `end`."""

    begin: datetime
    end: datetime
    value: float


def area(span: TimeSpan, steps: Sequence[Step], y: float, height: float) -> str:
    """Return a filled line over time, `height` at its maximum, with gaps between steps."""
    top = max((step.value for step in steps), default=0.0) or 1.0
    runs: list[list[Step]] = []
    for step in steps:
        if runs and runs[-1][-1].end == step.begin:
            runs[-1].append(step)
        else:
            runs.append([step])
    return "".join(_run(span, run, y + height, height / top) for run in runs)


def _run(span: TimeSpan, steps: Sequence[Step], base: float, scale: float) -> str:
    """Draw consecutive steps without a gap."""
    places = [
        f"{span.x(at):.1f},{base - step.value * scale:.1f}"
        for step in steps
        for at in (step.begin, step.end)
    ]
    begin, end = span.x(steps[0].begin), span.x(steps[-1].end)
    line = " ".join(places)
    shape = f"{begin:.1f},{base:.1f} {line} {end:.1f},{base:.1f}"
    return f'<polygon points="{shape}" class="area"/><polyline points="{line}" class="line"/>'


def mark(x: float, y: float, height: float, css_class: str, text: str) -> str:
    """Return a thin vertical line."""
    return (
        f'<rect x="{min(x, WIDTH - 2):.1f}" y="{y:g}" width="2" height="{height:g}" '
        f'class="{css_class}">{title(text)}</rect>'
    )


def meter(share: float, css_class: str = "area") -> str:
    """Return a bar for a table cell; `share` is 0 to 1."""
    percent = max(0.0, min(1.0, share)) * 100
    return f'<span class="meter"><i class="{css_class}" style="width:{percent:.1f}%"></i></span>'


def time_axis(span: TimeSpan) -> str:
    """Return five times below a chart as HTML: the chart would stretch text."""
    step = (span.end - span.begin) / 4
    form = "%H:%M" if (span.end - span.begin).total_seconds() >= 600 else "%H:%M:%S"
    ticks = "".join(f"<span>{(span.begin + step * n).strftime(form)}</span>" for n in range(5))
    return f'<div class="axis">{ticks}</div>'
