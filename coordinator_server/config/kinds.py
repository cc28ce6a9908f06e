"""Parsers for the values of properties, with a description of the accepted values."""

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from coordinator_server.config.listeners import (
    Address,
    parse_address,
    parse_listeners,
    parse_protocol_map,
)

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
MOST_CLUSTER_ID_CHARS = 255
MOST_PARTITIONS = 10_000
"""Most partitions of one topic."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_HOST = re.compile(r"\*|(\*\.)?[a-z0-9_.-]+")
_BOOLEANS = {"true": True, "false": False}


class Kind(NamedTuple):
    """The type of a property.

    `parse` raises ValueError, with a message if it is more specific than `takes`. `show` formats a
    value so that `parse` returns it again.
    """

    parse: Callable[[str], Any]
    takes: str
    show: Callable[[Any], str] = str


class DeclaredTopic(NamedTuple):
    """A topic that exists from the start."""

    name: str
    partitions: int

    def __str__(self) -> str:
        """The form in which it is configured."""
        return f"{self.name}:{self.partitions}"


def integer(*, ge: int, le: int = INT_MAX) -> Kind:
    """An integer within bounds, of 32 bits."""
    takes = f"an integer from {ge} to {le}"
    if le in (INT_MAX, LONG_MAX):
        takes = f"an integer of at least {ge}"
    return Kind(partial(_parse_integer, ge, le), takes)


def long(*, ge: int) -> Kind:
    """An integer of 64 bits."""
    return integer(ge=ge, le=LONG_MAX)


def _parse_integer(least: int, most: int, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError
    value = int(text)
    if value > most:
        raise ValueError(f"expected at most {most}")
    if value < least:
        raise ValueError
    return value


def number(takes: str, *, ge: float, le: float = float("inf")) -> Kind:
    """A number within bounds, which `takes` is to name."""
    return Kind(partial(_parse_number, ge, le), takes)


def _parse_number(least: float, most: float, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError from None  # Python's message would not help
    if not least <= value <= most:
        raise ValueError
    return value


def one_of(*words: str) -> Kind:
    """One of a few words, in lower case or not."""
    return Kind(partial(_parse_word, words), f"one of {', '.join(words)}")


def _parse_word(words: tuple[str, ...], text: str) -> str:
    if text.lower() not in words:
        raise ValueError
    return text.lower()


def some_of(*words: str) -> Kind:
    """Any of a few words."""
    takes = f"any of {', '.join(words)}, separated by commas"
    return Kind(partial(_parse_words, words), takes, _joined)


def _parse_words(words: tuple[str, ...], text: str) -> tuple[str, ...]:
    found = [word.lower() for word in _parts(text)]
    for word in found:
        if word not in words:
            raise ValueError(f"{word!r} is none of {', '.join(words)}")
    return tuple(dict.fromkeys(found))


def _parse_boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError
    return _BOOLEANS[text.lower()]


def _parse_http_address(text: str) -> Address | None:
    return parse_address(text) if text else None


def _parse_directory(text: str) -> Path:
    parts = _parts(text)
    if len(parts) != 1:
        raise ValueError(f"{len(parts)} directories, expected exactly one")
    return Path(parts[0])


def _parse_pattern(text: str) -> re.Pattern[str] | None:
    try:
        # A group id may contain line ends, which `.*` must match.
        return re.compile(text, re.DOTALL) if text else None
    except re.error as error:
        raise ValueError(f"{error}, expected a regular expression") from None


def _parse_topics(text: str) -> tuple[DeclaredTopic, ...]:
    topics = [_parse_topic(part) for part in _parts(text)]
    if len({topic.name for topic in topics}) < len(topics):
        raise ValueError("a topic occurs twice, expected each name once")
    return tuple(topics)


def _parse_topic(text: str) -> DeclaredTopic:
    name, _, count = text.rpartition(":")
    if not re.fullmatch(r"[0-9]{1,10}", count) or not 1 <= int(count) <= MOST_PARTITIONS:
        raise ValueError(f"{text!r} is not name:partitions with 1 to {MOST_PARTITIONS} partitions")
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise ValueError(f"{name!r} is not a topic name, expected up to 249 of a-z A-Z 0-9 . _ -")
    return DeclaredTopic(name, int(count))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _joined(values: Iterable[object]) -> str:
    return ",".join(map(str, values))


def _show_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return _joined(map(":".join, pairs))


def _show_or_nothing(value: object) -> str:
    return "" if value is None else str(value)


def _parse_cluster_id(text: str) -> str | None:
    """The id as `meta.properties` can keep it, None for an empty one. Raises ValueError."""
    text = text.strip()
    if len(text) > MOST_CLUSTER_ID_CHARS or not text.isprintable():
        raise ValueError
    return text or None


def _parse_hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(part.lower() for part in _parts(text))
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host!r} is not a host name; expected names without ports")
    return hosts


CLUSTER_ID = Kind(
    _parse_cluster_id,
    f"a text of at most {MOST_CLUSTER_ID_CHARS} printable characters",
    _show_or_nothing,
)
TEXT = Kind(str, "a text", _show_or_nothing)
BOOLEAN = Kind(_parse_boolean, "true or false", lambda value: str(value).lower())
HOSTS = Kind(
    _parse_hosts, "a list of host names, `*.example.org` or `*`, separated by commas", _joined
)
DIRECTORY = Kind(_parse_directory, "one directory")
HTTP_ADDRESS = Kind(_parse_http_address, "host:port or nothing", _show_or_nothing)
LISTENERS = Kind(parse_listeners, "a list of NAME://host:port, separated by commas", _joined)
PATTERN = Kind(
    _parse_pattern,
    "a regular expression or nothing",
    lambda pattern: "" if pattern is None else pattern.pattern,
)
PROTOCOL_MAP = Kind(parse_protocol_map, "a list of NAME:PROTOCOL, separated by commas", _show_pairs)
TOPICS = Kind(_parse_topics, "a list of name:partitions, separated by commas", _joined)
