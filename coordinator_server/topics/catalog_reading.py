"""Reads `DATA/topics.json`, and says by name what is wrong with it or that it is missing."""

import json
from pathlib import Path
from typing import Any, Final

from crc32c import crc32c

from coordinator_server.storage.segments.directory_files import (
    TOPICS_FILE,
    Incomplete,
    made_after,
)
from coordinator_server.storage.segments.recovery import TopicIds, repair_files_command
from coordinator_server.topics.catalog_file import CHECKSUM_KEY, CHECKSUM_MARK, FORMAT

_KEYS: Final = {"version", "topics", "deleted", CHECKSUM_KEY}


class CorruptCatalog(Exception):
    """The catalog file cannot be what was written; the message names the file and the fault."""


def read_document(path: Path) -> dict[str, Any]:
    """The contents of a catalog file, checked as far as JSON goes. Raises CorruptCatalog, OSError.

    A file of an earlier release has no checksum.
    """
    data = path.read_bytes()
    try:
        document = json.loads(data)
        if not isinstance(document, dict) or document.keys() - _KEYS:
            raise corrupt(path, "expected an object with version, topics and deleted")
    except (ValueError, RecursionError) as fault:
        raise corrupt(path, str(fault)) from fault
    found = document.get(CHECKSUM_KEY)
    head, _, _ = data.rpartition(CHECKSUM_MARK)
    if found is not None and found != f"{crc32c(head):08x}":
        raise corrupt(path, f"the checksum is {found!r}, the contents have {crc32c(head):08x}")
    if document.get("version") != FORMAT:
        raise CorruptCatalog(
            f"{path}: version is {document.get('version')!r}, expected {FORMAT}: "
            "it was written by a newer release"
        )
    return document


def corrupt(path: Path, fault: str) -> CorruptCatalog:
    """The error for a catalog file that cannot be read, with the way out."""
    return CorruptCatalog(
        f"{path}: not a topic catalog: {fault}; restore it from a copy, or make it anew of the "
        f"partitions that are there with {repair_files_command(path.parent)}"
    )


def check_not_missing(path: Path) -> None:
    """Raise Incomplete if there are logs or a journal, whose topics the file would name."""
    if not path.exists() and path.parent.is_dir():
        names = [each.name for each in path.parent.iterdir()]
        if later := made_after(path.parent, names, TOPICS_FILE):
            raise Incomplete(path.parent, TOPICS_FILE, later)


def topic_ids_in(directory: Path) -> TopicIds:
    """The ids of the topics of a data directory, as its partitions are marked with them.

    Raises CorruptCatalog, Incomplete, OSError.
    """
    path = directory / TOPICS_FILE
    check_not_missing(path)
    ids: dict[str, str] = {}
    if path.exists():
        try:
            ids = {entry["name"]: entry["topic_id"] for entry in read_document(path)["topics"]}
        except (KeyError, TypeError) as fault:
            raise corrupt(path, repr(fault)) from fault
    return ids.get
