"""Determines the memory of the machine or of the control group of this process."""

import os
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUP: Final = Path("/proc/self/cgroup")

SHARE_OF_CLIENTS: Final = 4
"""By default client data may use a quarter of the memory."""

MOST_BY_DEFAULT: Final = 1 << 31
LEAST_BY_DEFAULT: Final = 1 << 24


def default_client_memory(memory: int, workers: int) -> int:
    """Default budget in bytes for the client data of one worker."""
    for_all = min(memory // SHARE_OF_CLIENTS, MOST_BY_DEFAULT)
    return max(for_all // workers, LEAST_BY_DEFAULT)


def available_memory(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> int:
    """Bytes of memory of the machine, or a smaller limit of a control group."""
    return min([_physical(), *_limits(cgroups, own)])


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _limits(cgroups: Path, own: Path) -> list[int]:
    """The memory limits of the control groups of this process and of their ancestors."""
    found = []
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, name = cgroups, "memory.max"
        if controllers:
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        group = root / path.lstrip("/")
        # In a container the path is the host's, and the root of the mount is the group itself.
        for directory in (group, *group.parents):
            if directory == root or root in directory.parents:
                text = _text(directory / name).strip()
                found += [int(text)] if text.isdecimal() else []
    return [limit for limit in found if limit]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
