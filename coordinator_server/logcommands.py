"""`coordinator-server log`: look at the coordinator's log on disk, mend it, move it."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from coordinator_server.wording import words

if TYPE_CHECKING:
    from coordinator_server.logcopy import Copied
    from coordinator_server.mending import Damage

log = typer.Typer(help="Look at the log on disk, check it, mend it.", no_args_is_help=True)

PathArgument = Annotated[
    Path | None, typer.Argument(help="A segment file or a partition's directory.", metavar="PATH")
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="A data directory (log.dirs), instead of PATH.")
]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", min=0, help="This one only, with --data.")
]
HAS_JOURNAL = (
    "note: there is a journal; it alone may hold the last records, which "
    "coordinator-server log checkpoint puts into the segments"
)
OF_COMPACTION = (
    "is not looked at: a compaction is under way or was interrupted; the next start ends it"
)
READS_ONLY = "note: this only reads; under a running server the last batch may be seen half-written"


def _fail(message: str, code: int = 1) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)


def _segments(path: Path | None, data: Path | None, partition: int | None) -> list[Path]:
    """The segments the arguments name; ends the command if there are none."""
    from coordinator_server import logtool

    if (path is None) == (data is None):
        _fail("expected either PATH or --data DIR", code=2)
    if path is not None and partition is not None:
        _fail("--partition goes with --data, PATH names a partition already", code=2)
    try:
        if data is None:
            assert path is not None
            return logtool.segments(path)
        if logtool.has_journal(data):
            typer.echo(HAS_JOURNAL, err=True)
        chosen = logtool.partitions(data, partition)
        return [segment for each in chosen for segment in logtool.segments(each)]
    except FileNotFoundError as error:
        _fail(words(error), code=2)


def _say_what_is_not_read(segments: Sequence[Path]) -> None:
    from coordinator_server import mending

    typer.echo(READS_ONLY, err=True)
    for directory in dict.fromkeys(segment.parent for segment in segments):
        for left in mending.unfinished(directory):
            typer.echo(f"note: {directory / left} {OF_COMPACTION}", err=True)


@log.command()
def dump(
    path: PathArgument = None, data: DataOption = None, partition: PartitionOption = None
) -> None:
    """Print every record as a line of JSON, members' subscriptions and assignments decoded."""
    from coordinator_server import logtool
    from coordinator_server.storage.base import CorruptLog
    from protocol.errors import Malformed

    found = _segments(path, data, partition)
    _say_what_is_not_read(found)
    for segment in found:
        try:
            for batch in logtool.batches(segment):
                for record in logtool.records(batch):
                    place = {"partition": segment.parent.name} if data is not None else {}
                    typer.echo(json.dumps(place | logtool.describe(record), ensure_ascii=False))
        except Malformed as error:
            _fail(f"{segment}, position {batch.position}, offset {record.offset}: {error}")
        except (CorruptLog, OSError) as error:
            _fail(words(error))


@log.command()
def verify(
    path: PathArgument = None, data: DataOption = None, partition: PartitionOption = None
) -> None:
    """Check every batch and decode every record; exit with 1 if anything is wrong."""
    from coordinator_server import logtool
    from coordinator_server.storage.base import CorruptLog

    found = _segments(path, data, partition)
    _say_what_is_not_read(found)
    count, wrong = 0, []
    with _progress(logtool.total_size(found)) as progress:
        for segment in found:
            try:
                count += logtool.verify(segment, progress)
            except (CorruptLog, OSError) as error:
                wrong.append(words(error))
    for each in wrong:
        typer.echo(f"error: {each}", err=True)
    if wrong:
        typer.echo("coordinator-server log repair --dry-run shows what can be kept", err=True)
        raise typer.Exit(1)
    typer.echo(f"{count} records in {len(found)} segments are sound")


@contextmanager
def _progress(total: int, what: str = "verifying") -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


@log.command()
def repair(
    data: Annotated[Path, typer.Option("--data", help="The data directory (log.dirs).")],
    partition: PartitionOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be taken out.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
) -> None:
    """Take damaged bytes out of the log, into a file beside it; what follows is kept."""
    from coordinator_server import logtool
    from coordinator_server.storage.base import CorruptLog

    if dry_run == yes:
        _fail("expected either --dry-run or --yes", code=2)
    _segments(None, data, partition)
    try:
        with logtool.held(data):
            for directory in logtool.partitions(data, partition):
                _end_compaction(directory, really=yes)
            found = _segments(None, data, partition)
            places = sum(_repair(segment, really=yes) for segment in found)
    except CorruptLog as error:
        _fail(f"{error}; move it away if the segments it was to replace are still there")
    except OSError as error:
        _fail(words(error))
    if not places:
        typer.echo("nothing is damaged")
    elif dry_run:
        typer.echo("nothing was changed; --yes does it")


def _end_compaction(directory: Path, *, really: bool) -> None:
    """End what a crash has interrupted, as a start does, or say that it would be."""
    from coordinator_server import mending

    names = mending.unfinished(directory)
    if names and really:
        mending.finish_compaction(directory)
        typer.echo(f"{directory}: ended an interrupted compaction ({', '.join(names)})")
    elif names:
        typer.echo(f"{directory}: an interrupted compaction is ended first ({', '.join(names)})")


def _repair(segment: Path, *, really: bool) -> int:
    """Mend a segment, or say what would be; returns how many places were damaged."""
    from coordinator_server import mending

    places = mending.damages(segment)
    for place in places:
        typer.echo(_describe(place, really=really))
    if really and places:
        # From the back, so that positions before stay what they are.
        for place in reversed(places):
            typer.echo(f"kept the bytes in {mending.repair(place)}")
    return len(places)


def _describe(place: "Damage", *, really: bool) -> str:
    what = "taken out" if really else "would be taken out"
    rest = "nothing sound follows" if place.tail else "what follows is sound and stays"
    offsets = f"offsets {place.first_offset} to "
    offsets += "the segment's end" if place.next_offset is None else str(place.next_offset - 1)
    return f"{place}\n  {place.cut} bytes ({offsets}) {what}; {rest}"


@log.command()
def checkpoint(
    data: Annotated[Path, typer.Option("--data", help="The data directory (log.dirs).")],
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Go on where records before the journal's are gone."),
    ] = False,
) -> None:
    """Put what a crash has left in the journal into the segments: plain Kafka directories then."""
    from coordinator_server import logtool
    from coordinator_server.storage.segments.journal import owners
    from coordinator_server.storage.segments.shares import WHOLE, empty_journal, take_over

    found = 0

    def say(event: str, **fields: object) -> None:
        nonlocal found
        found += 1
        details = ", ".join(f"{name} {value}" for name, value in fields.items())
        typer.echo(f"{event.replace('_', ' ')}: {details}", err=event != "journal_replayed")

    if not data.is_dir():
        _fail(f"{data}: expected a data directory", code=2)
    try:
        with logtool.held(data):
            left = [
                owner
                for owner in owners(data)
                if not empty_journal(data, owner, say, fills_gaps=accept_loss)
            ]
            if not left:
                take_over(data, [WHOLE], say)
    except OSError as error:
        _fail(words(error))
    if left:
        _fail("the journal is kept for the logs above; mend them and run this again")
    typer.echo("the journal was empty" if not found else "the journal is empty now")


@log.command("import")
def import_(
    sources: Annotated[
        list[Path], typer.Argument(help="The log directories of a stopped broker.", metavar="DIR")
    ],
    into: Annotated[Path, typer.Option("--into", help="The data directory to be made.")],
    partitions: Annotated[
        int, typer.Option("--partitions", min=1, help="How many __consumer_offsets has there.")
    ] = 50,
    node_id: Annotated[int, typer.Option("--node-id", min=0, help="The server's node.id.")] = 1,
    abort_open: Annotated[
        bool,
        typer.Option("--abort-open-transactions", help="End them; their offsets never count."),
    ] = False,
) -> None:
    """Make a data directory of a Kafka broker's __consumer_offsets, every record checked."""
    from coordinator_server import interchange

    def run(progress: Callable[[int], None]) -> "Copied":
        return interchange.import_log(
            sources,
            into,
            partitions=partitions,
            node_id=node_id,
            abort_open=abort_open,
            progress=progress,
        )

    copied = _copied(sources, run, "importing")
    _tell_of(copied, into)
    for kind, count in sorted(copied.unknown.items()):
        typer.echo(f"{count} records of type {kind} are kept; this server skips them")
    if copied.open_transactions:
        fate = "ended as aborted" if abort_open else "open: their offsets stay pending for ever"
        typer.echo(f"{copied.open_transactions} transactions were {fate}")
    if partitions != 50:
        typer.echo(f"run the server with offsets.topic.num.partitions={partitions}")


@log.command()
def export(
    data: Annotated[
        Path, typer.Argument(help="The data directory of a stopped server.", metavar="DATA")
    ],
    into: Annotated[
        Path, typer.Option("--into", help="A stopped broker's log directory, or a new one.")
    ],
) -> None:
    """Give the log to a Kafka broker whose __consumer_offsets is empty, every record checked."""
    from coordinator_server import interchange

    def run(progress: Callable[[int], None]) -> "Copied":
        return interchange.export_log(data, into, progress=progress)

    _tell_of(_copied([data], run, "exporting"), into)


def _copied(
    sources: list[Path], run: Callable[[Callable[[int], None]], "Copied"], what: str
) -> "Copied":
    """Copy with a progress bar; ends the command with what is wrong."""
    from coordinator_server import interchange, logtool
    from coordinator_server.storage.base import CorruptLog
    from coordinator_server.storage.segments.directory import DirectoryInUse

    for source in sources:
        if not source.is_dir():
            _fail(f"{source}: expected a directory", code=2)
    try:
        files = [path for each in sources for path in each.glob(f"{logtool.TOPIC}-*/*.log")]
        with _progress(logtool.total_size(files), what) as progress:
            return run(progress)
    except interchange.CannotCopy as error:
        _fail(str(error), code=2)
    except DirectoryInUse as error:
        _fail(words(error))
    except CorruptLog as error:
        _fail(f"{error}; nothing was changed")
    except OSError as error:
        _fail(f"{words(error)}; nothing was changed")


def _tell_of(copied: "Copied", into: Path) -> None:
    what = f"{copied.records} records in {copied.partitions} partitions"
    typer.echo(f"{what} are in {into}")
