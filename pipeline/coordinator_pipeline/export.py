"""Prints the rows of a query, and exports tables as CSV or Parquet files."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from coordinator_pipeline.errors import PipelineError, WrongArguments
from coordinator_pipeline.store import BY_NAME, RECORDS, open_store

FORMATS: Final = ("csv", "parquet")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def query_rows(spark: SparkSession, out: Path, sql: str, limit: int) -> Iterator[str]:
    """Return the header and up to `limit` rows, tab-separated.

    Raises:
        PipelineError: Spark rejects the query.
    """
    open_store(spark, out).register()
    try:
        found = spark.sql(sql)
        rows = found.limit(limit).collect()
    except PySparkException as error:
        raise PipelineError(f"query: {str(error).strip().splitlines()[0]}") from None
    yield "\t".join(found.columns)
    for row in rows:
        yield "\t".join(map(_shown, row))


def _shown(value: Any) -> str:
    """Format a value on one line, without control characters."""
    return "" if value is None else _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value))


def check_export(to: Path, form: str, names: Sequence[str]) -> list[str]:
    """Check the arguments; returns the tables to write. Raises PipelineError."""
    if form not in FORMATS:
        raise WrongArguments(f"--format {form!r}: expected csv or parquet")
    if to.exists():
        raise PipelineError(f"--to {to}: exists already, expected a new directory")
    known = [RECORDS, *BY_NAME]
    for name in names:
        if name not in known:
            raise WrongArguments(f"--table {name!r}: expected one of {', '.join(known)}")
    return list(names) or list(BY_NAME)


def export_tables(
    spark: SparkSession, out: Path, to: Path, form: str, names: Sequence[str]
) -> Iterator[Path]:
    """Write each table into a directory of its name. CSV follows RFC 4180, with lists as JSON."""
    store = open_store(spark, out)
    for name in names:
        target = to / name
        rows = store.table(name)
        if form == "csv":
            # RFC 4180 doubles a quote in a text; Spark's default is a backslash.
            flat = _flat(rows).write.option("header", "true").option("escape", '"')
            flat.csv(str(target))
        else:
            rows.write.parquet(str(target))
        yield target


def _flat(rows: DataFrame) -> DataFrame:
    columns = []
    for name, kind in rows.dtypes:
        if kind.startswith(("array", "map", "struct")):
            columns.append(f"to_json({name}) AS {name}")
        elif kind == "binary":
            columns.append(f"base64({name}) AS {name}")
        else:
            columns.append(name)
    return rows.selectExpr(*columns)
