"""Reads and writes the small files at the top of a data directory, none of which is guessed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from crc32c import crc32c

from coordinator_server.storage.segments.journal_manifest import MANIFEST_FILE
from coordinator_server.storage.segments.journal_names import FILE_PREFIX
from coordinator_server.storage.segments.log_identity import PARTITION_METADATA
from coordinator_server.storage.segments.recovery import repair_files_command

META_FILE: Final = "meta.properties"
STARTS_FILE: Final = "coordinator-starts"
TOPICS_FILE: Final = "topics.json"
BROKER_FILE: Final = "replication-offset-checkpoint"
"""Written by Kafka brokers, and never here."""
_ORDER: Final = (META_FILE, STARTS_FILE, TOPICS_FILE)
"""As the first start makes them; then come directories of logs, and journals."""
_CHECKSUM: Final = "# crc32c="
"""A comment to Kafka, which leaves it out when it writes the file."""


class Foreign(ValueError):
    """A data directory belongs to another node or cluster."""


class Incomplete(ValueError):
    """A file of a data directory is missing; the message says which, and what to do."""

    def __init__(self, directory: Path, file: str, later: Sequence[str]) -> None:
        there = ", ".join(sorted(later)[:3]) + (", ..." if len(later) > 3 else "")
        if file != META_FILE and (directory / BROKER_FILE).exists():
            way_out = (
                "this looks like the directory of a Kafka broker: take it over with "
                f"coordinator-server log import {directory} --into DIR"
            )
        else:
            way_out = (
                f"restore it from a copy, or make it anew with {repair_files_command(directory)}"
            )
        super().__init__(f"{directory / file} is missing, but {there} is there: {way_out}")


def log_directories_in(directory: Path, names: Sequence[str]) -> list[str]:
    """The names of directories that are marked as those of logs, or have segments."""
    found = []
    for name in names:
        _, dash, partition = name.rpartition("-")
        path = directory / name
        if not (dash and partition.isdecimal() and path.is_dir()):
            continue
        if (path / PARTITION_METADATA).exists() or any(path.glob("*.log")):
            found.append(name)
    return found


def made_after(directory: Path, names: Sequence[str], file: str) -> list[str]:
    """The files that a server makes after this one, as far as they exist."""
    later = [name for name in names if name in _ORDER[_ORDER.index(file) + 1 :]]
    later += [name for name in names if name.startswith((FILE_PREFIX, MANIFEST_FILE))]
    return later + log_directories_in(directory, names)


# --- meta.properties ---


def format_meta(properties: Mapping[str, str]) -> bytes:
    """Kafka's meta.properties, with a checksum in a comment."""
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    return f"{text}{_CHECKSUM}{crc32c(text.encode()):08x}\n".encode()


def parse_meta(path: Path, data: bytes) -> dict[str, str]:
    """The properties, of which node.id and cluster.id are there. Raises ValueError."""
    text, found = _text(path, data), {}
    checked = ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        plain = line.strip()
        if plain.startswith(_CHECKSUM) and plain != f"{_CHECKSUM}{crc32c(checked.encode()):08x}":
            raise _damaged(path, "bytes have changed since it was written (crc32c)")
        checked += line
        if not plain or plain.startswith("#"):
            continue
        name, mark, value = plain.partition("=")
        if not mark or not name.isprintable() or not value.isprintable():
            raise _damaged(path, f"line {number} is {plain!r}, expected NAME=VALUE")
        found[name.strip()] = value.strip()
    if "broker.id" in found:
        # Of brokers before KRaft.
        found.setdefault("node.id", found["broker.id"])
    for name in ("cluster.id", "node.id"):
        if not found.get(name):
            raise _damaged(path, f"{name} is missing")
    return found


# --- coordinator-starts ---


def format_starts(start: int) -> bytes:
    """The number of starts, and its checksum."""
    text = f"{start}\n"
    return f"{text}{crc32c(text.encode()):08x}\n".encode()


def parse_starts(path: Path, data: bytes) -> int:
    """The number of starts. Raises ValueError."""
    text = _text(path, data)
    first, _, rest = text.partition("\n")
    if not first.isdecimal():
        raise _damaged(path, f"{first!r}, expected a number")
    if rest.strip() and rest.strip() != f"{crc32c(f'{first}{chr(10)}'.encode()):08x}":
        raise _damaged(path, "the number has changed since it was written (crc32c)")
    return int(first)


def _damaged(path: Path, why: str) -> ValueError:
    return ValueError(
        f"{path}: {why}; restore it from a copy, or make it anew with "
        f"{repair_files_command(path.parent)}"
    )


def _text(path: Path, data: bytes) -> str:
    """The text of a file. Raises ValueError with its name if it is no text."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _damaged(path, f"byte {error.start} is not UTF-8, expected text") from None
