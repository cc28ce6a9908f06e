"""Generates docs/pipeline-tables.md from `pipeline/coordinator_pipeline/tables.py`."""

from coordinator_pipeline.tables import TABLES, Table


def tables_page(note: str) -> str:
    """Return the page: every column of every table."""
    parts = [
        "# Tables of the pipeline",
        "",
        note,
        "",
        "`coordinator-pipeline run` makes these tables from the log ([pipeline.md](pipeline.md)).",
        "Times are UTC. Each table also has a column `date`, by which its files are partitioned.",
        "`pipeline/coordinator_pipeline/records_schema.py` describes the table `records`.",
    ]
    for table in TABLES:
        parts += ["", *_table(table)]
    return "\n".join(parts) + "\n"


def _table(table: Table) -> list[str]:
    return [
        f"## {table.name}",
        "",
        f"{table.doc} `date` is the day of `{table.day}`.",
        "",
        "| column | type | meaning |",
        "|---|---|---|",
        *(f"| `{column.name}` | `{column.kind}` | {column.doc} |" for column in table.columns),
    ]
