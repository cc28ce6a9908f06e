"""The report of a run: one HTML file without scripts that asks no other host for anything."""

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
            "The longest times without a commit round a rebalance, from the last one before to the "
            "first one after. The usual pause between two commits is part of it."
        ),
        views.stops,
    ),
    (
        "timelines",
        "Rebalances over time",
        "The groups that stood still longest. Bars are rebalances, the line commits a second.",
        views.timelines,
    ),
    ("reasons", "Reasons", "How often which reason began a rebalance of which group.", views.heat),
    (
        "culprits",
        "Culprits",
        (
            "Who began rebalances, by what they cost: seconds of the rebalance, times the "
            "partitions that nobody consumed meanwhile."
        ),
        views.culprits,
    ),
    (
        "deploys",
        "Rolling restarts",
        "Members that went and came, each within three minutes of the one before.",
        views.deploys,
    ),
    (
        "members",
        "Lives of members",
        "The groups that lost most members; the colour tells how each one's time ended.",
        views.lives,
    ),
    ("lag", "Lag", "Records behind the end, rebalances as upright lines.", views.lag),
    (
        "coordinator",
        "The coordinator",
        "Its load, and what stands out in it.",
        views.coordinator,
    ),
)


COLOURED: Final = {
    "timelines": ("timeline", "reason"),
    "members": ("lives", "end_reason"),
    "lag": ("lag_marks", "reason"),
}
"""Sections with a legend, and which rows and column have their colours."""


def write_report(spark: SparkSession, out: Path, target: Path) -> Path:
    """Write the report of the tables in `out`.

    Raises:
        PipelineError: `out` is no run's, or `target` cannot be written.
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
    """The page."""
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
        (views.lasting((total["stalled_s"] or 0) * 1000), "spent in them"),
        (views.number(total["flapping"]), "times a group flapped"),
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
        f'<li><i class="{svg.tone(name)}"></i>{views.text(name.replace("_", " "))}</li>'
        for name in [*(name for name in svg.REASONS if name in seen)]
    ]
    if seen - set(svg.REASONS):
        items.append('<li><i class="r-unknown"></i>unknown</li>')
    if section == "members":
        items.insert(0, '<li><i class="alive"></i>still there</li>')
    return f'<ul class="legend">{"".join(items)}</ul>'


def _footer(data: ReportData) -> str:
    gaps = data.totals["gaps"]
    told = (
        f"{gaps:,} times generations are missing in the log, compacted or never written; "
        "nothing is guessed there. "
        if gaps
        else ""
    )
    return f"{told}Times are UTC. Made of {views.text(data.source)}, {views.clock(data.made)}."
