"""Makes small files of a data directory anew: `coordinator-server log repair-files`.

Only those that are missing or damaged; a damaged one is kept beside the new one.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from coordinator_server.ids import SystemIds
from coordinator_server.ports import TopicInfo
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.directory_files import (
    META_FILE,
    STARTS_FILE,
    TOPICS_FILE,
    format_meta,
    format_starts,
    log_directories_in,
    parse_meta,
    parse_starts,
)
from coordinator_server.storage.segments.files import SYSTEM_FILES
from coordinator_server.storage.segments.log_identity import PARTITION_METADATA, read_topic_id
from coordinator_server.storage.segments.segment import segment_bases
from coordinator_server.storage.segments.segment_recovery import (
    LEADER_EPOCHS_FILE,
    first_epoch_offset,
)
from coordinator_server.topics.catalog import (
    CorruptCatalog,
    from_base64,
    load,
    to_base64,
)
from coordinator_server.topics.catalog_file import contents_of
from coordinator_server.topics.names import GROUP_METADATA_TOPIC

MANY_STARTS = 1_000_000
"""More than there can have been: tenures of a later start must have later epochs."""
DAMAGED_SUFFIX = ".damaged"
MADE_ANEW = (META_FILE, STARTS_FILE, TOPICS_FILE, PARTITION_METADATA, LEADER_EPOCHS_FILE)
"""The files of which it makes new ones."""


class FileRepair(NamedTuple):
    """A file that is to be made anew."""

    path: Path
    why: str
    contents: bytes
    note: str
    """Notes for the operator who repairs the file."""


class CannotRepair(ValueError):
    """Something has to be said that no file tells."""


def repairs(data: Path, *, cluster_id: str | None, node_id: int) -> Iterator[FileRepair]:
    """The missing and damaged files, with their repairs. Raises CannotRepair, OSError."""
    yield from _meta(data, cluster_id, node_id)
    path = data / STARTS_FILE
    if why := _fault(lambda: parse_starts(path, path.read_bytes())):
        note = f"the number of starts goes on from {MANY_STARTS}"
        yield FileRepair(path, why, format_starts(MANY_STARTS), note)
    path = data / TOPICS_FILE
    topics: dict[str, TopicInfo] = {}
    if why := _fault(lambda: load(path)):
        topics = _topics_of(data)
        counts = ", ".join(f"{topic.name}:{topic.partitions}" for topic in topics.values())
        note = f"topics by the directories there are: {counts}; others have no records, or are lost"
        yield FileRepair(path, why, contents_of(topics, ()), note)
    else:
        topics = load(path)
    for name in sorted(log_directories_in(data, SYSTEM_FILES.names(data))):
        yield from _log(data / name, topics.get(name.rpartition("-")[0]))


def mend(repair: FileRepair) -> None:
    """Put the new file in place; a damaged one gets another name. Raises OSError."""
    if repair.path.exists():
        repair.path.rename(repair.path.with_name(repair.path.name + DAMAGED_SUFFIX))
    SYSTEM_FILES.replace(repair.path, repair.contents)


def _fault(check: Callable[[], object]) -> str:
    """The problem of a file; empty if there is none.

    Raises PermissionError: a file that somebody else may read is not to be made anew.
    """
    try:
        check()
    except PermissionError:
        raise
    except (ValueError, CorruptCatalog, CorruptLog) as error:
        return str(error)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _meta(data: Path, cluster_id: str | None, node_id: int) -> Iterator[FileRepair]:
    path = data / META_FILE
    if why := _fault(lambda: parse_meta(path, path.read_bytes())):
        if cluster_id is None:
            raise CannotRepair(
                f"{why}: no other file has the cluster's id; clients and tools may know it: "
                "--cluster-id ID"
            )
        properties = {
            "version": "1",
            "cluster.id": cluster_id,
            "node.id": str(node_id),
            "directory.id": to_base64(SystemIds().topic_id()),
        }
        yield FileRepair(path, why, format_meta(properties), f"node.id is {node_id}")


def _topics_of(data: Path) -> dict[str, TopicInfo]:
    """The topics by the marks of their partitions. Raises CannotRepair."""
    found: dict[str, TopicInfo] = {}
    for name in sorted(log_directories_in(data, SYSTEM_FILES.names(data))):
        topic, _, index = name.rpartition("-")
        try:
            marked = read_topic_id(SYSTEM_FILES, data / name)
        except CorruptLog:
            continue
        if marked is None:
            continue
        known = found.get(topic)
        if known is not None and to_base64(known.topic_id) != marked:
            raise CannotRepair(f"{data / name} and another partition of it have other topic ids")
        partitions = max(int(index) + 1, 0 if known is None else known.partitions)
        internal = topic == GROUP_METADATA_TOPIC
        found[topic] = TopicInfo(topic, from_base64(marked), partitions, internal)
    return found


def _log(directory: Path, topic: TopicInfo | None) -> Iterator[FileRepair]:
    path = directory / PARTITION_METADATA
    if topic is not None:
        topic_id = to_base64(topic.topic_id)
        found = None
        why = _fault(lambda: read_topic_id(SYSTEM_FILES, directory))
        if not why:
            found = read_topic_id(SYSTEM_FILES, directory)
            why = f"{path}: topic_id {found}, topics.json says {topic_id}"
        if found != topic_id:
            yield FileRepair(path, why, f"version: 0\ntopic_id: {topic_id}".encode(), "")
    path = directory / LEADER_EPOCHS_FILE
    bases = segment_bases(SYSTEM_FILES, directory)
    if not path.is_file() or first_epoch_offset(path.read_bytes()) is None:
        text = f"0\n1\n0 {bases[0] if bases else 0}\n"
        yield FileRepair(path, f"{path} is missing, or not as Kafka writes it", text.encode(), "")
