"""A log as the journal knows it."""

from abc import ABC, abstractmethod
from pathlib import Path


class Journaled(ABC):
    """A log as the journal knows it."""

    directory: Path
    identity: bytes
    end_offset: int

    @abstractmethod
    def sync_and_note(self) -> int | None:
        """Write and sync what was appended so far, and note the recovery point. Blocks.

        Returns where that ends, None if it failed.
        """

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether it takes and writes anything."""

    @abstractmethod
    def fail(self, error: OSError) -> None:
        """Take and sync no more."""

    @abstractmethod
    def close(self) -> None:
        """Sync what is left, unless the log was given up, and close its files. Blocks."""
