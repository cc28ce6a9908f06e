"""Names a log in the journal, so that one made anew under the same name is another one."""

import base64
from pathlib import Path
from typing import Final

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.files import Files, contents
from coordinator_server.storage.segments.recovery import repair_files_command

PARTITION_METADATA: Final = "partition.metadata"
_TOPIC_ID: Final = "topic_id:"


def identity(directory: str, topic_id: str) -> bytes:
    """Of a log: its directory's name and its topic's id."""
    return f"{directory}\0{topic_id}".encode()


def directory_of(identity: bytes) -> str:
    """The name of a log's directory."""
    return identity.partition(b"\0")[0].decode()


def topic_id_of(identity: bytes) -> str:
    """The id of a log's topic, as its directory is marked; empty if it was not."""
    return identity.partition(b"\0")[2].decode()


_ID_BYTES: Final = 16


def read_topic_id(files: Files, directory: Path) -> str | None:
    """The topic id a log's directory is marked with; None if it is not marked.

    Raises OSError; CorruptLog if the mark is not as Kafka writes it.
    """
    if PARTITION_METADATA not in files.names(directory):
        return None
    path = directory / PARTITION_METADATA
    data = contents(files, path)
    try:
        lines = dict(line.split(": ", 1) for line in data.decode("ascii").splitlines())
        topic_id = lines["topic_id"]
        decoded = base64.b64decode(topic_id + "==", altchars=b"-_", validate=True)
        is_sound = set(lines) == {"version", "topic_id"} and lines["version"] == "0"
        is_sound = is_sound and len(decoded) == _ID_BYTES
    except (ValueError, KeyError):
        is_sound = False
    if not is_sound:
        raise CorruptLog(
            f"{path}: {data[:100]!r}, expected lines 'version: 0' and 'topic_id: ...'",
            repair_files_command(directory.parent),
        )
    return topic_id


def check_mark(files: Files, directory: Path, topic_id: str) -> bool:
    """Whether a log's directory is marked with its topic's id; a new one is not yet.

    Raises OSError; CorruptLog if the mark is damaged, missing or of another topic.
    """
    found = read_topic_id(files, directory)
    if found == topic_id:
        return True
    if found is not None:
        raise CorruptLog(
            f"{directory / PARTITION_METADATA} says topic_id {found}, but topics.json says "
            f"{topic_id}",
            repair_files_command(directory.parent),
        )
    segments = [name for name in files.names(directory) if name.endswith(".log")]
    if any(contents_size(files, directory / name) for name in segments):
        raise CorruptLog(
            f"{directory / PARTITION_METADATA} is missing, but there are segments beside it",
            repair_files_command(directory.parent),
        )
    return False


def contents_size(files: Files, path: Path) -> int:
    """Bytes of a file that exists. Raises OSError."""
    file = files.open(path)
    try:
        return file.size()
    finally:
        file.close()


def read_identity(files: Files, directory: Path) -> bytes:
    """The identity that a log's directory states; without an id if it is not marked.

    Raises OSError.
    """
    lines: list[str] = []
    if PARTITION_METADATA in files.names(directory):
        text = contents(files, directory / PARTITION_METADATA)
        lines = text.decode(errors="replace").splitlines()
    ids = [line.removeprefix(_TOPIC_ID).strip() for line in lines if line.startswith(_TOPIC_ID)]
    return identity(directory.name, ids[0] if ids else "")
