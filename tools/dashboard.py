"""Draws Grafana's dashboard of `docker/` without Grafana, for the picture in the docs alone.

Panels, their places, expressions and legends are the dashboard's, the numbers are a Prometheus's
that scrapes a running server. Grafana draws them in its own way; this is no replacement for it.
"""

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from html import escape
from itertools import chain, cycle
from pathlib import Path
from typing import Any, Final

from tools.demo import end
from tools.ports import free_port

DASHBOARD: Final = (
    Path(__file__).resolve().parent.parent
    / "docker"
    / "grafana"
    / "dashboards"
    / "coordinator.json"
)
ROWS: Final = 46
"""How much of the dashboard is drawn, in units of its grid: up to the server's own panels."""
UNIT_PX: Final = 29
PAGE_PX: Final = 1256
LABELS_PX: Final = 48
COLOURS: Final = (
    *("#3987e5", "#d95926", "#199e70", "#c98500", "#d55181", "#9085e9"),
    *("#008300", "#e66767", "#8ab8ff", "#b877d9", "#ffe66b", "#73d0c4"),
)
VARIABLES: Final = {"$__rate_interval": "5s", "$instance": ".*", "$group": ".*"}
Series = tuple[str, list[tuple[float, float]]]
"""A legend and (time, value) pairs."""


@asynccontextmanager
async def prometheus(program: str, folder: Path, target: str) -> AsyncIterator[str]:
    """A Prometheus that scrapes `target` each second; yields its URL."""
    address = f"127.0.0.1:{free_port()}"
    job = {"job_name": "coordinator", "static_configs": [{"targets": [target]}]}
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
    (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML, too
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address={address}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield f"http://{address}"
    finally:
        await end(process)


def page(url: str, start: float, stop: float) -> str:
    """The dashboard from `start` to `stop` (seconds since the epoch) as HTML. Raises OSError."""
    dashboard = json.loads(DASHBOARD.read_text())
    panels = [each for each in dashboard["panels"] if each["gridPos"]["y"] < ROWS]
    drawn = "".join(_panel(panel, url, start, stop) for panel in panels)
    return (
        f"<!doctype html><meta charset=utf-8><title>dashboard</title><style>{_STYLE}</style>"
        f"<h1>{escape(dashboard['title'])}</h1><p>Drawn by tools/dashboard.py from the dashboard's "
        "file and a Prometheus's answers; Grafana looks different.</p>"
        f"<main style='height:{ROWS * UNIT_PX}px'>{drawn}</main>"
    )


_STYLE: Final = """
body { margin: 12px; background: #111217; color: #d8d9da; font: 12px system-ui, sans-serif; }
h1 { font-size: 17px; margin: 0; } p { margin: 2px 0 8px; color: #9fa7b3; }
main { position: relative; }
section { position: absolute; box-sizing: border-box; padding: 2px; }
section > div { height: 100%; box-sizing: border-box; padding: 6px 8px; background: #181b1f;
  border: 1px solid #2c2f36; border-radius: 3px; overflow: hidden; }
section.row > div { background: none; border: 0; font-weight: 600; padding: 4px; }
h2 { font-size: 12px; font-weight: 500; margin: 0 0 4px; }
svg { display: block; width: 100%; }
.stat { font-size: 30px; text-align: center; padding-top: 14px; }
.key { white-space: nowrap; overflow: hidden; } .key span { margin-right: 9px; }
.key i { display: inline-block; width: 10px; height: 3px; margin: 0 4px 3px 0; }
.none { color: #9fa7b3; text-align: center; padding-top: 50px; }
text { fill: #9fa7b3; font-size: 10px; }
"""


def _panel(panel: Mapping[str, Any], url: str, start: float, stop: float) -> str:
    place = panel["gridPos"]
    box = (
        f"left:{place['x'] / 24:.4%};width:{place['w'] / 24:.4%};"
        f"top:{place['y'] * UNIT_PX}px;height:{place['h'] * UNIT_PX}px"
    )
    title = escape(panel["title"])
    if panel["type"] == "row":
        return f"<section class=row style='{box}'><div>{title}</div></section>"
    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    series = [found for target in panel["targets"] for found in _ask(url, target, start, stop)]
    if panel["type"] == "stat":
        body = _number(series, unit)
    else:
        size = PAGE_PX * place["w"] // 24 - 22, place["h"] * UNIT_PX - 58
        body = "".join(_curves(series, unit, size, (start, stop)))
    return f"<section style='{box}'><div><h2>{title}</h2>{body}</div></section>"


def _ask(url: str, target: Mapping[str, Any], start: float, stop: float) -> Iterator[Series]:
    """The series of one target. Raises OSError, with Prometheus's own words where it has any."""
    expression = target["expr"]
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    asked = {"query": expression, "start": start, "end": stop, "step": 0.5}
    query = urllib.parse.urlencode(asked)
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query_range?{query}", timeout=10) as answer:  # noqa: S310
            result = json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        raise OSError(f"{expression}: {error.read().decode()}") from error
    for found in result:
        legend = target.get("legendFormat") or ""
        for label, value in found["metric"].items():
            legend = legend.replace("{{" + label + "}}", value)
        points = [(at, float(value)) for at, value in found["values"]]
        yield legend, [point for point in points if point[1] == point[1]]


def _number(series: Sequence[Series], unit: str) -> str:
    values = [points[-1][1] for _, points in series if points]
    return f"<div class=stat>{_text(values[0], unit) if values else '-'}</div>"


def _curves(
    series: Sequence[Series], unit: str, size: tuple[int, int], span: tuple[float, float]
) -> Iterator[str]:
    """An SVG and its legend."""
    every = [point for _, points in series for point in points]
    if not every:
        yield "<div class=none>No data</div>"
        return
    (width, height), (left, right) = size, span
    top = max(chain((value for _, value in every), (1e-9,))) * 1.1
    yield f"<svg viewBox='0 0 {width} {height}' height={height}>"
    for share in (0.0, 0.5, 1.0):
        y = (height - 12) * (1 - share) + 8
        yield f"<path d='M{LABELS_PX} {y}H{width}' stroke='#2c2f36'/><text x=0 y={y + 3}>"
        yield f"{_text(top * share, unit)}</text>"
    for (_, points), colour in zip(series, cycle(COLOURS), strict=False):
        path = "L".join(
            f"{LABELS_PX + (width - LABELS_PX) * (at - left) / (right - left):.1f} "
            f"{(height - 12) * (1 - value / top) + 8:.1f}"
            for at, value in points
        )
        yield f"<path d='M{path}' fill=none stroke='{colour}' stroke-width=1.6 />"
    yield "</svg><div class=key>"
    for (legend, _), colour in zip(series, cycle(COLOURS), strict=False):
        yield f"<span><i style='background:{colour}'></i>{escape(legend)}</span>"
    yield "</div>"


def _text(value: float, unit: str) -> str:
    """A value with its unit, short."""
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    if value >= 1000:
        return f"{value / 1000:.3g} k"
    return f"{value:.3g}"
