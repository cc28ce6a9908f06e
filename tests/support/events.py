"""What client processes tell a test: one JSON object a line, the same for every client.

Kinds: `started` (before anything is sent), `assigned`, `revoked`, `records`, `commit`
(acknowledged), `produced` (acknowledged), `error`, `left`; and, noted by the test itself,
`paused`, `resumed` and `killed`.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a client."""

    event: str
    member: str
    at: float
    """Wall clock, seconds."""
    generation: int = -1
    partitions: tuple[int, ...] = ()
    """Of `assigned` and `revoked`."""
    incremental: bool = False
    """Whether `partitions` are added to those the member has, and not all there are."""
    partition: int = -1
    """Of `records`, `produced` and `commit`."""
    offsets: tuple[int, ...] = ()
    """Read or written; of `commit` the next offset to read."""
    text: str = ""


def parse(line: str) -> Event:
    """An event from its line; raises ValueError or TypeError for anything else."""
    fields = json.loads(line)
    for name in ("partitions", "offsets"):
        fields[name] = tuple(fields.get(name) or ())
    return Event(**fields)


class Printer:
    """Writes the events of this process to its standard output."""

    def __init__(self, member: str) -> None:
        """Print events of the client that the test calls `member`."""
        self._member = member

    def assigned(
        self, generation: int, partitions: tuple[int, ...], *, incremental: bool = False
    ) -> None:
        """The client was assigned these."""
        self._print("assigned", generation, partitions=partitions, incremental=incremental)

    def revoked(self, generation: int, partitions: tuple[int, ...]) -> None:
        """The client gives these up."""
        self._print("revoked", generation, partitions=partitions)

    def offsets(
        self, event: str, partition: int, offsets: tuple[int, ...], generation: int = -1
    ) -> None:
        """`records`, `produced` or `commit` of a partition."""
        self._print(event, generation, partition=partition, offsets=offsets)

    def say(self, event: str, text: str = "") -> None:
        """`started`, `error` or `left`."""
        self._print(event, text=text)

    def _print(
        self,
        event: str,
        generation: int = -1,
        *,
        partitions: tuple[int, ...] = (),
        incremental: bool = False,
        partition: int = -1,
        offsets: tuple[int, ...] = (),
        text: str = "",
    ) -> None:
        happened = Event(
            event,
            self._member,
            time.time(),
            generation,
            partitions,
            incremental,
            partition,
            offsets,
            text,
        )
        sys.stdout.write(json.dumps(asdict(happened)) + "\n")
        sys.stdout.flush()
