"""The events that client processes print for a test: one JSON object per line.

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
    """One event of a client."""

    event: str
    member: str
    at: float
    """Wall clock, seconds."""
    generation: int = -1
    partitions: tuple[int, ...] = ()
    """The partitions of `assigned` and `revoked`."""
    incremental: bool = False
    """Whether `partitions` are added to those of the member instead of replacing them."""
    partition: int = -1
    """The partition of `records`, `produced` and `commit`."""
    offsets: tuple[int, ...] = ()
    """Offsets read or written; the next offset to read for `commit`."""
    text: str = ""


def parse(line: str) -> Event:
    """Parse a line; raises ValueError or TypeError for an invalid one."""
    fields = json.loads(line)
    for name in ("partitions", "offsets"):
        fields[name] = tuple(fields.get(name) or ())
    return Event(**fields)


class EventPrinter:
    """Prints the events of this process to standard output."""

    def __init__(self, member: str) -> None:
        """`member` is the name of this client in the test."""
        self._member = member

    def assigned(
        self, generation: int, partitions: tuple[int, ...], *, incremental: bool = False
    ) -> None:
        """Print an `assigned` event."""
        self._print("assigned", generation, partitions=partitions, incremental=incremental)

    def revoked(self, generation: int, partitions: tuple[int, ...]) -> None:
        """Print a `revoked` event."""
        self._print("revoked", generation, partitions=partitions)

    def offsets(
        self, event: str, partition: int, offsets: tuple[int, ...], generation: int = -1
    ) -> None:
        """Print a `records`, `produced` or `commit` event of a partition."""
        self._print(event, generation, partition=partition, offsets=offsets)

    def say(self, event: str, text: str = "") -> None:
        """Print a `started`, `error` or `left` event."""
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
