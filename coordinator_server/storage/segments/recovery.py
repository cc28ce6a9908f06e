"""Settings and findings of a recovery: what a start does about acknowledged data that is gone."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

TopicIds = Callable[[str], str | None]
"""Returns the id of a topic as its directories are marked with it, None if there is none."""


class Recovery(StrEnum):
    """The reaction of a start to lost data (`log.recovery`)."""

    STRICT = "strict"
    """The partitions that may have lost something are not served until they are repaired."""
    TRUNCATE = "truncate"
    """They are served with what is there; the log says what was lost."""


class JournalDamage(NamedTuple):
    """Acknowledged writes of a journal that cannot be read."""

    path: Path
    position: int
    """Where the first of them begins, in bytes; 0 for a whole file."""
    reason: str
    suspects: frozenset[str]
    """Directories of the logs that may have had records in them."""

    def __str__(self) -> str:
        return f"{self.path}, position {self.position}: {self.reason}"


def accept_loss_command(directory: Path) -> str:
    """The command that goes on without what is lost."""
    return f"coordinator-server log checkpoint --accept-loss --data {directory}"


def repair_files_command(directory: Path) -> str:
    """The command that makes small files of a data directory anew."""
    return f"coordinator-server log repair-files --dry-run --data {directory}"


def repair_command(directory: Path) -> str:
    """The command that shows what can be kept of the logs of a data directory."""
    return f"coordinator-server log repair --dry-run --data {directory.parent}"
