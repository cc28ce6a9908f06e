"""Takes the coordinator's log over from a Kafka broker's log directory, and gives it to one.

Implements `coordinator-server log import` and `log export`. The copy checks every record and
replaces nothing before it is complete. Sources are only read.
"""

import fcntl
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from uuid import UUID

from coordinator_server.ids import SystemIds
from coordinator_server.log_tools import inspection
from coordinator_server.log_tools.copying import Copied, PartitionCopy, copy_all
from coordinator_server.log_tools.inspection import TOPIC, Progress
from coordinator_server.storage.segments.directory import (
    CLEAN_SHUTDOWN_FILE,
    LOCK_FILE,
    META_FILE,
    DirectoryInUse,
)
from coordinator_server.storage.segments.directory_files import (
    STARTS_FILE,
    format_meta,
    format_starts,
)
from coordinator_server.storage.segments.files import SYSTEM_FILES
from coordinator_server.storage.segments.journal_names import FILE_PREFIX as JOURNAL_PREFIX
from coordinator_server.storage.segments.segment import SUFFIX
from coordinator_server.topics.catalog import TopicCatalog, from_base64
from coordinator_server.topics.catalog_file import to_base64
from coordinator_server.topics.directories import METADATA_FILE

UNFINISHED: Final = ".exporting"
"""Suffix of a segment in a broker's directory until all of them are there."""
HALF_COMPACTED: Final = (".swap", ".cleaned")


class CannotCopy(Exception):
    """The directories are not what they have to be; the message says which, and what to do."""


# --- import and export ---


def import_log(
    sources: Sequence[Path],
    into: Path,
    *,
    partitions: int,
    node_id: int,
    abort_open: bool = False,
    progress: Progress = lambda _: None,
) -> Copied:
    """Make a data directory of what a stopped broker has in its log directories.

    Raises CannotCopy, CorruptLog, DirectoryInUse, OSError; `into` is as it was then.
    """
    _check_new(into)
    with ExitStack() as locks:
        for source in sources:
            locks.enter_context(_not_running(source))
        found = _all_partitions(sources, partitions)
        topic_id = _topic_id(found)
        with _built(into) as building:
            tasks = [PartitionCopy(each, building / each.name) for each in found]
            copied = copy_all(tasks, progress, abort_open=abort_open)
            for task in tasks:
                _mark(task.target, topic_id)
            _identify(building, _properties(sources[0]), node_id)
            SYSTEM_FILES.replace(building / STARTS_FILE, format_starts(0))
            TopicCatalog(building, _KnownId(topic_id), offsets_partitions=partitions, is_new=True)
    return copied


def export_log(data: Path, into: Path, *, progress: Progress = lambda _: None) -> Copied:
    """Give a stopped server's log to a stopped broker, or to a new directory of the same form.

    A broker's directory has `__consumer_offsets` with as many partitions, all of them empty.
    Raises CannotCopy, CorruptLog, DirectoryInUse, OSError; a broker's log is as it was then.
    """
    with inspection.held(data):
        journals = sorted(data.glob(f"{JOURNAL_PREFIX}*"))
        if journals:
            raise CannotCopy(
                f"{journals[0]} is left of a crash; run `coordinator-server log checkpoint "
                f"--data {data}` first"
            )
        found = inspection.partitions(data)
        if into.is_dir() and (into / META_FILE).exists():
            return _export_into_broker(found, into, progress)
        _check_new(into)
        with _built(into) as building:
            tasks = [PartitionCopy(each, building / each.name) for each in found]
            copied = copy_all(tasks, progress)
            for task in tasks:
                _mark(task.target, _topic_id(found))
            shutil.copyfile(data / META_FILE, building / META_FILE)
        return copied


def _export_into_broker(found: Sequence[Path], into: Path, progress: Progress) -> Copied:
    with inspection.held(into):
        try:
            targets = inspection.partitions(into)
        except FileNotFoundError as error:
            raise CannotCopy(
                f"{into} has no {TOPIC}: start the broker, create that topic with "
                f"{len(found)} partitions, and stop the broker"
            ) from error
        if [each.name for each in targets] != [each.name for each in found]:
            raise CannotCopy(
                f"{into} has {len(targets)} partitions of {TOPIC} ({_range(targets)}), expected "
                f"{len(found)} ({_range(found)}): a group's partition follows from their number"
            )
        for target in targets:
            _check_empty(target)
        tasks = [
            PartitionCopy(source, target, UNFINISHED)
            for source, target in zip(found, targets, strict=True)
        ]
        _forget_unfinished(targets)
        try:
            copied = copy_all(tasks, progress)
        except BaseException:
            _forget_unfinished(targets)
            raise
        # A broker that trusts its mark of a clean stop would not look at what is new.
        SYSTEM_FILES.remove(into / CLEAN_SHUTDOWN_FILE)
        for task in tasks:
            _put_in_place(task)
    return copied


# --- what has to be there ---


def _check_new(into: Path) -> None:
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise CannotCopy(f"{into} is there already, expected a directory that is new or empty")


def _check_empty(target: Path) -> None:
    size = inspection.total_size(target.glob(f"*{SUFFIX}"))
    if size:
        raise CannotCopy(
            f"{target} has {size} bytes of records already, expected an empty partition: only a "
            f"new {TOPIC} can be given another log"
        )


def _all_partitions(sources: Sequence[Path], expected: int) -> list[Path]:
    found: list[Path] = []
    for source in sources:
        try:
            found += inspection.partitions(source)
        except FileNotFoundError as error:
            raise CannotCopy(f"{source} has no {TOPIC}-N, expected a log directory") from error
    numbers = sorted(_number(each) for each in found)
    if numbers != list(range(expected)):
        raise CannotCopy(
            f"{', '.join(map(str, sources))}: {len(found)} partitions of {TOPIC} "
            f"({_range(found)}), expected {expected}: name all log directories of the broker, and "
            "the number of partitions (--partitions)"
        )
    found.sort(key=_number)
    for partition in found:
        _check_finished(partition)
    return found


def _check_finished(partition: Path) -> None:
    """Files of a compaction that was cut short stand for segments; a broker sorts that out."""
    for each in sorted(partition.iterdir()):
        if each.name.endswith(tuple(SUFFIX + suffix for suffix in HALF_COMPACTED)):
            raise CannotCopy(
                f"{each} is left of a compaction that did not end; start the broker and stop it "
                "in order first"
            )


def _number(partition: Path) -> int:
    return int(partition.name.rpartition("-")[2])


def _range(partitions: Sequence[Path]) -> str:
    numbers = sorted(_number(each) for each in partitions)
    whole = numbers == list(range(len(numbers)))
    return f"0 to {numbers[-1]}" if whole else ", ".join(map(str, numbers))


def _topic_id(partitions: Sequence[Path]) -> UUID:
    """The id all partitions are marked with; a new one where none is, as before Kafka 2.8."""
    ids: dict[str, Path] = {}
    for partition in partitions:
        path = partition / METADATA_FILE
        if path.exists():
            text = _pairs(path, ":").get("topic_id", "")
            ids.setdefault(text, path)
    if len(ids) > 1:
        (one, first), (other, second) = list(ids.items())[:2]
        raise CannotCopy(f"{first} says topic_id {one}, {second} says {other}, expected one topic")
    try:
        return from_base64(next(iter(ids))) if ids else SystemIds().topic_id()
    except ValueError as error:
        path = next(iter(ids.values()))
        raise CannotCopy(f"{path}: topic_id {next(iter(ids))!r}, expected 22 characters") from error


def _properties(source: Path) -> dict[str, str]:
    path = source / META_FILE
    return _pairs(path, "=") if path.exists() else {}


def _pairs(path: Path, separator: str) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = (line.partition(separator) for line in lines)
    return {name.strip(): value.strip() for name, mark, value in pairs if mark}


@contextmanager
def _not_running(source: Path) -> Iterator[None]:
    """Keep a broker from starting on a directory that is read; one may be mounted read-only."""
    path = source / LOCK_FILE
    if not path.exists():
        yield
        return
    with path.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise DirectoryInUse(
                error.errno, f"{source} is in use by a server; stop it first"
            ) from error
        yield


# --- putting in place ---


@contextmanager
def _built(into: Path) -> Iterator[Path]:
    """A directory that becomes `into` when all of it is on disk, and goes away if it does not."""
    building = into.with_name(f".{into.name}.unfinished")
    if building.exists():
        shutil.rmtree(building)
    building.mkdir(parents=True)
    try:
        yield building
        for each in [*building.iterdir(), building]:
            if each.is_dir():
                SYSTEM_FILES.sync_directory(each)
        building.rename(into)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    SYSTEM_FILES.sync_directory(into.parent)


def _forget_unfinished(targets: Sequence[Path]) -> None:
    for target in targets:
        for each in target.glob(f"*{UNFINISHED}"):
            each.unlink()


def _put_in_place(task: PartitionCopy) -> None:
    """Replace a broker's empty segment, and what it knows of it, by what was copied beside it."""
    target = task.target
    for each in sorted(target.iterdir()):
        if not each.name.endswith(UNFINISHED) and each.name != METADATA_FILE:
            each.unlink()
    for each in sorted(target.glob(f"*{UNFINISHED}")):
        each.rename(target / each.name.removesuffix(UNFINISHED))
    SYSTEM_FILES.sync_directory(target)


def _mark(target: Path, topic_id: UUID) -> None:
    text = f"version: 0\ntopic_id: {to_base64(topic_id)}"
    SYSTEM_FILES.replace(target / METADATA_FILE, text.encode())


def _identify(data: Path, source: dict[str, str], node_id: int) -> None:
    """Of the cluster the broker was in, but a node and a directory of its own."""
    lines = {
        "version": "1",
        "cluster.id": source.get("cluster.id") or to_base64(SystemIds().topic_id()),
        "node.id": str(node_id),
        "directory.id": to_base64(SystemIds().topic_id()),
    }
    SYSTEM_FILES.replace(data / META_FILE, format_meta(lines))


class _KnownId:
    """Implements ports.Ids: gives the offsets topic the id it has."""

    def __init__(self, topic_id: UUID) -> None:
        self._topic_id = topic_id
        self.member_suffix = SystemIds().member_suffix

    def topic_id(self) -> UUID:
        """The one."""
        return self._topic_id
