"""Describes attacks: what each does, with which server, and which limits hold for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.abuse.client import Target

MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True)
class Attack:
    """One attack on a server of its own."""

    name: str
    about: str
    """For the table: what is sent, with its bounds."""
    run: Callable[[Target], None]
    seconds: float = 8.0
    """How long it may go on."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Besides the defaults."""
    nofile: int = 0
    """Limit of open files, 0 for the machine's."""
    loop: str = ""
    """The event loop, if it has to be another than that of all attacks."""
    has_slow_disk: bool = False
    is_paused: bool = False
    """Whether the server cannot answer while it is under attack."""
    log_bytes: int = MEBIBYTE
    """What the server may log."""
    commits_may_fail: bool = False
    keeps_bytes: int = 64 * MEBIBYTE
    """What the server may hold longer than the attack lasts: state that was created, and memory
    that the allocator keeps."""
