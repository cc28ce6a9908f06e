"""Checks every file of a data directory that a start reads; only reads itself.

What serves `coordinator-server log verify --data`, besides the records of the coordinator's log.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from coordinator_server.observe.printable_text import error_text
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.checkpoint import RECOVERY_POINTS_FILE, parsed_offsets
from coordinator_server.storage.segments.cleaner_checkpoint import CLEANED_FILE
from coordinator_server.storage.segments.directory_files import (
    BROKER_FILE,
    META_FILE,
    STARTS_FILE,
    log_directories_in,
    parse_meta,
    parse_starts,
)
from coordinator_server.storage.segments.files import BlockFile, File, SystemFiles
from coordinator_server.storage.segments.journal_file import find
from coordinator_server.storage.segments.journal_manifest import JournalManifest
from coordinator_server.storage.segments.journal_names import file_name, numbers, owners
from coordinator_server.storage.segments.log_identity import (
    PARTITION_METADATA,
    directory_of,
    read_topic_id,
    topic_id_of,
)
from coordinator_server.storage.segments.segment import Segment, segment_bases
from coordinator_server.storage.segments.segment_recovery import (
    LEADER_EPOCHS_FILE,
    check_first_segment,
    first_epoch_offset,
)
from coordinator_server.topics.catalog import CorruptCatalog, load, to_base64
from coordinator_server.topics.catalog_reading import check_not_missing

TOPICS_FILE = "topics.json"


class _ReadFile:
    """Implements files.File and files.BlockFile for reading alone."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def size(self) -> int:
        """See File."""
        return os.fstat(self._descriptor).st_size

    def read(self, at: int, size: int) -> bytes:
        """See File."""
        return os.pread(self._descriptor, size, at)

    def close(self) -> None:
        """See File."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _refuse(self, *_args: object, **_fields: object) -> None:
        raise OSError("the file is open for reading")

    append = truncate = sync = write = note = fill = _refuse


class ReadOnlyFiles(SystemFiles):
    """The system's files, which are opened for reading."""

    def open(self, path: Path) -> File:
        """See Files."""
        return _ReadFile(path)

    def open_block(self, path: Path) -> BlockFile:
        """See Files."""
        return _ReadFile(path)


_FILES = ReadOnlyFiles()


def check_directory(data: Path) -> list[str]:
    """The problems of a data directory, one line each with the name of the file."""
    problems: list[str] = []

    def attempt(check: Callable[[], object]) -> None:
        try:
            check()
        except (CorruptLog, CorruptCatalog, ValueError) as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{error.filename or data}: {error.strerror or error}")

    # Without any of them it is a directory of plain partitions, such as an export.
    is_servers = any((data / name).exists() for name in (STARTS_FILE, TOPICS_FILE))
    if is_servers:
        attempt(lambda: parse_meta(data / META_FILE, (data / META_FILE).read_bytes()))
        attempt(lambda: parse_starts(data / STARTS_FILE, (data / STARTS_FILE).read_bytes()))
        attempt(lambda: check_not_missing(data / TOPICS_FILE))
    points: dict[str, int] = {}
    for name in sorted(each.name for each in data.iterdir()):
        if name.startswith((RECOVERY_POINTS_FILE, CLEANED_FILE)) and not name.endswith(".tmp"):
            attempt(lambda name=name: _checkpoint(data / name, points))  # type: ignore[misc]
    journaled: set[bytes] = set()
    problems += _journals(data, journaled)
    ids: Mapping[str, str] = {}
    try:
        if (data / TOPICS_FILE).exists():
            topics = load(data / TOPICS_FILE)
            ids = {name: to_base64(topic.topic_id) for name, topic in topics.items()}
    except (CorruptCatalog, OSError) as error:
        problems.append(error_text(error))
    names = [each.name for each in data.iterdir()]
    logs = [name for name in names if _is_log(data, name)]
    for name, point in sorted(points.items()):
        if point and name not in logs and name.rpartition("-")[0] in ids:
            problems.append(f"{data / name} is missing, records up to {point} were synced there")
    for name, topic_id in sorted({(directory_of(each), topic_id_of(each)) for each in journaled}):
        # Not of a topic that was deleted: its entries are left over.
        if name not in logs and topic_id == ids.get(name.rpartition("-")[0]):
            problems.append(f"{data / name} is missing, the journal has records of it")
    for name in sorted(logs):
        if is_servers:
            problems += _marks(data / name, ids.get(name.rpartition("-")[0]))
        problems += _log(data / name, points.get(name, 0))
    return problems


def _is_log(data: Path, name: str) -> bool:
    """Whether a directory is a log's. One that cannot be read is, and is reported as such."""
    try:
        return bool(log_directories_in(data, [name]))
    except OSError:
        return True


def _checkpoint(path: Path, points: dict[str, int]) -> None:
    try:
        found = parsed_offsets(_FILES, path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if path.name.startswith(RECOVERY_POINTS_FILE):
        points.update(found)


def _journals(data: Path, journaled: set[bytes]) -> Iterator[str]:
    """The problems of the journals; adds the identities of their logs to `journaled`."""
    for owner in owners(data, _FILES):
        try:
            yield from _journal(data, owner, journaled)
        except OSError as error:
            yield f"{error.filename or data}: {error.strerror or error}"


def _journal(data: Path, owner: str, journaled: set[bytes]) -> Iterator[str]:
    manifest = JournalManifest(data, _FILES, owner)
    if manifest.problem is not None:
        yield f"{manifest.path}: {manifest.problem}"
    there = numbers(data, owner, _FILES)
    for number in sorted(set(manifest.listed()) - set(there)):
        yield f"{data / file_name(owner, number)}: the file is missing"
    for number in there:
        path = data / file_name(owner, number)
        found = find(_FILES, path, number)
        found.file.file.close()
        journaled.update(found.file.ends)
        if found.problem is not None and number in manifest.listed():
            yield f"{path}: {found.problem}"
        for hole in found.holes:
            yield f"{path}, position {hole.position}: frames up to {hole.last} cannot be read"


def _marks(directory: Path, topic_id: str | None) -> Iterator[str]:
    """The problems of the small files of a log."""
    try:
        found = read_topic_id(_FILES, directory)
        if found is None:
            yield f"{directory / PARTITION_METADATA} is missing"
        elif topic_id is not None and found != topic_id:
            yield f"{directory / PARTITION_METADATA}: topic_id {found}, topics.json says {topic_id}"
    except (CorruptLog, OSError) as error:
        yield str(error)
    epochs = directory / LEADER_EPOCHS_FILE
    try:
        if first_epoch_offset(epochs.read_bytes()) is None:
            yield f"{epochs} is not as Kafka writes it"
    except OSError as error:
        yield f"{epochs}: {error.strerror}"


def _log(directory: Path, point: int) -> Iterator[str]:
    """The problems of the segments of a log."""
    try:
        bases = segment_bases(_FILES, directory)
        check_first_segment(_FILES, directory, bases)
        yield from _segments(directory, bases, point)
    except OSError as error:
        yield f"{error.filename or directory}: {error.strerror or error}"
    except CorruptLog as error:
        yield str(error)


def _segments(directory: Path, bases: list[int], point: int) -> Iterator[str]:
    if not bases and point:
        yield f"{directory} has no segment, records up to offset {point} were synced there"
    may_have_gaps = (directory.parent / BROKER_FILE).exists()
    for base, following in zip(bases, [*bases[1:], None][: len(bases)], strict=True):
        segment = Segment(_FILES, directory, base)
        at, end = 0, base
        try:
            for position, header, _, _ in segment.walk(checked=True):
                at, end = position + header.size, header.last_offset + 1
        except CorruptLog as error:
            yield str(error)
            continue
        finally:
            segment.file.close()
        if at < segment.size:
            yield f"{segment.path}, position {at}: the segment ends in a batch"
        elif following is not None and end != following and not may_have_gaps:
            yield f"{segment.path} ends at offset {end}, the next segment begins with {following}"
        elif following is None and end < point:
            yield f"{segment.path} ends at offset {end}, records up to {point} were synced"
