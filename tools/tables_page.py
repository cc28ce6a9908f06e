"""The page of the pipeline's tables, from `pipeline/coordinator_pipeline/tables.py`."""

from coordinator_pipeline.tables import TABLES, Table


def tables_page(note: str) -> str:
    """Every column of every table that is made of the records."""
    parts = [
        "# Tables of the pipeline",
        "",
        note,
        "",
        "`coordinator-pipeline run` makes them of the log; `pipeline.md` tells how. Times are UTC;",
        "each table has a column `date` besides, by which its files are partitioned. The first,",
        "`records`, is described in `pipeline/coordinator_pipeline/records_schema.py`.",
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
        "| column | type | what it is |",
        "|---|---|---|",
        *(f"| `{column.name}` | `{column.kind}` | {column.doc} |" for column in table.columns),
    ]
