"""Writes lines to a file descriptor without ever waiting for who reads them."""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

MAX_WAITING_LINES: Final = 10_000
GATHER_SECONDS: Final = 0.02
"""The time in which lines are gathered into one write."""
GATHER_CHARS: Final = 1 << 16


class LineWriter:
    """Writes lines to a file descriptor from a thread of its own.

    A reader that stops reading holds up that thread alone: above `max_waiting` lines new ones are
    dropped, and a line says how many.
    """

    def __init__(
        self, fd: int, lost_line: Callable[[int], str], max_waiting: int = MAX_WAITING_LINES
    ) -> None:
        self._fd = fd
        self._lost_line = lost_line
        self._max_waiting = max_waiting
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lost = 0
        self._worker = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._worker.start()

    def write(self, line: str) -> None:
        """Put a line in the queue; it never blocks."""
        if self._waiting.qsize() < self._max_waiting:
            self._waiting.put(line)
        else:
            self._lost += 1

    def close(self, timeout: float = 1.0) -> None:
        """Write what waits, for at most `timeout` seconds."""
        self._waiting.put(None)
        self._worker.join(timeout)

    def _run(self) -> None:
        keeps_up = True
        while (line := self._waiting.get()) is not None:
            if keeps_up:
                # More are likely to come: writing each by itself has the threads take turns at it.
                time.sleep(GATHER_SECONDS)
            self._put(self._gathered(line))
            keeps_up = self._waiting.empty()
            if self._lost and self._waiting.empty():
                lost, self._lost = self._lost, 0
                self._put([self._lost_line(lost)])

    def _gathered(self, line: str) -> list[str]:
        """A line and those that wait behind it, some kilobytes; the end stays in the queue."""
        lines, size = [line], len(line)
        while size < GATHER_CHARS and not self._waiting.empty():
            following = self._waiting.get()
            if following is None:
                self._waiting.put(None)
                break
            lines.append(following)
            size += len(following)
        return lines

    def _put(self, lines: Iterable[str]) -> None:
        rest = "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            # Nobody reads the log any more: serving goes on without it.
            return
