"""Names a log in the journal, so that one made anew under the same name is another one."""

from pathlib import Path
from typing import Final

from coordinator_server.storage.segments.files import Files, contents

PARTITION_METADATA: Final = "partition.metadata"
_TOPIC_ID: Final = "topic_id:"


def identity(directory: str, topic_id: str) -> bytes:
    """Of a log: its directory's name and its topic's id."""
    return f"{directory}\0{topic_id}".encode()


def directory_of(identity: bytes) -> str:
    """The name of a log's directory."""
    return identity.partition(b"\0")[0].decode()


def read_identity(files: Files, directory: Path) -> bytes:
    """What the directory of a log says by itself; without an id if it is not marked.

    Raises OSError.
    """
    lines: list[str] = []
    if PARTITION_METADATA in files.names(directory):
        text = contents(files, directory / PARTITION_METADATA)
        lines = text.decode(errors="replace").splitlines()
    ids = [line.removeprefix(_TOPIC_ID).strip() for line in lines if line.startswith(_TOPIC_ID)]
    return identity(directory.name, ids[0] if ids else "")
