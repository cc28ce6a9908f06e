"""The command line `coordinator-pipeline`.

Exit codes: 0 fine, 1 it did not work, 2 wrong arguments, 3 all is done but some of the log could
not be read.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from pipeline.errors import PipelineError, WrongArguments, without_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.run import Source, Summary

DAMAGED: Final = 3

app = typer.Typer(
    name="coordinator-pipeline",
    help="Tables and a report from the log of a Kafka group coordinator.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The directory of the tables.")]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master; local[*] by default.")
]


def _fail(message: str, code: int = 1) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


class _Progress:
    """Says on a terminal what is being made and how long it took."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._name = ""

    def told(self, name: str) -> None:
        """The next step begins."""
        now = time.monotonic()
        if self._name:
            typer.echo(f"  {self._name:16} {now - self._last:6.1f} s", err=True)
        self._name, self._last = name, now

    def done(self) -> None:
        """The last step is over."""
        self.told("")


def _session(master: str | None) -> "SparkSession":
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise PipelineError("Spark is not installed: pip install '.[pipeline]'") from None
    from pipeline.session import open_session

    session = open_session(master)
    # Spark's own handler calls Java in the middle of a call of Java, and fails in many pages.
    signal.signal(signal.SIGINT, _interrupted)
    return session


def _interrupted(number: int, _frame: object) -> NoReturn:
    typer.echo("interrupted", err=True)
    os._exit(128 + number)


def _tell(summary: "Summary", out: Path) -> None:
    typer.echo(
        f"{summary.records:,} records of {summary.groups:,} groups in {summary.seconds} s: {out}"
    )
    if summary.unknown_kinds:
        typer.echo(f"{summary.unknown_kinds:,} records of kinds that are not read here, kept raw")
    if summary.problems:
        typer.echo(f"{summary.problems:,} batches or records could not be read:", err=True)
        for example in summary.examples:
            typer.echo(f"  {example}", err=True)
        raise typer.Exit(DAMAGED)
    if summary.records and not summary.groups:
        typer.echo("no record is of a group: expected the log of a group coordinator", err=True)
        raise typer.Exit(DAMAGED)


@app.command()
def run(
    out: Out,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="DIR", help="Data directory with the log.")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT", help="A running server instead."),
    ] = None,
    topic: Annotated[str, typer.Option(help="The log's topic.")] = "__consumer_offsets",
    master: Master = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what is new, until Ctrl-C.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a batch run of the same log.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write DIR/report.html too.")
    ] = True,
) -> None:
    """Make all tables of a log."""
    from pipeline.run import Source, prepare

    source = Source(log, bootstrap, topic)
    prepare(source, out, follow=follow, overwrite=overwrite)
    if follow:
        from pipeline.follow import follow_log

        follow_log(_session(master), source, out, lambda text: typer.echo(text, err=True))
        return
    _run_once(source, out, master, report=report)


def _run_once(source: "Source", out: Path, master: str | None, *, report: bool) -> None:
    from pipeline.run import run_batch

    progress = _Progress()
    progress.told("session")
    session = _session(master)
    summary = run_batch(session, source, out, progress.told)
    if report:
        from pipeline.report import write_report

        progress.told("report")
        path = write_report(session, out, out / "report.html")
    progress.done()
    if report:
        typer.echo(f"report: {path}")
    _tell(summary, out)


@app.command()
def report(
    out: Out,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="DIR/report.html by default.")
    ] = None,
    master: Master = None,
) -> None:
    """Write the report of a run: one HTML file that needs nothing else."""
    from pipeline.store import check_readable

    check_readable(out)
    session = _session(master)
    from pipeline.report import write_report

    typer.echo(f"report: {write_report(session, out, to or out / 'report.html')}")


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help='As in "SELECT * FROM rebalances".')],
    out: Out,
    limit: Annotated[int, typer.Option(min=1, help="Rows to print at most.")] = 100,
    master: Master = None,
) -> None:
    """Ask the tables of a run in Spark's SQL; prints tab-separated rows."""
    from pipeline.store import check_readable

    check_readable(out)
    session = _session(master)
    from pipeline.export import query_rows

    for line in query_rows(session, out, sql, limit):
        typer.echo(line)


@app.command()
def export(
    out: Out,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new directory.")],
    form: Annotated[str, typer.Option("--format", help="csv or parquet.")] = "parquet",
    tables: Annotated[
        list[str] | None, typer.Option("--table", help="Only this one; may be repeated.")
    ] = None,
    master: Master = None,
) -> None:
    """Write the tables of a run as they are now, each a directory of plain files."""
    from pipeline.export import check_export, export_tables
    from pipeline.store import check_readable

    names = check_export(to, form, tables or [])
    check_readable(out)
    for path in export_tables(_session(master), out, to, form, names):
        typer.echo(str(path))


def _expected() -> tuple[type[Exception], ...]:
    """What is told in one line; Spark's own errors only where Spark was started."""
    from pipeline.source.errors import SourceError

    if "pyspark" not in sys.modules:
        return PipelineError, SourceError, OSError
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PipelineError, SourceError, OSError, PySparkException, Py4JError


def _line(error: Exception) -> str:
    """What went wrong, without where in Java or Python."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return next(iter(text.strip().splitlines()), type(error).__name__)


def main() -> None:
    """Run a command; what went wrong is one line."""
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        typer.echo(f"error: {without_extra(error)}", err=True)
        sys.exit(1)
    except Exception as error:
        if not isinstance(error, _expected()):
            raise
        typer.echo(f"error: {_line(error)}", err=True)
        sys.exit(2 if isinstance(error, WrongArguments) else 1)


if __name__ == "__main__":
    main()
