"""How the world behaves while life goes on."""

import random
from dataclasses import dataclass

from tests.simulation.log import Disk, Operation


@dataclass(frozen=True, slots=True)
class DiskBehavior:
    """In fair weather the disk is fast, and nodes learn at once what they own."""

    chance: random.Random
    latency_ms: int = 0
    """How long the disk takes for everything."""
    late_news: bool = False
    """Nodes do not learn meanwhile that they have lost a partition."""

    def operations(self, disk: Disk) -> list[Operation]:
        """What the disk will get round to."""
        return [o for o in disk.next_operations() if not (o.is_loss and self.late_news)]
