"""The server's own log: one line per event, as JSON or for a terminal, never blocking the loop.

The only module that sets structlog up. Event names are snake_case; what varies is in fields.
"""

import atexit
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from coordinator_server.observe.library_log import LibraryLog
from coordinator_server.observe.line_writer import LineWriter
from coordinator_server.observe.printable_text import printable


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


class JsonLines(NamedTuple):
    """Where lines of JSON go that somebody makes by hand."""

    writer: LineWriter
    node_id: int | None
    """The fields of every line."""


class _Levels:
    """Writes all lines alike: structlog calls the method named after the level."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


_writer: LineWriter | None = None
_json_lines: JsonLines | None = None


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
    global _writer, _json_lines  # noqa: PLW0603 - the process has one log
    terminal = os.isatty(fd)
    renderer = _renderer(line_format, terminal=terminal)
    close()
    _writer = LineWriter(fd, lambda lost: _render_lost(renderer, lost))
    levels = _Levels(_writer.write)
    if renderer is _json_line:
        _json_lines = JsonLines(_writer, node_id)
    structlog.configure(
        processors=[*_PROCESSORS, *_signed(node_id), renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_level(level)),
        logger_factory=lambda *_: levels,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[LibraryLog(get_logger().log)], force=True)


def set_level(level: str) -> None:
    """Write lines from this level on; loggers with a level of their own keep it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_level(level)))


def close() -> None:
    """Write what is still waiting, for at most a second."""
    global _writer, _json_lines  # noqa: PLW0603 - the process has one log
    _json_lines = None
    if _writer is not None:
        _writer.close()
        _writer = None
        structlog.reset_defaults()
        logging.getLogger().handlers.clear()


atexit.register(close)


def json_lines() -> JsonLines | None:
    """Where lines go by hand, if they are JSON: there may be very many about groups."""
    return _json_lines


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
        render = structlog.dev.ConsoleRenderer(colors=terminal)
        return lambda logger, method, event: render(logger, method, _printable_event(event))
    return _json_line


def _printable_event(event: EventDict) -> EventDict:
    """An event for a terminal: ids of clients in it neither control it nor make lines."""
    return {
        key: "\n".join(map(printable, value.split("\n")))
        if key == "exception"
        else printable(value if isinstance(value, str) else repr(value))
        for key, value in event.items()
    }


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


_BAD_ENDS: Final = (
    "_failed", "_ended", "_cut", "_long", "_skipped", "_unasked", "_found", "_refused",
    "_not_flushed", "_not_written", "_not_synced",
)  # fmt: skip
"""How the names of events end that an operator should look at."""


_WORST_ENDS: Final = ("_damaged", "_missing", "_lost", "_out_of_reach")
"""How the names of events end that speak of lost data."""


def report(logger: Logger, event: str, fields: Mapping[str, object]) -> None:
    """Write a line; an event that an operator should look at is a warning, lost data an error."""
    if event.endswith(_WORST_ENDS):
        logger.error(event, **fields)
        return
    tell = logger.warning if event.endswith(_BAD_ENDS) else logger.info
    tell(event, **fields)
