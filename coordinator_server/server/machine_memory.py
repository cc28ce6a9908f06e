"""How much memory this process may use: the machine's, or that of its control group."""

import os
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUP: Final = Path("/proc/self/cgroup")

SHARE_OF_CLIENTS: Final = 4
"""A quarter of the memory is for client data unless the settings say otherwise."""

MOST_BY_DEFAULT: Final = 1 << 31
LEAST_BY_DEFAULT: Final = 1 << 24


def default_client_memory(memory: int, workers: int) -> int:
    """Bytes for the data of all clients of one worker on a machine with so much memory."""
    for_all = min(memory // SHARE_OF_CLIENTS, MOST_BY_DEFAULT)
    return max(for_all // workers, LEAST_BY_DEFAULT)


def available_memory(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> int:
    """Bytes of memory of the machine, or the limit of a control group if that is less."""
    return min([_physical(), *_limits(cgroups, own)])


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _limits(cgroups: Path, own: Path) -> list[int]:
    """The limits of the control groups this process is in, and of those around them."""
    found = []
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, name = cgroups, "memory.max"
        if controllers:
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        group = root / path.lstrip("/")
        # In a container the path is that of the host, and the group itself is mounted as the root.
        for place in (group, *group.parents):
            if place == root or root in place.parents:
                text = _text(place / name).strip()
                found += [int(text)] if text.isdecimal() else []
    return [limit for limit in found if limit]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
