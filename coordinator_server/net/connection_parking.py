"""Thousands of connections that are answered at once, and may all go on at once.

The event loop reads every socket that is ready before it does anything else, which takes thirty
milliseconds for five thousand of them: the heartbeats of others would wait. So of a crowd only some
are left to the loop. The others rest: one poll object watches them, a few of those that are ready
are taken from it in a turn, and the loop reads these. Where there is no epoll, nobody rests.
"""

import asyncio
import select
import sys
from abc import ABC, abstractmethod
from typing import Final

AWAKE: Final = 1_024
"""Connections of crowds that are left to the loop: to read so many takes some milliseconds."""

WOKEN_PER_TURN: Final = 64
"""Connections that have rested and are ready."""


class Parkable(ABC):
    """A connection."""

    __slots__ = ()

    @abstractmethod
    def rest(self) -> int:
        """Read nothing until `wake_up`; the file descriptor that tells when there is something.

        -1: it is closing, and nothing has happened.
        """

    @abstractmethod
    def wake_up(self) -> None:
        """The rest is over."""

    @abstractmethod
    def failed(self, error: BaseException) -> None:
        """A call of the connection has raised: only this connection is to end."""


class ParkedConnections:
    """The connections that were answered with many others and have not been heard of since."""

    __slots__ = ("_by_number", "_numbers", "_poll", "silent")

    def __init__(self) -> None:
        self.silent: set[Parkable] = set()
        """All of them; whose next request has come is to be taken out."""
        self._numbers: dict[Parkable, int] = {}
        """The file descriptors of those that rest."""
        self._by_number: dict[int, Parkable] = {}
        self._poll: select.epoll | None = None

    def add(self, connection: Parkable) -> None:
        """Its client may go on; it rests if there are many."""
        if sys.platform != "linux":
            return
        self.silent.add(connection)
        if len(self.silent) - len(self._numbers) <= AWAKE or connection in self._numbers:
            return
        if self._poll is None and not self._begin():
            return
        number = connection.rest()
        if number < 0:
            self.silent.discard(connection)
            return
        self._numbers[connection] = number
        self._by_number[number] = connection
        try:
            self._watch(number)
        except OSError:
            # The system watches no more descriptors for this user: the loop goes on reading it.
            self.remove(connection)
            connection.wake_up()

    def _begin(self) -> bool:
        """Make the poll object; False if there is no descriptor for it, and nobody rests yet."""
        try:
            poll = select.epoll()
        except OSError:
            return False
        asyncio.get_running_loop().add_reader(poll.fileno(), self._wake_some)
        self._poll = poll
        return True

    def _watch(self, number: int) -> None:
        poll = self._poll
        assert poll is not None, "it has just been made"
        try:
            poll.modify(number, _ONCE)
        except FileNotFoundError:
            poll.register(number, _ONCE)

    def remove(self, connection: Parkable) -> None:
        """It is closed."""
        self.silent.discard(connection)
        number = self._numbers.pop(connection, None)
        if number is not None:
            del self._by_number[number]

    def _wake_some(self) -> None:
        """The poll object is ready as long as one of its connections is."""
        assert self._poll is not None, "it is what calls this"
        for number, _ in self._poll.poll(0, WOKEN_PER_TURN):
            connection = self._by_number.pop(number, None)
            if connection is not None:
                del self._numbers[connection]
                self.silent.discard(connection)
                # An event that is reported once: none of the others must miss it.
                try:
                    connection.wake_up()
                except Exception as error:  # noqa: BLE001 - of whatever kind
                    connection.failed(error)


_ONCE: Final = select.EPOLLIN | select.EPOLLONESHOT if sys.platform == "linux" else 0
"""The events of a parked connection; the poll object reports each once and keeps the socket."""
