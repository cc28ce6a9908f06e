"""The server's own log: one line per event, as JSON or for a terminal, never blocking the loop.

The only module that sets structlog up. Event names are snake_case; what varies is in fields.
"""

import atexit
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from coordinator_server.group.reasons import (
    MemberRemoved,
    Observation,
    OffsetsRemoved,
    RebalanceEvent,
    RebalanceStarted,
    Refused,
)
from coordinator_server.observe.forms import (
    offsets_removed_form,
    rebalance_form,
    refused_form,
    removal_form,
    started_form,
)
from coordinator_server.observe.librarylog import LibraryLog
from coordinator_server.observe.rebalancelines import rebalance_line


@contextmanager
def _hidden(package: str) -> Iterator[None]:
    """Let imports of an optional package fail, unless it is there already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


# structlog.dev imports rich, for tracebacks this server does not print: two thirds of its import.
with _hidden("rich"):
    import structlog
    from structlog.typing import EventDict, FilteringBoundLogger, Processor

Logger = FilteringBoundLogger

MAX_WAITING_LINES = 10_000
GATHER_SECONDS = 0.005
"""What comes within this time after a line is written together with it."""
GATHER_CHARS = 1 << 16
MAX_LISTED = 20
"""Members listed in one line; the JSON API has them all."""


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
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Put a line in the queue; it never blocks."""
        if self._waiting.qsize() < self._max_waiting:
            self._waiting.put(line)
        else:
            self._lost += 1

    # structlog calls the method named after the level.
    debug = info = warning = error = critical = write

    def close(self, timeout: float = 1.0) -> None:
        """Write what waits, for at most `timeout` seconds."""
        self._waiting.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            # More are likely to come: writing each by itself has the threads take turns at it.
            time.sleep(GATHER_SECONDS)
            self._put(self._gathered(line))
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


_writer: LineWriter | None = None
_rebalance_line: Callable[[RebalanceEvent], str] | None = None
"""Where lines are JSON: they are made by hand, since there may be very many of them."""


def configure(
    *, level: str = "info", line_format: str = "auto", fd: int = 2, node_id: int | None = None
) -> None:
    """Set the log up; calling it again replaces what was set up before.

    Args:
        level: debug, info, warning or error.
        line_format: json, console, or auto: console on a terminal.
        fd: the file descriptor to write to, by default the standard error.
        node_id: who writes, in every line, where several processes share a log.
    """
    global _writer, _rebalance_line  # noqa: PLW0603 - the process has one log
    terminal = os.isatty(fd)
    renderer = _renderer(line_format, terminal=terminal)
    close()
    _writer = LineWriter(fd, lambda lost: _render_lost(renderer, lost))
    if renderer is _json_line:
        _rebalance_line = partial(rebalance_line, limit=MAX_LISTED, node_id=node_id)
    structlog.configure(
        processors=[*_PROCESSORS, *_signed(node_id), renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_level(level)),
        logger_factory=lambda *_: _writer,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[LibraryLog(get_logger().log)], force=True)


def close() -> None:
    """Write what is still waiting, for at most a second."""
    global _writer, _rebalance_line  # noqa: PLW0603 - the process has one log
    _rebalance_line = None
    if _writer is not None:
        _writer.close()
        _writer = None
        structlog.reset_defaults()
        logging.getLogger().handlers.clear()


atexit.register(close)

_PROCESSORS: tuple[Processor, ...] = (
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
)


def _signed(node_id: int | None) -> list[Processor]:
    def sign(_logger: Any, _method: str, event: EventDict) -> EventDict:
        event["node_id"] = node_id
        return event

    return [] if node_id is None else [sign]


def _level(name: str) -> int:
    levels = logging.getLevelNamesMapping()
    if name.upper() not in levels:
        raise ValueError(f"level={name!r}, expected debug, info, warning or error")
    return levels[name.upper()]


def _renderer(line_format: str, *, terminal: bool) -> Processor:
    if line_format == "console" or (line_format == "auto" and terminal):
        return structlog.dev.ConsoleRenderer(colors=terminal)
    return _json_line


def _json_line(_logger: Any, _method: str, event: EventDict) -> str:
    first = {key: event.pop(key) for key in ("timestamp", "level", "event") if key in event}
    return _to_json({**first, **event})


_to_json = json.JSONEncoder(default=str).encode


def _render_lost(renderer: Processor, lost: int) -> str:
    event: EventDict = {"event": "log_lines_lost", "lines": lost}
    for processor in _PROCESSORS:
        event = processor(None, "warning", event)  # type: ignore[assignment]
    return str(renderer(None, "warning", event))


def get_logger(level: str | None = None) -> Logger:
    """A logger; one of a level of its own keeps to that also where nobody has set up the log."""
    if level is None:
        logger: Logger = structlog.get_logger()
        return logger
    wrapper = structlog.make_filtering_bound_logger(_level(level))
    own: Logger = structlog.wrap_logger(None, wrapper_class=wrapper)
    return own


_BAD_ENDS: Final = ("_failed", "_ended", "_cut", "_long", "_skipped", "_unasked")
"""How the names of events end that an operator should look at."""


def report(logger: Logger, event: str, fields: Mapping[str, object]) -> None:
    """Write a line; what an operator should look at is a warning."""
    tell = logger.warning if event.endswith(_BAD_ENDS) else logger.info
    tell(event, **fields)


def log_observer(level: str | None = None) -> Callable[[Observation], None]:
    """An observer that writes a line about everything that happens to groups; see get_logger.

    What it depends on of the settings is looked up now, not for every line.
    """
    bound = get_logger(level).bind()
    tells_all = bound.is_enabled_for(logging.DEBUG)
    tell_rebalance = _rebalance_teller(bound)

    def observe(observation: Observation) -> None:
        match observation:
            case RebalanceEvent():
                tell_rebalance(observation)
            case MemberRemoved():
                bound.info("member_removed", **removal_form(observation))
            case OffsetsRemoved():
                bound.info("offsets_removed", **offsets_removed_form(observation))
            case RebalanceStarted() if tells_all:
                bound.debug("rebalance_started", **started_form(observation))
            case Refused() if tells_all:
                bound.debug("refused", **refused_form(observation))

    return observe


def _rebalance_teller(bound: Logger) -> Callable[[RebalanceEvent], None]:
    writer, line = _writer, _rebalance_line
    if not bound.is_enabled_for(logging.INFO):
        return lambda _event: None
    if writer is None or line is None:
        return lambda event: bound.info("rebalance", **rebalance_form(event, MAX_LISTED))
    return lambda event: writer.write(line(event))
