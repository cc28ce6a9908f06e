"""The files of a journal: the one that is written, full ones, and free ones to be used again."""

from asyncio import CancelledError
from contextlib import suppress
from pathlib import Path
from threading import Condition

from coordinator_server.storage.segments import journal_names
from coordinator_server.storage.segments.files import Files
from coordinator_server.storage.segments.journal_file import (
    FIRST_BYTES,
    JournalFile,
    new_seed,
    this_boot,
)
from coordinator_server.storage.segments.journal_format import (
    HEADER_BYTES,
    NO_HEADER,
    Header,
    file_header,
)
from coordinator_server.storage.segments.journal_manifest import JournalManifest, Listed


class JournalFiles:
    """Makes, reuses and removes files; a manifest names those that have to be there."""

    def __init__(
        self, directory: Path, owner: str, files: Files, *, syncs: bool, boot: bytes | None
    ) -> None:
        """Take up no file yet. Raises OSError."""
        self._directory = directory
        self._owner = owner
        self._files = files
        self._syncs = syncs
        self.boot = this_boot() if boot is None else boot
        self.manifest = JournalManifest(directory, files, owner)
        self.changed = Condition()
        """Guards what follows; notified when a checkpoint has ended."""
        self.current: JournalFile | None = None
        self.full: list[JournalFile] = []
        self.free: list[JournalFile] = []
        self._unnamed: JournalFile | None = None
        """A new file that the manifest does not name for sure: the next one to be used."""
        self.generation = 0
        """The latest."""
        self.next_number = 0

    def path_of(self, number: int) -> Path:
        """Where a file of a number is."""
        return self._directory / journal_names.file_name(self._owner, number)

    def live(self) -> list[JournalFile]:
        """The files with entries, oldest first."""
        return [*self.full, *([] if self.current is None else [self.current])]

    def is_certain(self, header: Header) -> bool:
        """Whether nothing that came before can be lost: it was synced, or the power never went."""
        return header.is_synced or (header.boot == self.boot and any(self.boot))

    def make(self) -> JournalFile:
        """Make an empty file. Raises OSError."""
        # One of which the manifest could not be written may be named there nevertheless.
        made = self._unnamed = self._unnamed or self._new_file()
        self.manifest.add(made.number, manifest_entry(made))
        self._unnamed = None
        return made

    def _new_file(self) -> JournalFile:
        number = self.next_number
        path = self.path_of(number)
        self.next_number += 1
        made = JournalFile(path, number, self._files.open_block(path), 0, NO_HEADER)
        try:
            if self._syncs:
                # Never less than the header, which a later fill would overwrite.
                made.size = max(FIRST_BYTES, HEADER_BYTES)
                made.file.fill(0, made.size)
            self.begin_generation(made)
            if self._syncs:
                self._files.sync_directory(self._directory)
        except (Exception, CancelledError):
            # Whatever it is: a file without a header would look like a damaged one.
            with suppress(Exception):
                made.file.close()
            with suppress(Exception):
                self._files.remove(path)
            raise
        return made

    def begin_generation(self, file: JournalFile) -> None:
        """Make all that a file holds stale."""
        with self.changed:
            self.generation += 1
            header = Header(self.generation, self._syncs, new_seed(), self.boot)
        # Over an older one it is always durable: frames of two generations must not be mixed up.
        file.file.write(0, file_header(header), durably=self._syncs or file.generation > 0)
        file.header = header
        file.position = HEADER_BYTES
        file.names, file.ends = set(), {}

    def abandon(self, file: JournalFile) -> None:
        """Never write into a file again: what the system says of it is worth nothing now."""
        file.broken = True
        try:
            file.file.close()
        finally:
            with self.changed:
                self.full.append(file)
                self.current = None

    def release(self, file: JournalFile) -> None:
        """Use a settled file again, or remove one that has failed. Raises OSError."""
        if file.broken:
            file.file.close()
            self.manifest.discard([file.number])
            self._files.remove(file.path)
            self._files.sync_directory(self._directory)
        else:
            try:
                self.begin_generation(file)
            except (Exception, CancelledError):
                file.broken = True
                file.file.close()
                raise
        with self.changed:
            self.full.remove(file)
            if not file.broken:
                self.free.append(file)

    def remove_free(self) -> None:
        """Remove the free files, and the manifest if it names no other. Raises OSError."""
        if self._unnamed is not None:
            self.free.append(self._unnamed)
            self._unnamed = None
        self.manifest.discard([file.number for file in self.free])
        while self.free:
            file = self.free.pop()
            file.file.close()
            self._files.remove(file.path)
        if not self.manifest.listed():
            self.manifest.remove()


def manifest_entry(file: JournalFile) -> Listed:
    """What the manifest says of a sound file."""
    return Listed(file.header.is_synced, file.header.boot.hex())
