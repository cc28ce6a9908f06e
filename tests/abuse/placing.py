"""Puts a process on a core and gives it a priority over other work on the machine."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

AUTOGROUP: Final = Path("/proc/self/autogroup")


def place(core: int | None, priority: int) -> None:
    """Pin this process, and set its nice value.

    Where Linux groups processes by session, nice values count within a session only: then the
    process begins a session of its own, which gets the value too.
    """
    if core is not None:
        os.sched_setaffinity(0, {core})
    if not priority:
        return
    os.setpriority(os.PRIO_PROCESS, 0, priority)
    with suppress(OSError):
        os.setsid()
        AUTOGROUP.write_text(str(priority))
