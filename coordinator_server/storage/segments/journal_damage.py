"""Finds out which logs may have lost acknowledged records with damaged parts of a journal.

A damaged frame may have had records of any log, so all logs of the directory are suspects, but for
those that have an entry in a later frame: offsets have no gaps, so such a log is found damaged when
it is opened if its entries and its segment do not meet.
"""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

from coordinator_server.storage.segments.journal_file import FoundFile
from coordinator_server.storage.segments.journal_format import UnreadableFrames
from coordinator_server.storage.segments.journal_manifest import Listed
from coordinator_server.storage.segments.recovery import JournalDamage

FIRST_NAMES: Final = 20
"""How many suspects a line of the log names."""


def log_directories(names: Iterable[str], owner: str) -> set[str]:
    """The names that may be directories of logs, of a share of the data directory or of all."""
    found = set()
    index, _, of = owner.partition("of")
    for name in names:
        _, dash, partition = name.rpartition("-")
        if not dash or not partition.isdecimal() or name.startswith("."):
            continue
        if not owner or int(partition) % int(of) == int(index):
            found.add(name)
    return found


def damages_of(
    found: FoundFile, listed: Listed | None, seen: dict[str, int], logs: Collection[str]
) -> list[JournalDamage]:
    """The damage of a file; `seen` is the last frame with an entry of each log, in all files."""
    path = found.file.path
    known = None if listed is None else listed.suspects
    if found.problem is not None:
        return [JournalDamage(path, 0, found.problem, known or frozenset(logs))]
    damages = []
    for hole in found.holes:
        suspects = known
        if suspects is None:
            everybody = {*logs, *seen}
            suspects = frozenset(name for name in everybody if seen.get(name, 0) <= hole.last)
        damages.append(JournalDamage(path, hole.position, _reason(hole), suspects))
    return damages


def _reason(hole: UnreadableFrames) -> str:
    size = hole.end - hole.position
    if not hole.first:
        return f"the frames up to {hole.last} cannot be read ({size} bytes)"
    count = hole.last - hole.first + 1
    which = f"frame {hole.first}" if count == 1 else f"{count} frames, {hole.first} to {hole.last},"
    return f"{which} cannot be read ({size} bytes)"


def missing_file(path: Path, listed: Listed, logs: Collection[str]) -> JournalDamage:
    """The damage of a journal of which a file is gone."""
    suspects = frozenset(logs) if listed.suspects is None else listed.suspects
    return JournalDamage(path, 0, "the file is missing", suspects)


def tell(
    damage: JournalDamage, report: Callable[..., None], repair: str, *, is_strict: bool
) -> None:
    """Report damage with what it means, as an error."""
    names = sorted(damage.suspects)
    fate = (
        "the partitions that may have lost records are not served; restore the file, or accept the "
        "loss by the command in `repair`"
        if is_strict
        else "log.recovery=truncate: the partitions are served with what is there"
    )
    report(
        "journal_damaged",
        file=str(damage.path),
        position=damage.position,
        error=damage.reason,
        partitions=len(names),
        first_partitions=names[:FIRST_NAMES],
        consequence=fate,
        **({"repair": repair} if is_strict else {}),
    )
