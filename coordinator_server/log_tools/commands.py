"""`coordinator-server log`: look at the coordinator's log on disk, mend it, move it."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.exceptions import Exit

from coordinator_server.cli.arguments import PATH, fail, say
from coordinator_server.observe.printable_text import error_text, printable_json

if TYPE_CHECKING:
    from coordinator_server.log_tools.copying import Copied
    from coordinator_server.log_tools.segment_repair import Damage


@click.group(no_args_is_help=True)
def log() -> None:
    """Look at the log on disk, check it, mend it."""


_path_argument: Final = click.argument("path", required=False, type=PATH)
_data_instead_option: Final = click.option(
    "--data", type=PATH, help="A data directory (log.dirs), instead of PATH."
)
_data_option: Final = click.option(
    "--data", type=PATH, required=True, help="The data directory (log.dirs)."
)
_partition_option: Final = click.option(
    "--partition", type=click.IntRange(min=0), help="This one only, with --data."
)
HAS_JOURNAL = (
    "note: there is a journal; it alone may hold the last records, which "
    "coordinator-server log checkpoint puts into the segments"
)
OF_COMPACTION = (
    "is not looked at: a compaction is under way or was interrupted; the next start ends it"
)
READS_ONLY = "note: this only reads; under a running server the last batch may be seen half-written"


def _segments(path: Path | None, data: Path | None, partition: int | None) -> list[Path]:
    """The segments the arguments name; ends the command if there are none."""
    from coordinator_server.log_tools import inspection

    if (path is None) == (data is None):
        fail("expected either PATH or --data DIR", code=2)
    if path is not None and partition is not None:
        fail("--partition goes with --data, PATH names a partition already", code=2)
    try:
        if data is None:
            assert path is not None
            return inspection.segments(path)
        if inspection.has_journal(data):
            click.echo(HAS_JOURNAL, err=True)
        chosen = inspection.partitions(data, partition)
        if partition is None and data is not None:
            chosen = [each for each in chosen if _has_segments(each)]
        return [segment for each in chosen for segment in inspection.segments(each)]
    except FileNotFoundError as error:
        fail(error_text(error), code=2)


def _has_segments(directory: Path) -> bool:
    """Whether a partition has segments; that one has none keeps nobody from the others."""
    from coordinator_server.log_tools import inspection

    try:
        inspection.segments(directory)
    except FileNotFoundError as error:
        say(f"note: {error_text(error)}", err=True)
        return False
    return True


def _say_what_is_not_read(segments: Sequence[Path]) -> None:
    from coordinator_server.log_tools import segment_repair

    click.echo(READS_ONLY, err=True)
    for directory in dict.fromkeys(segment.parent for segment in segments):
        for left in segment_repair.unfinished(directory):
            say(f"note: {directory / left} {OF_COMPACTION}", err=True)


@log.command()
@_path_argument
@_data_instead_option
@_partition_option
def dump(path: Path | None, data: Path | None, partition: int | None) -> None:
    """Print every record as a line of JSON, members' subscriptions and assignments decoded.

    PATH is a segment file or a partition's directory.
    """
    from coordinator_protocol.errors import Malformed
    from coordinator_server.log_tools import inspection
    from coordinator_server.storage.base import CorruptLog

    found = _segments(path, data, partition)
    _say_what_is_not_read(found)
    for segment in found:
        try:
            for batch in inspection.batches(segment):
                for record in inspection.records(batch):
                    place = {"partition": segment.parent.name} if data is not None else {}
                    told = json.dumps(place | inspection.describe(record), ensure_ascii=False)
                    click.echo(printable_json(told))
        except Malformed as error:
            fail(f"{segment}, position {batch.position}, offset {record.offset}: {error}")
        except (CorruptLog, OSError) as error:
            fail(error_text(error))


@log.command()
@_path_argument
@_data_instead_option
@_partition_option
def verify(path: Path | None, data: Path | None, partition: int | None) -> None:
    """Check every batch and decode every record; exit with 1 if anything is wrong.

    PATH is a segment file or a partition's directory. With --data every file is checked that a
    start reads: the journal and the logs of topics, too.
    """
    from coordinator_server.log_tools import inspection, verification
    from coordinator_server.log_tools.file_repair import MADE_ANEW
    from coordinator_server.storage.base import CorruptLog
    from coordinator_server.storage.segments.recovery import repair_command, repair_files_command

    found = _segments(path, data, partition)
    _say_what_is_not_read(found)
    count = 0
    wrong: list[str] = []
    with _progress(inspection.total_size(found)) as progress:
        for segment in found:
            try:
                count += inspection.verify(segment, progress)
            except (CorruptLog, OSError) as error:
                wrong.append(error_text(error))
    others: list[str] = []
    if data is not None and partition is None:
        # A damaged segment is known already.
        others = [each for each in verification.check_directory(data) if each not in wrong]
    for each in (*wrong, *others):
        say(f"error: {each}", err=True)
    if wrong:
        say(f"{repair_command(found[0].parent)} shows what can be kept", err=True)
    if data is not None and any(name in each for each in others for name in MADE_ANEW):
        say(f"{repair_files_command(data)} shows which files can be made anew", err=True)
    if wrong or others:
        raise Exit(1)
    say(f"{count} records in {len(found)} segments are sound")


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
@_data_option
@_partition_option
@click.option("--dry-run", is_flag=True, help="Only say what would be taken out.")
@click.option("--yes", is_flag=True, help="Do it.")
def repair(data: Path, partition: int | None, dry_run: bool, yes: bool) -> None:
    """Take damaged bytes out of the log, into a file beside it; what follows is kept."""
    from coordinator_server.log_tools import inspection
    from coordinator_server.storage.base import CorruptLog

    if dry_run == yes:
        fail("expected either --dry-run or --yes", code=2)
    _segments(None, data, partition)
    try:
        with inspection.held(data):
            for directory in inspection.partitions(data, partition):
                _end_compaction(directory, really=yes)
            found = _segments(None, data, partition)
            places = sum(_repair(segment, really=yes) for segment in found)
    except CorruptLog as error:
        fail(f"{error}; move it away if the segments it was to replace are still there")
    except OSError as error:
        fail(error_text(error))
    if not places:
        click.echo("nothing is damaged")
    elif dry_run:
        click.echo("nothing was changed; --yes does it")


def _end_compaction(directory: Path, *, really: bool) -> None:
    """End what a crash has interrupted, as a start does, or say that it would be."""
    from coordinator_server.log_tools import segment_repair

    names = segment_repair.unfinished(directory)
    if names and really:
        segment_repair.finish_compaction(directory)
        say(f"{directory}: ended an interrupted compaction ({', '.join(names)})")
    elif names:
        say(f"{directory}: an interrupted compaction is ended first ({', '.join(names)})")


def _repair(segment: Path, *, really: bool) -> int:
    """Mend a segment, or say what would be; returns how many places were damaged."""
    from coordinator_server.log_tools import segment_repair

    places = segment_repair.damages(segment)
    for place in places:
        click.echo(_describe(place, really=really))
    if really and places:
        # From the back, so that positions before stay what they are.
        for place in reversed(places):
            say(f"kept the bytes in {segment_repair.repair(place)}")
    return len(places)


def _describe(place: "Damage", *, really: bool) -> str:
    what = "taken out" if really else "would be taken out"
    rest = "nothing sound follows" if place.tail else "what follows is sound and stays"
    offsets = f"offsets {place.first_offset} to "
    offsets += "the segment's end" if place.next_offset is None else str(place.next_offset - 1)
    return f"{place}\n  {place.cut} bytes ({offsets}) {what}; {rest}"


def _check_is_data(data: Path) -> None:
    """End the command if a directory has nothing of a server: no lock is left in it then."""
    from coordinator_server.storage.segments.directory_files import META_FILE, made_after

    if not data.is_dir():
        fail(f"{data}: expected a data directory", code=2)
    try:
        names = [each.name for each in data.iterdir()]
        if META_FILE in names or made_after(data, names, META_FILE):
            return
    except OSError as error:
        fail(error_text(error))
    fail(f"{data}: no log, journal or {META_FILE}, expected a data directory", code=2)


@log.command()
@_data_option
@click.option(
    "--accept-loss", is_flag=True, help="Go on where records before the journal's are gone."
)
def checkpoint(data: Path, accept_loss: bool) -> None:
    """Put what a crash has left in the journal into the segments: plain Kafka directories then."""
    from coordinator_server.log_tools import accepted_loss, inspection
    from coordinator_server.storage.segments.journal_names import owners
    from coordinator_server.storage.segments.recovery import Recovery
    from coordinator_server.storage.segments.shares import WHOLE, empty_journal, take_over
    from coordinator_server.topics.catalog import FILE_NAME
    from coordinator_server.topics.catalog_reading import CorruptCatalog, topic_ids_in

    found = 0
    recovery = Recovery.TRUNCATE if accept_loss else Recovery.STRICT

    def tell(event: str, **fields: object) -> None:
        nonlocal found
        found += 1
        details = ", ".join(f"{name} {value}" for name, value in fields.items())
        say(f"{event.replace('_', ' ')}: {details}", err=event != "journal_replayed")

    _check_is_data(data)
    try:
        # A directory of plain partitions has none.
        ids = topic_ids_in(data) if (data / FILE_NAME).exists() else None
        with inspection.held(data):
            left = [
                owner
                for owner in owners(data)
                if not empty_journal(data, owner, tell, recovery=recovery, topic_ids=ids)
            ]
            if accept_loss and not left and not accepted_loss.accept_loss(data, tell):
                fail("some logs are damaged besides; see coordinator-server log repair --dry-run")
            if not left:
                take_over(data, [WHOLE], tell, recovery=recovery, topic_ids=ids)
    except (OSError, CorruptCatalog) as error:
        fail(error_text(error))
    if left:
        fail(
            "the journal is kept for the logs above; mend them and run this again, or go on "
            "without what is lost: --accept-loss"
        )
    click.echo("the journal was empty" if not found else "the journal is empty now")


@log.command("repair-files")
@_data_option
@click.option("--cluster-id", help="For meta.properties, if that has to be made anew.")
@click.option("--node-id", type=click.IntRange(min=0), default=1, help="For the same.")
@click.option("--dry-run", is_flag=True, help="Only say what would be made anew.")
@click.option("--yes", is_flag=True, help="Do it.")
def repair_files(
    data: Path, cluster_id: str | None, node_id: int, dry_run: bool, yes: bool
) -> None:
    """Make files anew that are missing or damaged: meta.properties, topics.json and others.

    The command makes topics.json of the directories of partitions, and what marks a directory of
    topics.json. A damaged file is kept beside the new one, with `.damaged` behind its name.
    """
    from coordinator_server.config.kinds import CLUSTER_ID
    from coordinator_server.log_tools import file_repair, inspection

    if dry_run == yes:
        fail("expected either --dry-run or --yes", code=2)
    try:
        cluster_id = None if cluster_id is None else CLUSTER_ID.parse(cluster_id)
    except ValueError:
        fail(f"--cluster-id {cluster_id}: expected {CLUSTER_ID.takes}", code=2)
    _check_is_data(data)
    try:
        with inspection.held(data):
            found = list(file_repair.repairs(data, cluster_id=cluster_id, node_id=node_id))
            for each in found:
                say(each.why)
                say(f"  {'made' if yes else 'would be made'} anew{each.note and f'; {each.note}'}")
                if yes:
                    file_repair.mend(each)
    except (OSError, file_repair.CannotRepair) as error:
        fail(error_text(error))
    if not found:
        say("nothing is missing or damaged")
    elif dry_run:
        say("nothing was changed; --yes does it")


@log.command("import")
@click.argument("sources", nargs=-1, required=True, metavar="DIR...", type=PATH)
@click.option("--into", type=PATH, required=True, help="The data directory to be made.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=50,
    help="How many __consumer_offsets has there.",
)
@click.option("--node-id", type=click.IntRange(min=0), default=1, help="The server's node.id.")
@click.option(
    "--abort-open-transactions",
    "abort_open",
    is_flag=True,
    help="End them; their offsets never count.",
)
def import_(
    sources: tuple[Path, ...], into: Path, partitions: int, node_id: int, abort_open: bool
) -> None:
    """Make a data directory of a Kafka broker's __consumer_offsets, every record checked.

    DIR is a log directory of a stopped broker; it may have several.
    """
    from coordinator_server.log_tools import kafka_migration

    def run(progress: Callable[[int], None]) -> "Copied":
        return kafka_migration.import_log(
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
        say(f"{count} records of type {kind} are kept; this server skips them")
    if copied.open_transactions:
        fate = "ended as aborted" if abort_open else "open: their offsets stay pending for ever"
        say(f"{copied.open_transactions} transactions were {fate}")
    if partitions != 50:
        say(f"run the server with offsets.topic.num.partitions={partitions}")


@log.command()
@click.argument("data", type=PATH)
@click.option(
    "--into", type=PATH, required=True, help="A stopped broker's log directory, or a new one."
)
def export(data: Path, into: Path) -> None:
    """Give the log to a Kafka broker whose __consumer_offsets is empty, every record checked.

    DATA is the data directory of a stopped server.
    """
    from coordinator_server.log_tools import kafka_migration

    def run(progress: Callable[[int], None]) -> "Copied":
        return kafka_migration.export_log(data, into, progress=progress)

    _tell_of(_copied([data], run, "exporting"), into)


def _copied(
    sources: Sequence[Path], run: Callable[[Callable[[int], None]], "Copied"], what: str
) -> "Copied":
    """Copy with a progress bar; ends the command with what is wrong."""
    from coordinator_server.log_tools import inspection, kafka_migration
    from coordinator_server.storage.base import CorruptLog
    from coordinator_server.storage.segments.directory import DirectoryInUse

    for source in sources:
        if not source.is_dir():
            fail(f"{source}: expected a directory", code=2)
    try:
        files = [path for each in sources for path in each.glob(f"{inspection.TOPIC}-*/*.log")]
        with _progress(inspection.total_size(files), what) as progress:
            return run(progress)
    except kafka_migration.CannotCopy as error:
        fail(str(error), code=2)
    except DirectoryInUse as error:
        fail(error_text(error))
    except CorruptLog as error:
        fail(f"{error}; nothing was changed")
    except OSError as error:
        fail(f"{error_text(error)}; nothing was changed")


def _tell_of(copied: "Copied", into: Path) -> None:
    what = f"{copied.records} records in {copied.partitions} partitions"
    say(f"{what} are in {into}")
