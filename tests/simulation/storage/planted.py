"""Bugs of the storage that are planted one at a time, to show that the simulation finds them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from coordinator_server.storage.segments.flusher import FlushPolicy
from tests.simulation.storage.files import Weather
from tests.simulation.storage.instrument import Edit, instrumented
from tests.simulation.storage.setup import CALM, COMPACTION, CUT, FAILURE, Ending, Setup, setup_of
from tests.simulation.storage.world import Outcome, play

SEEDS: Final = 200
"""Within so many seeds every planted bug is found, counted from its first."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, as edits of the sources."""

    name: str
    edits: tuple[Edit, ...]
    first_seed: int = 0
    """Where the search begins, so that it does not take long."""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """Of the setup, and of its lives, what makes the bug show sooner."""
    life: Mapping[str, Any] = field(default_factory=dict)

    def setup_of(self, seed: int) -> Setup:
        """The setup of a seed, in which the bug is likely to show."""
        setup = setup_of(seed)
        *lives, last = setup.lives
        likely = [replace(life, **self.life) for life in lives]
        return replace(setup, **self.sizes, lives=(*likely, last))


def _bug(
    name: str,
    module: str,
    old: str,
    new: str,
    first_seed: int = 0,
    *,
    sizes: Mapping[str, Any] = MappingProxyType({}),
    life: Mapping[str, Any] = MappingProxyType({}),
) -> Planted:
    return Planted(name, (Edit(module, old, new),), first_seed, sizes, life)


_FAILING: Final = Weather(failing=0.02, reading_fails=0.0, slow=0.0)
_JOURNAL: Final = {"policy": FlushPolicy.COMMIT, "journal_bytes": 12_288}
_SMALL: Final = {"partitions": 1, "topics": 0, "operations": 30, "keys": 40, "segment_bytes": 300}
_CLEANS: Final = {**_SMALL, "cleans": True}


PLANTED: Final = [
    _bug(
        "reply before the write",
        "flusher",
        "        if work is None:\n            self._end_flush(waiting, failures)\n",
        "        self._end_flush(waiting, failures)\n",
    ),
    _bug(
        "checkpoint before the sync",
        "log",
        "                return self._writer.sync(self._note_recovery_point)\n",
        "                end = self.write_out()\n                self._note_recovery_point(end)\n"
        "                return end\n",
    ),
    Planted(
        "wrong recovery point",
        (
            Edit(
                "checkpoint",
                "            self._points[directory] = offset\n",
                "            self._points[directory] = offset + 3\n",
            ),
            # Without the check that notices most of them.
            Edit("segment_recovery", "    if not _reaches(segment, point):\n", "    if False:\n"),
        ),
        sizes={**_SMALL, **_JOURNAL},
        life={"ending": Ending.POWER, "weather": CALM},
    ),
    _bug(
        "lost wake-up: who came during a pass",
        "flusher",
        "            if self._waiting and not self._is_due:\n"
        "                self._schedule_flush()\n            self._notify_all",
        "            self._notify_all",
        sizes={"policy": FlushPolicy.COMMIT, "journal_bytes": 0, "cleans": False},
        life={"ending": Ending.STOP},
    ),
    _bug(
        "lost wake-up: a file of the journal is free",
        "journal_checkpoints",
        "                    self._journal_files.changed.notify_all()\n",
        "",
        sizes={**_JOURNAL, "cleans": False},
    ),
    _bug(
        "roll racing compaction",
        "segments",
        "        with self._lock:\n"
        "            first = self.all.index(old[0])\n"
        "            self.all = [*self.all[:first], new, *self.all[first + len(old) :]]\n",
        "        segments = self.all\n"
        "        with self._lock:\n"
        "            first = segments.index(old[0])\n"
        "            self.all = [*segments[:first], new, *segments[first + len(old) :]]\n",
        first_seed=400,
        sizes=_CLEANS,
        life={"ending": Ending.STOP, "weather": CALM, "preemption": 0.1},
    ),
    _bug(
        "file of the journal used again before it is settled",
        "journal_checkpoints",
        "                if self._release_logs(file, kept):\n",
        "                if self._release_logs(file, kept) or True:\n",
    ),
    _bug(
        "cut is not in the journal",
        "log",
        "                self._entries.cut(self.end_offset)\n",
        "                self._entries.take()\n",
        first_seed=150,
        sizes={**_SMALL, **_JOURNAL, "journal_bytes": 44_000, "keys": 2},
        life={"ending": Ending.KILL, "weather": _FAILING, "trigger": FAILURE, "delay": 200},
    ),
    _bug(
        "sync of a log that failed counts",
        "log",
        "        return self._synced_at_close\n",
        "        return self.end_offset\n",
    ),
    _bug(
        "compacted segment renamed before it is synced",
        "compact",
        "            cleaned.file.sync()\n",
        "",
    ),
    _bug(
        "segments put aside before the compacted one has its name",
        "swap",
        "    files.rename(cleaned, swap)\n    files.sync_directory(directory)\n"
        "    for path in replaced:\n"
        "        files.rename(path, path.with_name(path.name + DELETED))\n",
        "    for path in replaced:\n"
        "        files.rename(path, path.with_name(path.name + DELETED))\n"
        "    files.sync_directory(directory)\n"
        "    files.rename(cleaned, swap)\n",
        first_seed=60,
        sizes=_CLEANS,
        life={"ending": Ending.POWER, "weather": CALM, "trigger": COMPACTION, "delay": 10},
    ),
    _bug(
        "waiter told of another log's success",
        "flusher",
        "            log = waiter.log\n            error = failures",
        "            log = waiting[0].log\n            error = failures",
    ),
    _bug(
        "next segment made before the full one is synced",
        "segment_writer",
        "            self._write(self._full[0])\n            self._sync_dirty()\n",
        "            self._write(self._full[0])\n",
    ),
    _bug(
        "log closed while it is compacted",
        "log",
        "        self.closing.set()\n        with self._compacting:\n",
        "        self.closing.set()\n        if True:\n",
        sizes=_CLEANS,
        life={
            "ending": Ending.STOP,
            "weather": Weather(failing=0.02, slow=0.1),
            "preemption": 0.02,
        },
    ),
    _bug(
        "gap in a log whose segments are cut off",
        "log",
        "                self._files.sync_directory(self.directory)\n            active",
        "            active",
        first_seed=20,
        sizes={**_SMALL, **_JOURNAL},
        life={"ending": Ending.POWER, "weather": _FAILING, "trigger": CUT, "delay": 10},
    ),
    _bug(
        "pages trusted that a failed sync has dropped",
        "log",
        "        rewrite_unsynced(self._files, active, point)\n",
        "",
        first_seed=48,
        sizes={**_SMALL, "journal_bytes": 0},
        life={"ending": Ending.KILL, "weather": _FAILING, "trigger": FAILURE, "delay": 200},
    ),
    _bug(
        "recovery point kept of a log that was deleted",
        "journal_checkpoints",
        "                del self.logs[name]\n            self._points.forget(name)\n",
        "                del self.logs[name]\n",
        first_seed=13,
        sizes={**_SMALL, **_JOURNAL, "topics": 1, "operations": 60, "cleans": False},
        life={"ending": Ending.STOP, "weather": CALM},
    ),
]


def caught(bug: Planted, seeds: int = SEEDS) -> Outcome | None:
    """What the first seed that finds the bug found."""
    with instrumented(*bug.edits):
        for seed in range(bug.first_seed, bug.first_seed + seeds):
            outcome = play(bug.setup_of(seed))
            if outcome.broken:
                return outcome
    return None
