"""Recovers the journal files that an earlier process has left, and detects damage."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from coordinator_server.storage.segments import journal_names
from coordinator_server.storage.segments.files import Files
from coordinator_server.storage.segments.journal_damage import (
    damages_of,
    log_directories,
    missing_file,
    tell,
)
from coordinator_server.storage.segments.journal_file import FoundFile, JournalFile, find
from coordinator_server.storage.segments.journal_files import JournalFiles, manifest_entry
from coordinator_server.storage.segments.journal_format import PAGE_BYTES, PROGRESS_AT
from coordinator_server.storage.segments.journal_manifest import Listed
from coordinator_server.storage.segments.recovery import (
    JournalDamage,
    Recovery,
    accept_loss_command,
)
from coordinator_server.storage.segments.reporting import Report


class JournalRecovery:
    """The state of a journal's files at the start of the process."""

    def __init__(
        self,
        journal_files: JournalFiles,
        directory: Path,
        owner: str,
        files: Files,
        recovery: Recovery,
        report: Report,
    ) -> None:
        """Open the existing files and add them to the full files. Raises OSError."""
        self._journal_files = journal_files
        self._manifest = journal_files.manifest
        self._directory = directory
        self._owner = owner
        self._files = files
        self._is_strict = recovery is Recovery.STRICT
        self._report = report
        self.sequence = 0
        """The sequence of the last frame."""
        self.suspects: dict[str, JournalDamage] = {}
        """The damage that prevents logs from being opened, by log directory."""
        self.missing: set[int] = set()
        """Numbers of files that the manifest lists and that do not exist."""
        self.is_whole = False
        """Whether every file exists and could be read."""
        self._find()

    def _find(self) -> None:
        """Open the existing files in the order in which they were written."""
        numbers = journal_names.numbers(self._directory, self._owner, self._files)
        if numbers:
            # A killed process may have left file names unsynced, and the files are reused.
            self._files.sync_directory(self._directory)
        listed = self._manifest.listed()
        self._journal_files.next_number = max([*numbers, *listed], default=-1) + 1
        # Ordered by frame sequence: a file may have got its generation before one that was used
        # earlier.
        found = sorted(
            (find(self._files, self._journal_files.path_of(number), number) for number in numbers),
            key=lambda each: each.first,
        )
        self._journal_files.full = [each.file for each in found]
        lasts = [hole.last for each in found for hole in each.holes]
        self.sequence = max([*lasts, *(each.last for each in found)], default=0)
        self._journal_files.generation = max(
            (file.generation for file in self._journal_files.full), default=0
        )
        self._look_for_damage(found, set(listed) - set(numbers))

    def _look_for_damage(self, found: Sequence[FoundFile], missing: set[int]) -> None:
        listed = dict(self._manifest.listed())
        if self._manifest.problem is not None:
            path, problem = self._manifest.path, self._manifest.problem
            self._report("journal_manifest_damaged", file=str(path), error=problem)
        logs = log_directories(self._files.names(self._directory), self._owner)
        seen: dict[str, int] = {}
        for each in found:
            seen = {name: max(seen.get(name, 0), at) for name, at in (seen | each.seen).items()}
        lost: dict[int, list[JournalDamage]] = {}
        for each in found:
            number, known = each.file.number, listed.get(each.file.number)
            is_half_made = each.file.generation > 0 or not _has_begun(each.file)
            if each.problem is not None and known is None and is_half_made:
                # The power failed before both header pages of a new file were written.
                continue
            if damages := damages_of(each, known, seen, logs):
                lost[number] = damages
        self.is_whole = not (lost or missing or self._has_doubtful_files(found, listed))
        for number in missing:
            lost[number] = [missing_file(self._journal_files.path_of(number), listed[number], logs)]
        synced = {each.file.number: each.file.header for each in found}
        for number, damages in lost.items():
            header = synced.get(number)
            known = listed.get(number)
            is_synced = header.is_synced if header is not None and header.generation else True
            boot = (
                header.boot
                if header is not None and header.generation
                else self._journal_files.boot
            )
            if known is not None and (header is None or not header.generation):
                is_synced, boot = known.is_synced, bytes.fromhex(known.boot)
            self._record_damage(
                number,
                damages,
                is_excused=not is_synced and not (any(boot) and boot == self._journal_files.boot),
            )
        for each in found:
            file = each.file
            if file.number not in self._manifest.listed() and file.generation and file.names:
                entry = manifest_entry(file)._replace(is_doubtful=file.number not in listed)
                self._manifest.add(file.number, entry)

    def _has_doubtful_files(self, found: Sequence[FoundFile], listed: Mapping[int, Listed]) -> bool:
        """Whether files may be missing that the manifest does not list.

        The manifest keeps this doubt until the files with entries are removed: a log that was
        refused because of a gap must not be served after the next start.
        """
        doubtful = [
            each.file
            for each in found
            if each.file.names
            and (each.file.number not in listed or listed[each.file.number].is_doubtful)
        ]
        for file in doubtful:
            # Removed instead of reused, which also ends the doubt.
            file.broken = True
        return bool(doubtful) or self._manifest.problem is not None

    def _record_damage(
        self, number: int, damages: Sequence[JournalDamage], *, is_excused: bool
    ) -> None:
        """Record damage, unless it is excused: unsynced frames may be lost with the power."""
        for damage in damages:
            if is_excused:
                self._report(
                    "journal_end_skipped",
                    file=str(damage.path),
                    position=damage.position,
                    reason="log.flush is not commit, and the machine was started again since",
                )
                for file in self._journal_files.full:
                    file.ends_at_hole = file.ends_at_hole or file.number == number
                continue
            repair = accept_loss_command(self._directory)
            tell(damage, self._report, repair, is_strict=self._is_strict)
            if self._is_strict:
                self.suspects.update(dict.fromkeys(damage.suspects, damage))
        if is_excused or not self._is_strict:
            self._manifest.discard([number])
            return
        kept = [file for file in self._journal_files.full if file.number == number]
        for file in kept:
            file.is_damaged = True
        if not kept:
            self.missing.add(number)
        known = self._manifest.listed().get(number)
        if known is None or known.suspects is None:
            everybody = frozenset[str]().union(*(damage.suspects for damage in damages))
            is_synced = known.is_synced if known is not None else True
            boot = known.boot if known is not None else self._journal_files.boot.hex()
            self._manifest.add(number, Listed(is_synced, boot, everybody))


def _has_begun(file: JournalFile) -> bool:
    """Whether both header pages of an unreadable file were written, so that it was in use.

    They are written together before the manifest lists the file; a power loss may keep either.
    """
    return any(file.file.read(0, PAGE_BYTES)) and any(file.file.read(PROGRESS_AT, PAGE_BYTES))
