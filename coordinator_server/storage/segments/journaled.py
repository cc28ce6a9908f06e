"""The interface through which the journal uses a log."""

from abc import ABC, abstractmethod
from pathlib import Path


class Journaled(ABC):
    """A log whose batches go through the journal."""

    directory: Path
    identity: bytes
    end_offset: int

    @abstractmethod
    def sync_and_note(self) -> int | None:
        """Write and sync every appended batch and note the recovery point. Blocks.

        Returns the synced end offset, or None if that failed.
        """

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the log accepts appends."""

    @abstractmethod
    def fail(self, error: OSError) -> None:
        """Refuse appends and syncs from now on."""

    @abstractmethod
    def close(self) -> None:
        """Sync the log, unless it has failed, and close its files. Blocks."""
