"""The command line `coordinator-pipeline`.

Exit codes: 0 success, 1 failure, 2 wrong arguments, 3 success but parts of the log could not be
read.
"""

import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click
from click.exceptions import Exit

from coordinator_pipeline.errors import PipelineError, WrongArguments, without_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coordinator_pipeline.run import LogSource, RunSummary

DAMAGED: Final = 3
_RAISED: Final = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*"
    r"(?:coordinator_pipeline\.\S+: |[\w.]+\.)?(\S[^\n]*)"
)
"""Finds the Python error that Spark quotes within its own error."""


@click.group(no_args_is_help=True, context_settings={"show_default": True})
def app() -> None:
    """Make tables and a report from the log of a Kafka group coordinator."""


_path: Final = click.Path(path_type=Path)
_out_option: Final = click.option(
    "--out", type=_path, required=True, metavar="DIR", help="The directory of the tables."
)
_master_option: Final = click.option(
    "--master", metavar="URL", help="Spark's master; local[*] by default."
)


class _Progress:
    """Prints how long each step of a run took, in seconds."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._name = ""

    def begin(self, name: str) -> None:
        """End the current step and begin the next."""
        now = time.monotonic()
        if self._name:
            click.echo(f"  {self._name:16} {now - self._last:6.1f} s", err=True)
        self._name, self._last = name, now

    def done(self) -> None:
        """End the last step."""
        self.begin("")


def _session(master: str | None) -> "SparkSession":
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise PipelineError("Spark is not installed: pip install '.[pipeline]'") from None
    from coordinator_pipeline.session import open_session

    session = open_session(master)
    # Spark's own handler calls Java during a call of Java and prints a long stack.
    signal.signal(signal.SIGINT, _interrupted)
    return session


def _interrupted(number: int, _frame: object) -> NoReturn:
    click.echo("interrupted", err=True)
    os._exit(128 + number)


def _print_summary(summary: "RunSummary", out: Path) -> None:
    click.echo(
        f"Wrote {out}: {summary.records:,} records of {summary.groups:,} groups "
        f"in {summary.seconds} s."
    )
    if summary.unknown_kinds:
        click.echo(f"Kept {summary.unknown_kinds:,} records of unknown kinds as raw bytes.")
    if summary.problems:
        click.echo(
            f"{summary.problems:,} batches or records could not be read; the table records has a "
            "row with a problem for each:",
            err=True,
        )
        for example in summary.examples:
            click.echo(f"  {example}", err=True)
        raise Exit(DAMAGED)
    if summary.records and not summary.groups:
        click.echo(
            "No record belongs to a group: expected the log of a group coordinator. Check --topic.",
            err=True,
        )
        raise Exit(DAMAGED)


@app.command()
@_out_option
@click.option("--log", type=_path, metavar="DIR", help="The data directory with the log.")
@click.option("--bootstrap", metavar="HOST:PORT", help="A running server, instead of --log.")
@click.option("--topic", default="__consumer_offsets", help="The topic of the log.")
@_master_option
@click.option("--follow", is_flag=True, help="Continue with new records until Ctrl-C.")
@click.option("--overwrite", is_flag=True, help="Replace a finished run of the same log.")
@click.option("--report/--no-report", default=True, help="Also write DIR/report.html.")
def run(
    out: Path,
    log: Path | None,
    bootstrap: str | None,
    topic: str,
    master: str | None,
    follow: bool,
    overwrite: bool,
    report: bool,
) -> None:
    """Make all tables from a log."""
    from coordinator_pipeline.run import LogSource, prepare

    source = LogSource(log, bootstrap, topic)
    prepare(source, out, follow=follow, overwrite=overwrite)
    if follow:
        from coordinator_pipeline.follow import follow_log

        follow_log(_session(master), source, out, lambda text: click.echo(text, err=True))
        return
    _run_once(source, out, master, report=report)


def _run_once(source: "LogSource", out: Path, master: str | None, *, report: bool) -> None:
    from coordinator_pipeline.run import run_batch

    progress = _Progress()
    progress.begin("session")
    session = _session(master)
    summary = run_batch(session, source, out, progress.begin)
    if report:
        from coordinator_pipeline.report import write_report
        from coordinator_pipeline.store import REPORT

        progress.begin("report")
        path = write_report(session, out, out / REPORT)
    progress.done()
    if report:
        click.echo(f"Wrote {path}.")
    _print_summary(summary, out)


@app.command()
@_out_option
@click.option("--to", type=_path, metavar="FILE", help="The report; DIR/report.html by default.")
@_master_option
def report(out: Path, to: Path | None, master: str | None) -> None:
    """Write the report of a run as one self-contained HTML file."""
    from coordinator_pipeline.store import REPORT, check_readable

    check_readable(out)
    session = _session(master)
    from coordinator_pipeline.report import write_report

    click.echo(f"Wrote {write_report(session, out, to or out / REPORT)}.")


@app.command()
@click.argument("sql")
@_out_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, help="The largest number of rows."
)
@_master_option
def query(sql: str, out: Path, limit: int, master: str | None) -> None:
    """Query the tables of a run in Spark's SQL; prints tab-separated rows.

    An example of SQL is "SELECT * FROM rebalances".
    """
    from coordinator_pipeline.store import check_readable

    check_readable(out)
    session = _session(master)
    from coordinator_pipeline.export import query_rows

    for line in query_rows(session, out, sql, limit):
        click.echo(line)


@app.command()
@_out_option
@click.option("--to", type=_path, required=True, metavar="DIR", help="A new directory.")
@click.option("--format", "form", default="parquet", help="The format: csv or parquet.")
@click.option("--table", "tables", multiple=True, help="Only this table; may be repeated.")
@_master_option
def export(out: Path, to: Path, form: str, tables: tuple[str, ...], master: str | None) -> None:
    """Write the current tables of a run, each as a directory of plain files."""
    from coordinator_pipeline.export import check_export, export_tables
    from coordinator_pipeline.store import check_readable

    names = check_export(to, form, tables)
    check_readable(out)
    for path in export_tables(_session(master), out, to, form, names):
        click.echo(str(path))


def _expected_errors() -> tuple[type[Exception], ...]:
    """Return the errors printed in one line; Spark's only if Spark was imported."""
    from coordinator_pipeline.source.errors import SourceError

    if "pyspark" not in sys.modules:
        return PipelineError, SourceError, OSError
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PipelineError, SourceError, OSError, PySparkException, Py4JError


def _error_line(error: Exception) -> str:
    """Return the error's message without the stacks of Java and Python."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    if raised := _RAISED.findall(text):
        return str(raised[-1])
    return next(iter(text.strip().splitlines()), type(error).__name__)


def main() -> None:
    """Run a command, print an expected error in one line, and exit."""
    try:
        code = app.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        code = 130
    except ModuleNotFoundError as error:
        click.echo(f"error: {without_extra(error)}", err=True)
        code = 1
    except Exception as error:
        if not isinstance(error, _expected_errors()):
            raise
        click.echo(f"error: {_error_line(error)}", err=True)
        code = 2 if isinstance(error, WrongArguments) else 1
    sys.exit(code)


if __name__ == "__main__":
    main()
