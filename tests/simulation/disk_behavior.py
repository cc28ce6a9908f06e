"""The behaviour of the disk while a step runs everything that is due."""

import random
from dataclasses import dataclass

from tests.simulation.log import Disk, Operation


@dataclass(frozen=True, slots=True)
class DiskBehavior:
    """Latency and notifications of the disk."""

    chance: random.Random
    latency_ms: int = 0
    """The latency of every operation."""
    late_news: bool = False
    """Nodes are not notified that they have lost a partition."""

    def operations(self, disk: Disk) -> list[Operation]:
        """The operations that the disk may complete."""
        return [o for o in disk.next_operations() if not (o.is_loss and self.late_news)]
