"""Reloads settings on SIGHUP.

A closed terminal sends SIGHUP too, so a server with a terminal stops cleanly instead. A server
started with `nohup` ignores the signal.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from coordinator_server.config import Config, ConfigError
from coordinator_server.config.model import texts
from coordinator_server.observe.printable_text import error_text

RELOADABLE: Final = frozenset({"log.level"})
"""Settings that a reload applies; others need a restart."""

STANDARD_INPUT: Final = 0
Report = Callable[..., None]


class Reloader:
    """Reads the settings again from their sources and applies the reloadable ones."""

    def __init__(
        self,
        config: Config,
        read: Callable[[], tuple[Config, Sequence[str]]],
        apply: Callable[[Config], None],
        report: Report,
    ) -> None:
        """`read` raises ConfigError; `apply` gets settings that differ in `RELOADABLE` only."""
        self._config = config
        self._read = read
        self._apply = apply
        self._report = report

    def __call__(self) -> None:
        """Reload the settings; if they have problems, log them and change nothing."""
        try:
            read, _ = self._read()
        except ConfigError as error:
            self._report("reload_failed", problems=[str(problem) for problem in error.problems])
            return
        except OSError as error:
            self._report("reload_failed", problems=[error_text(error)])
            return
        before, after = texts(self._config), texts(read)
        names = sorted(before.keys() | after.keys())
        changed = [name for name in names if before.get(name) != after.get(name)]
        self._config = replace(self._config, log_level=read.log_level)
        self._apply(self._config)
        self._report(
            "settings_reloaded",
            applied={name: after.get(name, "default") for name in changed if name in RELOADABLE},
            need_restart=[name for name in changed if name not in RELOADABLE],
        )


def handle_hang_up(stopping: asyncio.Event, reload: Callable[[], None] | None) -> None:
    """Handle SIGHUP on the running loop: stop if this runs in a terminal, else reload."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return
    act = stopping.set if reload is None or os.isatty(STANDARD_INPUT) else reload
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, act)
