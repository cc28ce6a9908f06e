"""The files of a journal: the current one, full ones, and free ones for reuse."""

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
    """Creates, reuses and removes files; a manifest lists the files that must exist."""

    def __init__(
        self, directory: Path, owner: str, files: Files, *, syncs: bool, boot: bytes | None
    ) -> None:
        """Open the manifest; JournalRecovery adds the existing files. Raises OSError."""
        self._directory = directory
        self._owner = owner
        self._files = files
        self._syncs = syncs
        self.boot = this_boot() if boot is None else boot
        self.manifest = JournalManifest(directory, files, owner)
        self.changed = Condition()
        """Guards the fields below; notified when a checkpoint has ended."""
        self.current: JournalFile | None = None
        self.full: list[JournalFile] = []
        self.free: list[JournalFile] = []
        self._unnamed: JournalFile | None = None
        """A new file that the manifest may not list; the next `make` uses it."""
        self.generation = 0
        """The latest generation of any file."""
        self.next_number = 0

    def path_of(self, number: int) -> Path:
        """The path of a file number."""
        return self._directory / journal_names.file_name(self._owner, number)

    def live(self) -> list[JournalFile]:
        """The files with entries, oldest first."""
        return [*self.full, *([] if self.current is None else [self.current])]

    def is_certain(self, header: Header) -> bool:
        """Whether a file's frames cannot be lost: they were synced, or the machine still runs."""
        return header.is_synced or (header.boot == self.boot and any(self.boot))

    def make(self) -> JournalFile:
        """Create an empty file. Raises OSError."""
        # After a failed write the manifest may list the file nevertheless, so it is used first.
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
                # At least the header: a later fill must not overwrite it.
                made.size = max(FIRST_BYTES, HEADER_BYTES)
                made.file.fill(0, made.size)
            self.begin_generation(made)
            if self._syncs:
                self._files.sync_directory(self._directory)
        except (Exception, CancelledError):
            # After any exception: a file without a header would look like a damaged one.
            with suppress(Exception):
                made.file.close()
            with suppress(Exception):
                self._files.remove(path)
            raise
        return made

    def begin_generation(self, file: JournalFile) -> None:
        """Write a new header, which makes all frames of a file stale."""
        with self.changed:
            self.generation += 1
            header = Header(self.generation, self._syncs, new_seed(), self.boot)
        # A header over an older one is always synced: generations must not be mixed up.
        file.file.write(0, file_header(header), durably=self._syncs or file.generation > 0)
        file.header = header
        file.position = HEADER_BYTES
        file.names, file.ends = set(), {}

    def abandon(self, file: JournalFile) -> None:
        """Close a file after a failed write or sync; it is never written again."""
        file.broken = True
        try:
            file.file.close()
        finally:
            with self.changed:
                self.full.append(file)
                self.current = None

    def release(self, file: JournalFile) -> None:
        """Free a file that no log needs, or remove it if it has failed. Raises OSError."""
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
        """Remove the free files, and the manifest if it lists no others. Raises OSError."""
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
    """The manifest's entry for an undamaged file."""
    return Listed(file.header.is_synced, file.header.boot.hex())
