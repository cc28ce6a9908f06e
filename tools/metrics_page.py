"""Prints `docs/metrics.md` from the tables of families."""

from collections.abc import Iterable

from coordinator_server.observe.families import (
    EXPORTER_FAMILIES,
    FAMILIES,
    GROUP_FAMILIES,
    JMX_FAMILIES,
    LEFT_OUT,
    PREFIX,
    SUPERVISOR_FAMILIES,
    Family,
)


def metrics_page(note: str) -> str:
    """Every metric, with the setting it needs."""
    grouped = {**GROUP_FAMILIES, "series_left_out": LEFT_OUT}
    lines = [
        "# Metrics",
        "",
        note,
        "",
        "Served at `/metrics` of `http.listener`, in Prometheus' text format. Labels come from",
        "closed sets; member ids, client ids and free text are in the log and the JSON API, never",
        "here. [operations.md](operations.md) says how to scrape, and which alerts there are.",
        "",
        *_table(_with_prefix(FAMILIES)),
        "",
        "With them come `process_*` and `python_info` of the Prometheus client.",
        "",
        "## Of several workers",
        "",
        "With `workers` above 1 all of this is told of all workers together: counters and",
        "histograms are summed and never fall, gauges are summed, of ages, ratios and lags of the",
        "loop the worst is shown. Besides:",
        "",
        *_table(_with_prefix(SUPERVISOR_FAMILIES)),
        "",
        "## Of single groups",
        "",
        "With `metrics.groups.allow`, for the groups it fits, up to `metrics.groups.max.series`:",
        "",
        *_table(_with_prefix(grouped)),
        "",
        "## Under kafka_exporter's names",
        "",
        "With `metrics.aliases=kafka_exporter`, for the same groups and within the same number.",
        "The end of a partition is known once somebody has read or written it since the start, and",
        "only of topics that are here; without it there is no lag.",
        "",
        *_table(EXPORTER_FAMILIES.items()),
        "",
        "## Under the JMX exporter's names",
        "",
        "With `metrics.aliases=jmx`, as the exporter writes a broker's MBeans in lower case:",
        "",
        *_table(JMX_FAMILIES.items()),
    ]
    return "\n".join(lines) + "\n"


def _with_prefix(families: dict[str, Family]) -> Iterable[tuple[str, Family]]:
    return ((PREFIX + name, family) for name, family in families.items())


def _table(families: Iterable[tuple[str, Family]]) -> list[str]:
    return [
        "| metric | type | labels | what it is |",
        "|---|---|---|---|",
        *(
            f"| `{name}` | {family.kind} | {', '.join(family.labels)} | {family.help} |"
            for name, family in families
        ),
    ]
