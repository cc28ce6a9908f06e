"""Names the files of a journal, so that a start notices one that is missing or empty.

A file is named once its header is written and before it has a frame, until it is removed. So a
named file always has a header, and a clean stop leaves no names. The suspects of a damaged file
are kept here, too: what clears the others of suspicion may be in a file that is used again.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

from coordinator_server.storage.segments.checked_json import pack, unpack
from coordinator_server.storage.segments.files import Files, contents, exists

MANIFEST_FILE: Final = ".coordinator-journals"
_VERSION: Final = 1


class Listed(NamedTuple):
    """The manifest's entry of a journal file."""

    is_synced: bool
    boot: str
    """The start of the machine at which it was made."""
    suspects: frozenset[str] | None = None
    """Of a damaged file, the directories of the logs that may have lost something."""
    is_doubtful: bool = False
    """It was there when nothing named it, so others may have been, and are gone."""


class JournalManifest:
    """The files of one journal, by their numbers."""

    def __init__(self, directory: Path, files: Files, owner: str = "") -> None:
        """Read the manifest. `problem` says why it cannot be used, if so. Raises OSError."""
        self.path = directory / (f"{MANIFEST_FILE}.{owner}" if owner else MANIFEST_FILE)
        self.problem: str | None = None
        self._files = files
        self._lock = Lock()
        """The thread that writes names files, that of checkpoints names them no more."""
        self._listed: dict[int, Listed] = {}
        self._is_uncertain = False
        """Whether the last attempt to write it has failed: it may say that or what it said."""
        self._is_there = exists(files, self.path)
        if self._is_there:
            try:
                self._listed = _parsed(unpack(contents(files, self.path)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.problem = str(error)

    def listed(self) -> Mapping[int, Listed]:
        """The files there have to be."""
        return self._listed

    def add(self, number: int, listed: Listed) -> None:
        """Name a file durably. Raises OSError."""
        with self._lock:
            self._replace({**self._listed, number: listed})

    def discard(self, numbers: Iterable[int]) -> None:
        """Name files no more, durably. Raises OSError."""
        gone = set(numbers)
        with self._lock:
            if gone & set(self._listed) or self._is_uncertain:
                self._replace({n: each for n, each in self._listed.items() if n not in gone})

    def remove(self) -> None:
        """Remove the manifest of a journal without files. Raises OSError."""
        with self._lock:
            if self._is_there or self._is_uncertain:
                self._files.remove(self.path)
                self._listed, self._is_there, self._is_uncertain = {}, False, False

    def _replace(self, listed: dict[int, Listed]) -> None:
        forms = {str(number): _form(each) for number, each in sorted(listed.items())}
        self._is_uncertain = True
        self._files.replace(self.path, pack({"version": _VERSION, "files": forms}))
        self._listed, self._is_there, self._is_uncertain = listed, True, False


def _form(listed: Listed) -> dict[str, Any]:
    suspects = None if listed.suspects is None else sorted(listed.suspects)
    form = {"synced": listed.is_synced, "boot": listed.boot, "suspects": suspects}
    return {**form, "doubtful": True} if listed.is_doubtful else form


def _parsed(document: Mapping[str, Any]) -> dict[int, Listed]:
    if document["version"] != _VERSION:
        raise ValueError(f"version {document['version']!r}, expected {_VERSION}")
    listed = {}
    for number, form in document["files"].items():
        suspects = form["suspects"]
        listed[int(number)] = Listed(
            bool(form["synced"]),
            form["boot"],
            None if suspects is None else frozenset(suspects),
            bool(form.get("doubtful", False)),
        )
    return listed
