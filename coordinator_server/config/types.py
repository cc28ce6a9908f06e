"""Values as properties spell them: strict parsers, and the words for what each expects."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo

from coordinator_server.config.listeners import (
    Address,
    Listener,
    parse_address,
    parse_listeners,
    parse_protocol_map,
)

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Expected(NamedTuple):
    """The words for a value that is not a number or one of a few words."""

    text: str


class DeclaredTopic(NamedTuple):
    """A topic that exists from the start."""

    name: str
    partitions: int


def _integer(value: object) -> object:
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?[0-9]+", value):
            raise ValueError
        return int(value)
    return value


def _number(value: object) -> object:
    return float(value) if isinstance(value, str) else value


def _boolean(value: object) -> object:
    if isinstance(value, str):
        return (
            {"true": True, "false": False}[value.lower()] if value.lower() in _BOOLEANS else value
        )
    return value


_BOOLEANS = ("true", "false")


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _listeners(value: object) -> object:
    return parse_listeners(value) if isinstance(value, str) else value


def _protocol_map(value: object) -> object:
    return parse_protocol_map(value) if isinstance(value, str) else value


def _address(value: object) -> object:
    if isinstance(value, str):
        return parse_address(value) if value else None
    return value


def _directory(value: object) -> object:
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",") if part.strip()]
        if len(parts) != 1:
            raise ValueError(f"{len(parts)} directories, expected exactly one")
        return Path(parts[0])
    return value


def _pattern(value: object) -> object:
    if isinstance(value, str):
        try:
            # A group id may have line ends in it, and `.*` is for all.
            return re.compile(value, re.DOTALL) if value else None
        except re.error as error:
            raise ValueError(f"{error}, expected a regular expression") from None
    return value


def _aliases(value: object) -> object:
    if not isinstance(value, str):
        return value
    names = [name.strip().lower() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in ALIASES:
            raise ValueError(f"{name!r} is none of {', '.join(ALIASES)}")
    return tuple(dict.fromkeys(names))


def _topics(value: object) -> object:
    if not isinstance(value, str):
        return value
    topics = [_topic(part.strip()) for part in value.split(",") if part.strip()]
    if len({topic.name for topic in topics}) < len(topics):
        raise ValueError("a topic is there twice, expected each name once")
    return tuple(topics)


def _topic(text: str) -> DeclaredTopic:
    name, _, count = text.rpartition(":")
    if not re.fullmatch(r"[0-9]+", count) or not 1 <= int(count) <= INT_MAX:
        raise ValueError(f"{text!r} is not name:partitions with at least one partition")
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise ValueError(f"{name!r} is not a topic name, expected up to 249 of a-z A-Z 0-9 . _ -")
    return DeclaredTopic(name, int(count))


Int = Annotated[int, BeforeValidator(_integer), Field(ge=INT_MIN, le=INT_MAX)]
Long = Annotated[int, BeforeValidator(_integer), Field(ge=LONG_MIN, le=LONG_MAX)]
Share = Annotated[
    float, BeforeValidator(_number), Field(ge=0.0, le=1.0), Expected("a number from 0 to 1")
]
Rate = Annotated[float, BeforeValidator(_number), Field(ge=1.0), Expected("a number of at least 1")]
Boolean = Annotated[bool, BeforeValidator(_boolean), Field(strict=True)]
Word = BeforeValidator(_lower)
Listeners = Annotated[
    tuple[Listener, ...],
    BeforeValidator(_listeners),
    Expected("a list of NAME://host:port, separated by commas"),
]
ProtocolMap = Annotated[
    tuple[tuple[str, str], ...],
    BeforeValidator(_protocol_map),
    Expected("a list of NAME:PROTOCOL, separated by commas"),
]
HttpAddress = Annotated[Address | None, BeforeValidator(_address), Expected("host:port or nothing")]
Directory = Annotated[Path, BeforeValidator(_directory), Expected("one directory")]
Pattern = Annotated[
    re.Pattern[str] | None,
    BeforeValidator(_pattern),
    Expected("a regular expression or nothing"),
]
ALIASES = ("jmx", "kafka_exporter")
Aliases = Annotated[
    tuple[str, ...],
    BeforeValidator(_aliases),
    Expected(f"any of {', '.join(ALIASES)}, separated by commas"),
]
Topics = Annotated[
    tuple[DeclaredTopic, ...],
    BeforeValidator(_topics),
    Expected("a list of name:partitions, separated by commas"),
]


def expected(field: FieldInfo) -> str:
    """What a field takes, in words: for error messages and for the documentation."""
    for mark in field.metadata:
        if isinstance(mark, Expected):
            return mark.text
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(get_args(field.annotation))
    if field.annotation is bool:
        return "true or false"
    if field.annotation is int:
        return _expected_integer(field.metadata)
    return "a text"


def _expected_integer(metadata: list[Any]) -> str:
    low = max(mark.ge for mark in metadata if hasattr(mark, "ge"))
    high = min(mark.le for mark in metadata if hasattr(mark, "le"))
    if low in (INT_MIN, LONG_MIN):
        return "an integer"
    if high in (INT_MAX, LONG_MAX):
        return f"an integer of at least {low}"
    return f"an integer from {low} to {high}"
