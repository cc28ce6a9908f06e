"""Writes the report of a run: one HTML file without scripts or external resources."""

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from coordinator_pipeline import report_views as views
from coordinator_pipeline import svg
from coordinator_pipeline.errors import PipelineError
from coordinator_pipeline.report_data import ReportData, collect
from coordinator_pipeline.store import open_store, read_run

STYLE: Final = Path(__file__).with_name("report.css")

SECTIONS: Final[tuple[tuple[str, str, str, Callable[[ReportData], str]], ...]] = (
    (
        "stops",
        "What stopped my group?",
        (
            "The longest times without a commit around a rebalance, from the last commit before "
            "it to the first after it. They include the usual pause between two commits."
        ),
        views.stops,
    ),
    (
        "timelines",
        "Rebalances over time",
        "The groups with most time in rebalances. Bars are rebalances, the line is commits/s.",
        views.timelines,
    ),
    ("reasons", "Reasons", "How often each reason started a rebalance of each group.", views.heat),
    (
        "culprits",
        "Culprits",
        (
            "The members that caused rebalances, by their cost: the duration of each rebalance in "
            "seconds, times the partitions that were not consumed meanwhile."
        ),
        views.culprits,
    ),
    (
        "restarts",
        "Rolling restarts",
        "Members left and joined in a series of rebalances, each within three minutes of the last.",
        views.restarts,
    ),
    (
        "members",
        "Lifetimes of members",
        "The groups that lost most members; the colour shows the reason each member left for.",
        views.lifetimes,
    ),
    (
        "lag",
        "Lag",
        "Records between committed and end offsets; vertical lines are rebalances.",
        views.lag,
    ),
    (
        "coordinator",
        "The coordinator",
        "Its load, hot partitions, flapping groups, and offsets that went back.",
        views.coordinator,
    ),
)


COLOURED: Final = {
    "timelines": ("timeline", "reason"),
    "members": ("lifetimes", "end_reason"),
    "lag": ("lag_marks", "reason"),
}
"""Sections with a legend, and the query and column of their reasons."""


def write_report(spark: SparkSession, out: Path, target: Path) -> Path:
    """Write the report of the tables in `out`.

    Raises:
        PipelineError: `out` is no output of a run, or `target` cannot be written.
    """
    run = read_run(out)
    open_store(spark, out).register()
    page = render(collect(spark, run))
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"--to {target}: {error.strerror}") from None
    return target


def render(data: ReportData) -> str:
    """Return the HTML page."""
    sections = "".join(
        f'<section id="{name}"><h2>{escape(title)}</h2><p>{escape(doc)}</p>{_legend(data, name)}'
        f"{view(data)}</section>"
        for name, title, doc, view in SECTIONS
    )
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _, _ in SECTIONS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\"><title>Consumer groups: what happened</title>"
        f"<style>{STYLE.read_text(encoding='utf-8')}</style></head><body>"
        f"<header><h1>Consumer groups: what happened</h1><p>{_period(data)}</p>{_facts(data)}"
        f"<nav>{links}</nav></header><main>{sections}</main><footer>{_footer(data)}</footer>"
        "</body></html>\n"
    )


def _period(data: ReportData) -> str:
    total = data.totals
    if total["first"] is None:
        return "The log has no records."
    return f"{views.clock(total['first'])} to {views.clock(total['last'])} UTC"


def _facts(data: ReportData) -> str:
    total = data.totals
    facts = (
        (views.number(total["groups"]), "groups"),
        (views.number(total["rebalances"]), "rebalances"),
        (views.lasting((total["stalled_s"] or 0) * 1000), "in rebalances"),
        (views.number(total["flapping"]), "ten-minute windows with flapping"),
        (views.number(total["commits"]), "offsets committed"),
        (views.number(total["rewinds"]), "offsets went back"),
    )
    return (
        '<div class="facts">'
        + "".join(f"<div><b>{value}</b>{name}</div>" for value, name in facts)
        + "</div>"
    )


def _legend(data: ReportData, section: str) -> str:
    if section not in COLOURED:
        return ""
    rows, column = COLOURED[section]
    seen = {row[column] for row in data.rows[rows] if row[column] is not None}
    items = [
        f'<li><i class="{svg.reason_class(name)}"></i>{views.text(name.replace("_", " "))}</li>'
        for name in svg.REASONS
        if name in seen
    ]
    if seen - set(svg.REASONS):
        items.append('<li><i class="r-unknown"></i>unknown</li>')
    if section == "members":
        items.insert(0, '<li><i class="alive"></i>active</li>')
    return f'<ul class="legend">{"".join(items)}</ul>'


def _footer(data: ReportData) -> str:
    gaps = data.totals["gaps"]
    note = (
        f"The log lacks generations in {gaps:,} places (compacted, or never written); the tables "
        "have nulls there. "
        if gaps
        else ""
    )
    made = views.clock(data.made)
    return f"{note}Times are UTC. Made from {views.text(data.source)} on {made}."
