"""How the files of a journal are called, and which of them are whose."""

from pathlib import Path
from typing import Final

from coordinator_server.storage.segments.files import SYSTEM_FILES, Files
from coordinator_server.storage.segments.journal_manifest import MANIFEST_FILE

FILE_PREFIX: Final = ".coordinator-journal-"
"""A regular file with a dot in front: a broker looks at directories alone."""


def file_name(owner: str, number: int) -> str:
    """Of a file of somebody's journal; the owner is empty where there is only one journal."""
    return f"{FILE_PREFIX}{owner}-{number}" if owner else f"{FILE_PREFIX}{number}"


def numbers(directory: Path, owner: str, files: Files = SYSTEM_FILES) -> list[int]:
    """Of the files there are of somebody's journal, ascending. Raises OSError."""
    return sorted(number for whose, number in _found(directory, files) if whose == owner)


def owners(directory: Path, files: Files = SYSTEM_FILES) -> list[str]:
    """The owners of the journals in a directory. Raises OSError.

    A manifest counts: a journal of which all files are lost has lost records, and has to be read.
    """
    found = {whose for whose, _ in _found(directory, files)}
    for name in files.names(directory):
        if name == MANIFEST_FILE:
            found.add("")
        elif name.startswith(f"{MANIFEST_FILE}.") and not name.endswith(".tmp"):
            found.add(name.removeprefix(f"{MANIFEST_FILE}."))
    return sorted(found)


def _found(directory: Path, files: Files) -> list[tuple[str, int]]:
    behind = [
        n.removeprefix(FILE_PREFIX) for n in files.names(directory) if n.startswith(FILE_PREFIX)
    ]
    parts = [name.rpartition("-") for name in behind]
    return [(owner, int(number)) for owner, _, number in parts if number.isdecimal()]
